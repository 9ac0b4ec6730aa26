/**
 * `switchyard worker`: starts a worker daemon, and stops it.
 *
 * The worker connects to its host and listens on no port. This file builds and connects all parts, like `serve.ts`.
 * Every expected failure has an exit code and a message that says what to do. A stop signal drains the worker; a second
 * one ends it at once.
 */
import { hostname } from 'node:os'
import { setFlagsFromString } from 'node:v8'
import { createDaemon } from '../../../actors/daemon/create-daemon.ts'
import type { Daemon, DaemonEnd, DaemonEndKind, DaemonStatus } from '../../../actors/daemon/daemon-context.ts'
import type { Dialer } from '../../../core/daemon/ports.ts'
import { normalizeWorkerName } from '../../../core/fleet/admission.ts'
import type { TakeOver } from '../../../core/owner.ts'
import type { Log } from '../../../core/ports/log.ts'
import { removeFileDurably, replaceFile } from '../../../store/files/atomic.ts'
import { type OpenWorkerStore, openWorkerStore } from '../../../store/worker-store.ts'
import { openIdentity, type StoredIdentity } from '../../../worker/identity.ts'
import type { AvailableSandbox } from '../../../worker/sandbox/driver.ts'
import { findSandbox } from '../../../worker/sandbox/registry.ts'
import type { NamedSecret } from '../../../worker/secrets/secret-search.ts'
import { makeScreen } from '../../../worker/terminal/headless-screen.ts'
import { createSleepCountingClock, noMeters, realClock, realRandom } from '../../process/clock.ts'
import { resolveDataDir } from '../../process/data-dir.ts'
import { EXIT, ExitError, unwrapOrExit, usageError } from '../../process/exit.ts'
import { openLog } from '../../process/log.ts'
import type { LogChoice } from '../../process/log-options.ts'
import { LogRedactor } from '../../process/log-redaction.ts'
import { readNetwork } from '../../process/network.ts'
import { joinService, type ServiceNotifier } from '../../process/service-notifier.ts'
import { endProcess, installCrashHandler, onStdinClosed, type StopSignals } from '../../process/signals.ts'
import { inDataDir, TAKE_OVER_WORKER, watchRescue } from '../../process/store-exit-code.ts'
import { VERSION } from '../../process/this-program.ts'
import { createExecutor } from './create-executor.ts'
import { credentialFileOf, endNotedDrain, noteHost, ownDemandClient, withNotedTrust } from './own-worker.ts'
import { createHostDialer, type HostRoute, resolveHost } from './resolve-host.ts'

const EXIT_OF: Readonly<Record<DaemonEndKind, number>> = {
  stopped: EXIT.done,
  // A restart sends the report.
  unreported: EXIT.refused,
  revoked: EXIT.notAccepted,
  unauthorized: EXIT.notAccepted,
  'no-credential': EXIT.notAccepted,
  protocol: EXIT.protocol,
  malformed: EXIT.protocol,
  replaced: EXIT.inUse,
  broken: EXIT.broken,
}

/** The options of `switchyard worker`. */
interface WorkerOptions extends LogChoice {
  readonly host?: string
  readonly tokenFile?: string
  readonly joinKeyFile?: string
  readonly name?: string
  /** Absent: 2, or 1 for a worker that takes one run. */
  readonly concurrency?: number
  readonly dataDir?: string
  readonly takeOver?: TakeOver
  readonly sandboxDir?: string
  /** Folders below which git may use local repositories. */
  readonly localRepos: readonly string[]
  /** Code hosts that git may contact at private addresses and other ports. */
  readonly privateCodeHost: readonly string[]
  readonly caFile?: string
  readonly insecure?: true
  /** The SHA-256 of the host's certificate or of its key. */
  readonly fingerprint?: string
  /** The user whose program a host on this machine is. */
  readonly hostUser?: string
  readonly drainSeconds?: number
  /** Take one run and end. */
  readonly once?: true
  readonly shareActors?: true
  /** End after so long without a run and a terminal. */
  readonly idleSeconds?: number
  /** An agent without output for this long counts as stalled. */
  readonly stallMinutes: number
  /** End when standard input is closed, that is when the parent process has ended. */
  readonly endWithStdin?: true
  /** Finish the runs and end when standard input is closed, that is when the supervisor has ended. */
  readonly drainWithStdin?: true
}

