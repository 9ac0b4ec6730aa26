/**
 * `switchyard worker`: starts a worker daemon, and stops it.
 *
 * The worker connects to its host and listens on no port. This file builds and connects all parts, like `serve.ts`.
 * Every expected failure has an exit code and a message that says what to do. A stop signal drains the worker; a second
 * one ends it at once.
 */
import { createDaemon } from '../../actors/daemon/create-daemon.ts'
import type { DaemonEnd, DaemonEndKind } from '../../actors/daemon/daemon-dependencies.ts'
import type { Dialer } from '../../core/daemon/ports.ts'
import type { Log, Meters } from '../../core/ports.ts'
import { removeFileDurably, replaceFile } from '../../store/files/atomic.ts'
import { type OpenWorkerStore, openWorkerStore } from '../../store/worker-store.ts'
import { openIdentity, type StoredIdentity } from '../../worker/identity.ts'
import type { AvailableSandbox } from '../../worker/sandbox/driver.ts'
import { findSandbox } from '../../worker/sandbox/registry.ts'
import type { NamedSecret } from '../../worker/secrets/secret-search.ts'
import { makeScreen } from '../../worker/terminal/headless-screen.ts'
import { announceWorker } from '../announce-worker.ts'
import { createSleepCountingClock, realClock, realRandom } from '../clock.ts'
import { installCrashHandler } from '../crash-handler.ts'
import { createExecutor } from '../create-executor.ts'
import { resolveDataDir } from '../data-dir.ts'
import { EXIT, ExitError, unwrapOrExit } from '../exit.ts'
import { joinService } from '../join-service.ts'
import { openLog } from '../log.ts'
import { LogRedactor } from '../log-redaction.ts'
import { readNetwork } from '../network.ts'
import { credentialFileOf, endNotedDrain, noteHost, ownDemandClient, withNotedTrust } from '../own-worker.ts'
import { delayParserOptimization } from '../parser-optimization.ts'
import { watchRescue } from '../rescue.ts'
import { createHostDialer, type HostRoute, resolveHost } from '../resolve-host.ts'
import type { ServiceNotifier } from '../service-notifier.ts'
import type { StopSignals } from '../signals.ts'
import { stopWorkerOnSignals } from '../stop-worker.ts'
import { inDataDir, TAKE_OVER_WORKER } from '../store-exit-code.ts'
import { VERSION } from '../version.ts'
import { chooseConcurrency, chooseName, type WorkerOptions } from './worker-options.ts'

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

/** A worker has no metrics endpoint. */
const noMeters: Meters = { count: () => {}, gauge: () => {}, observe: () => {} }

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
    await noteHost(dataDir, options)
    endNotedDrain(dataDir, ownDemandClient(dataDir, route, 'worker'), {
      clock: realClock,
      random: realRandom,
      log,
    })
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
      announceWorker(daemon, { notifier: place.notifier, hostName, clock: realClock })
    } else ended({ is: 'broken', detail: started.refusal.message })
  })
  await executor.close()
  // A stop during the enrollment must not lose the new credential.
  await place.identity.waitUntilSettled()
  return end
}

// ---- the end -------------------------------------------------------------------------------------------------------

async function finish(
  end: DaemonEnd,
  store: OpenWorkerStore,
  log: Log,
  redactor: LogRedactor,
): Promise<void> {
  const code = EXIT_OF[end.is]
  const rescue = watchRescue(store.state())
  await store.close().catch((error) => log.error({ err: error }, 'could not close everything in order'))
  const reason = rescue.describe(redactor.redact(end.detail))
  if (code === EXIT.done) log.info({ reason }, 'stopped')
  else {
    log.error({ exitCode: code, end: end.is, reason }, 'stopped')
    process.stderr.write(`switchyard: ${reason}\n`)
  }
  process.exit(code)
}