export async function worker(given: WorkerOptions): Promise<void> {
  delayParserOptimization()
  const dataDir = resolveDataDir(given.dataDir, 'switchyard-worker')
  const options = withNotedTrust(dataDir, given)
  const redactor = new LogRedactor()
  const log = openLog({ level: options.logLevel, format: options.logFormat, redactor })
  const { signals, notifier } = joinService(log, redactor)
  installCrashHandler(log)
  // The variable is meant for a host; sandboxes must not inherit it.
  delete process.env.SWITCHYARD_TOKEN
  const name = chooseName(options.name)
  const concurrency = chooseConcurrency(options)
  const route = resolveHost(options, log)
  const dialer = createHostDialer(rememberingKey(route, dataDir, options, log), log)
  const sandbox = await requireSandbox(log)
  const ports = { clock: realClock, random: realRandom, log, meters: noMeters }
  const open = () => openWorkerStore({ dataDir, takeOver: options.takeOver, ...ports })
  const store = await inDataDir(dataDir, open, TAKE_OVER_WORKER)
  try {
    const identity = await openWorkerIdentity(dataDir, route, options, log)
    redactor.addSecrets(secretsOfIdentity(identity).map(({ value }) => value))
    await noteHost(dataDir, options)
    endNotedDrain(dataDir, ownDemandClient(dataDir, route, 'worker'), log)
    const end = await runDaemon({
      options,
      name,
      concurrency,
      dialer,
      identity,
      store,
      dataDir,
      sandbox,
      hostName: route.name,
      log,
      signals,
      notifier,
    })
    await finish(end, store, log, redactor)
  } catch (error) {
    await store.close()
    throw error
  }
}

/** Notes the key of a pinned host at the first connection, so that a renewed certificate of that key is accepted. */
function rememberingKey(route: HostRoute, dataDir: string, options: WorkerOptions, log: Log): HostRoute {
  const { pin } = route
  if (pin === undefined) return route
  let known = pin.key
  const onAccepted = (hostKey: string) => {
    if (hostKey === known) return
    known = hostKey
    noteHost(dataDir, { ...options, hostKey }).catch((error: unknown) =>
      log.warn({ err: error }, 'the key of the host could not be noted'),
    )
  }
  return { ...route, pin: { ...pin, onAccepted } }
}

// ---- preparation -----------------------------------------------------------------------------------------------

/** Runs at once of a worker that is not told how many. */
const CONCURRENCY = 2

function chooseName(asked: string | undefined): string {
  const name = normalizeWorkerName(asked ?? hostname())
  if (name === '' && asked !== undefined)
    throw usageError('--name: must have a visible character; leave it out for the name of this machine')
  return name || 'worker'
}

function chooseConcurrency({ concurrency, once }: WorkerOptions): number {
  if (once === true && concurrency !== undefined && concurrency > 1)
    throw usageError('--concurrency: a worker takes one run with --once; leave one of the two out')
  return concurrency ?? (once === true ? 1 : CONCURRENCY)
}

/** About the bytes of compiled code that run before V8 optimizes a function: here, some hundred responses. */
const OPTIMIZATION_BUDGET_BYTES = 100_000_000

/**
 * Lets V8 optimize the HTTP parser of undici only in a process that reads many responses.
 *
 * The parser is WebAssembly with one function of 70 kB. V8 optimizes it after some dozen characters, which costs a
 * tenth of a second of processor time, and a worker reads a single response before its WebSocket. A caller must have
 * loaded the compiled code of its bundle: V8 refuses code that was compiled under other flags.
 */
function delayParserOptimization(): void {
  setFlagsFromString(`--wasm-tiering-budget=${OPTIMIZATION_BUDGET_BYTES}`)
}

/** Throws when this machine cannot run sandboxes. */
async function requireSandbox(log: Log): Promise<AvailableSandbox> {
  const probed = await findSandbox()
  if (!probed.ok) throw new ExitError(EXIT.unavailable, `this machine cannot execute runs: ${probed.detail}`)
  const { provider, walls, missingWalls } = probed
  log.info({ provider, walls, missingWalls }, 'sandboxes work on this machine')
  return probed
}

async function openWorkerIdentity(
  dataDir: string,
  { hostname }: HostRoute,
  options: WorkerOptions,
  log: Log,
): Promise<StoredIdentity> {
  const opened = await openIdentity({
    credentialFile: credentialFileOf(dataDir),
    tokenFile: options.tokenFile,
    joinKeyFile: options.joinKeyFile,
    host: hostname,
    log,
    replaceFile,
    deleteFile: removeFileDurably,
  })
  if (opened.ok) return opened.value
  const { kind, message } = opened.refusal
  throw new ExitError(kind === 'invalid' ? EXIT.usage : EXIT.notAccepted, message)
}

// ---- at work -------------------------------------------------------------------------------------------------------

interface WorkerCommandContext {
  readonly options: WorkerOptions
  readonly name: string
  readonly concurrency: number
  readonly dialer: Dialer
  readonly identity: StoredIdentity
  readonly store: OpenWorkerStore
  readonly dataDir: string
  readonly sandbox: AvailableSandbox
  readonly hostName: string
  readonly log: Log
  readonly signals: StopSignals
  readonly notifier: ServiceNotifier
}

function secretsOfIdentity(identity: StoredIdentity): readonly NamedSecret[] {
  const { joinKey } = identity
  const credential = identity.credential()?.secret
  return [
    ...(credential === undefined ? [] : [{ name: 'the worker’s credential', value: credential }]),
    ...(joinKey === undefined ? [] : [{ name: 'the join key', value: joinKey }]),
  ]
}

async function runDaemon(place: WorkerCommandContext): Promise<DaemonEnd> {
  const { options, log, hostName, dataDir, name, concurrency } = place
  const clock = createSleepCountingClock(realClock)
  const stallMs = options.stallMinutes * 60_000
  const sandboxDir = options.sandboxDir ?? process.env.SWITCHYARD_SANDBOX_DIR
  const where = sandboxDir === undefined || sandboxDir === '' ? {} : { sandboxDir }
  const { executor, ...machine } = await createExecutor({
    dataDir,
    ...where,
    takeOver: options.takeOver,
    sandbox: place.sandbox,
    localRepos: options.localRepos,
    privateCodeHosts: options.privateCodeHost,
    stallMs,
    slots: concurrency,
    network: unwrapOrExit(readNetwork(process.env)),
    ownSecrets: () => secretsOfIdentity(place.identity),
    clock,
    log,
  })
  const end = await new Promise<DaemonEnd>((ended) => {
    const daemon = createDaemon({
      clock,
      random: realRandom,
      log,
      meters: noMeters,
      database: place.store,
      dialer: place.dialer,
      identity: place.identity,
      executor,
      makeScreen,
      ...machine,
      name,
      concurrency,
      version: VERSION,
      ...(options.drainSeconds === undefined ? {} : { drainMsMax: options.drainSeconds * 1_000 }),
      ...(options.once === true ? { once: true } : {}),
      ...(options.shareActors === true ? { sharesActors: true } : {}),
      ...(options.idleSeconds === undefined ? {} : { idleMsMax: options.idleSeconds * 1_000 }),
      onEnd: ended,
    })
    log.info({ url: hostName, dataDir, name, concurrency }, 'switchyard is working')
    const started = daemon.start()
    if (started.ok) {
      stopWorkerOnSignals(daemon, place)
      announceWorker(daemon, place)
    } else ended({ is: 'broken', detail: started.refusal.message })
  })
  await executor.close()
  // A stop during the enrollment must not lose the new credential.
  await place.identity.waitUntilSettled()
  return end
}

/** How long a worker tries to reach its host before it counts as ready all the same. */
const WORKER_READY_MS_MAX = 3_000
const POLL_MS = 50

/**
 * Tells the service manager that a worker is ready, and describes the worker in a line for `systemctl status`.
 *
 * A worker that its host does not accept ends a moment after its start, and must not count as ready before that. A host
 * that does not answer is no reason to wait: the worker dials until it does.
 */
function announceWorker(
  daemon: Daemon,
  { notifier, hostName }: Pick<WorkerCommandContext, 'notifier' | 'hostName'>,
): void {
  const until = realClock.monotonic() + WORKER_READY_MS_MAX
  const poll = () => {
    const { state, online, trouble } = daemon.status()
    if (state === 'stopped' || state === 'stopping') return
    if (online || trouble !== undefined || realClock.monotonic() >= until)
      notifier.ready(() => formatDaemonStatus(daemon.status(), hostName))
    else realClock.after(POLL_MS, poll)
  }
  poll()
}

function formatDaemonStatus({ state, online, trouble, executions }: DaemonStatus, hostName: string): string {
  const runs = executions.length === 1 ? '1 run' : `${executions.length} runs`
  const connection = online ? `connected to ${hostName}` : `not connected to ${hostName}`
  return [state, runs, connection].join(', ') + (online || trouble === undefined ? '' : `: ${trouble}`)
}

// ---- the end -------------------------------------------------------------------------------------------------------

/** The time limit of an immediate stop, for the end of sandboxes and a slow disk. */
const STOP_NOW_MS_MAX = 10_000

/**
 * The first stop signal drains the worker, a second one ends it at once. A worker that ends with its standard input
 * hands its runs back when that is closed; the worker of a supervisor finishes its runs instead.
 */
function stopWorkerOnSignals(
  daemon: Daemon,
  { options, signals, log, store }: Pick<WorkerCommandContext, 'options' | 'signals' | 'log' | 'store'>,
): void {
  const exitLate = () => realClock.after(watchRescue(store.state()).msMax, () => process.exit(EXIT.broken))
  const inTime = () => realClock.after(STOP_NOW_MS_MAX, exitLate)
  const stopNow = () => {
    inTime()
    daemon.stopNow()
  }
  signals.onStop(() => daemon.drain(), stopNow)
  if (options.endWithStdin === true)
    onStdinClosed(() => {
      log.info({}, 'the host of this worker stops or has ended; its runs are handed back')
      inTime()
      daemon.handBack()
    })
  else if (options.drainWithStdin === true)
    onStdinClosed(() => {
      log.info({}, 'the supervisor of this worker has ended; the worker finishes its runs and ends')
      daemon.drain()
    })
}

async function finish(
  end: DaemonEnd,
  store: OpenWorkerStore,
  log: Log,
  redactor: LogRedactor,
): Promise<never> {
  const rescue = watchRescue(store.state())
  await store.close().catch((error) => log.error({ err: error }, 'could not close everything in order'))
  endProcess(log, EXIT_OF[end.is], rescue.describe(redactor.redact(end.detail)), { end: end.is })
}
