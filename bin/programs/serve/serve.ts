/**
 * `switchyard serve`: starts the host, and stops it.
 *
 * This file builds all parts and connects them; no other code reads the environment, the clock or a path by itself.
 * Every expected failure has an exit code and a message that says what to do.
 */
import { hostname, totalmem } from 'node:os'
import { join } from 'node:path'
import { createHost } from '../../../actors/root/create-host.ts'
import { settingSentence } from '../../../client/settings.ts'
import { isTakenOver, type TakeOver, takeOverFlag } from '../../../core/owner.ts'
import type { Log } from '../../../core/ports/log.ts'
import type { LocalWorkerLauncher } from '../../../core/ports/machines.ts'
import type { Store } from '../../../core/ports/store.ts'
import { readConfig } from '../../../core/settings/read.ts'
import { secretsOf } from '../../../core/settings/redact.ts'
import type { CompletedConfig, ServiceConfig } from '../../../protocol/config.ts'
import { messageOf } from '../../../protocol/message-of.ts'
import type { HealthResponse, HostExecution } from '../../../protocol/worker.ts'
import { createLocalWorker } from '../../../providers/local-worker.ts'
import { inheritableDescriptors } from '../../../store/lmdb/descriptors.ts'
import { openStore } from '../../../store/store.ts'
import { findTlsFault } from '../../../transport/listener-port.ts'
import { createPrometheusMetrics, type Metrics } from '../../../transport/metrics.ts'
import { findSandbox } from '../../../worker/sandbox/registry.ts'
import { createOutputFor } from '../../output/output.ts'
import { createSleepCountingClock, realClock, realRandom } from '../../process/clock.ts'
import { resolveDataDir } from '../../process/data-dir.ts'
import { EXIT, ExitError } from '../../process/exit.ts'
import { openLog } from '../../process/log.ts'
import type { LogChoice } from '../../process/log-options.ts'
import { LogRedactor } from '../../process/log-redaction.ts'
import { reportError } from '../../process/report-error.ts'
import { joinService, type ServiceChannel } from '../../process/service-notifier.ts'
import { endProcess, installCrashHandler, onStdinClosed } from '../../process/signals.ts'
import { inDataDir, startExitError, watchRescue } from '../../process/store-exit-code.ts'
import { VERSION } from '../../process/this-program.ts'
import { createHostProviders, type HostProviders } from './create-providers.ts'
import { launchToken, removeLaunch } from './launch-file.ts'
import { openServer } from './open-server.ts'

/** Time from the end of all actors until the store is closed, in case its disk hangs. */
export const CLOSE_STORE_MS_MAX = 5_000

export interface ServeOptions extends LogChoice {
  readonly dataDir?: string
  readonly takeOver?: TakeOver
  /** The ports for this start, instead of `server.port` and `fleet.port`. */
  readonly port?: number
  readonly fleetPort?: number
  /** Serve the dashboard's page as well, and print its link. */
  readonly dashboard?: true
  readonly dashboardPort?: number
  /** Serve the inspector's page as well, at this port, and print its link. */
  readonly inspect?: number
  /** End when standard input is closed, that is when the parent process has ended. */
  readonly endWithStdin?: true
  /** False: this host runs no worker itself, whatever `worker.local` says. */
  readonly localWorker?: boolean
  /** For the local worker, as for `switchyard worker`. */
  readonly localRepos: readonly string[]
  readonly privateCodeHost: readonly string[]
}

export async function serve(options: ServeOptions): Promise<void> {
  const dataDir = resolveDataDir(options.dataDir)
  const redactor = new LogRedactor()
  const log = openLog({ level: options.logLevel, format: options.logFormat, redactor })
  const channel = joinService(log, redactor)
  installCrashHandler(log)
  const token = takeLaunchToken(redactor, log)

  // The sandbox probe takes a process, so run it in parallel with the rest.
  const sandbox = probeHostExecution(log)
  const metrics = createPrometheusMetrics()
  const ports = { clock: realClock, random: realRandom, log, meters: metrics }
  const store = await inDataDir(dataDir, () => openStore({ dataDir, takeOver: options.takeOver, ...ports }))
  try {
    await serveFrom(store, { dataDir, options, redactor, log, ...channel, token, sandbox, metrics })
  } catch (error) {
    await endFailedStart(error, { dataDir, store, log })
  }
}

interface OpenHost {
  readonly dataDir: string
  readonly store: Store
  readonly log: Log
}

interface HostStart extends ServiceChannel {
  readonly dataDir: string
  readonly options: ServeOptions
  readonly redactor: LogRedactor
  readonly log: Log
  readonly token: string
  readonly sandbox: Promise<HostExecution>
  readonly metrics: Metrics
}

async function serveFrom(store: Store, start: HostStart): Promise<void> {
  const { dataDir, options, redactor, log, signals, notifier, token, sandbox, metrics } = start
  await removeLaunch(dataDir, store.database)
  const { configText, configuration } = await loadConfig(store)
  const know = (effective: ServiceConfig) => redactor.addSecrets(secretsOf(effective))
  know(configuration.effective)
  void store.trail.record({ source: 'host', action: 'startHost', on: { version: VERSION } })
  const startedAt = new Date(realClock.now()).toISOString()
  const execution = await sandbox

  const providers = createHostProviders({
    dataDir,
    clock: realClock,
    log,
    environment: process.env,
    inheritable: inheritableDescriptors,
    maySend: () => !isTakenOver(store.database.state()),
  })
  let url: string | undefined
  let fleetPort: number | undefined
  await new Promise<void>((ended) => {
    const host = createHost({
      clock: realClock,
      elapsedMs: createSleepCountingClock(realClock).monotonic,
      random: realRandom,
      log,
      meters: metrics,
      store,
      configuration,
      configText,
      onConfigChange: know,
      findTlsFault,
      ...(execution.kind === 'local-worker' && options.localWorker !== false
        ? { localWorker: createLocalWorkerLauncher(options, { dataDir, store, url: () => url, log }) }
        : {}),
      ...providers,
      provisioning: { ...providers.provisioning, fleetPort: () => fleetPort },
      port: () => (url === undefined ? undefined : Number(new URL(url).port)),
      health: describeHost(configuration.effective, execution),
      openListeners: async (hostApi) => {
        const launching = { dataDir, token, startedAt, configuration, options, log, metrics, notifier, store }
        return openServer(hostApi, launching, (bound, boundFleetPort) => {
          url = bound
          fleetPort = boundFleetPort
        })
      },
      finish: (exitCode, reason) =>
        void endHost(exitCode, redactor.redact(reason), { dataDir, store, log, providers }).then(ended),
    })
    host.start()
    signals.onStop((reason) => host.stop(reason))
    if (options.endWithStdin === true)
      onStdinClosed(() => host.stop('the parent process of this host has ended'))
  })
}

/** Child processes must not inherit the token. */
function takeLaunchToken(redactor: LogRedactor, log: Log): string {
  const { token, warning } = launchToken(process.env, realRandom)
  delete process.env.SWITCHYARD_TOKEN
  redactor.addSecrets([token])
  if (warning !== undefined) log.warn({}, warning)
  return token
}

const describeHost = ({ sandbox }: ServiceConfig, hostExecution: HostExecution): HealthResponse => ({
  ok: true,
  version: VERSION,
  sandboxProvider: sandbox.provider,
  hostMemMib: Math.floor(totalmem() / 1024 / 1024),
  hostExecution,
})

// ---- preparation ------------------------------------------------------------------------------------------

interface LoadedConfig {
  readonly configText: string | undefined
  readonly configuration: CompletedConfig
}

async function loadConfig(store: Store): Promise<LoadedConfig> {
  try {
    const configText = await store.config.read()
    const read = readConfig(configText)
    if (read.ok) return { configText, configuration: read.value }
    throw new Error(`does not validate: ${settingSentence(read.refusal.message)}`)
  } catch (error) {
    throw new ExitError(EXIT.config, `${store.config.path} ${messageOf(error)}`)
  }
}

async function probeHostExecution(log: Log): Promise<HostExecution> {
  // A machine without a sandbox can still be a host.
  const probed = await findSandbox().catch((error: unknown) => ({
    ok: false as const,
    reason: 'bwrap-unavailable' as const,
    detail: messageOf(error),
  }))
  if (probed.ok) return { kind: 'local-worker' }
  log.warn({ reason: probed.reason }, `this machine cannot execute runs itself: ${probed.detail}`)
  return { kind: 'none', reason: probed.reason }
}

/** The local worker connects like any other worker; its data directory lies below the host's. */
function createLocalWorkerLauncher(
  { logLevel, localRepos, privateCodeHost, inspect, takeOver }: ServeOptions,
  { dataDir, store, url, log }: OpenHost & { readonly url: () => string | undefined },
): LocalWorkerLauncher {
  return createLocalWorker({
    program: [process.execPath, ...process.execArgv, process.argv[1] ?? ''],
    dataDir: join(dataDir, 'worker'),
    installation: store.installation,
    url,
    name: hostname(),
    localRepos,
    privateCodeHosts: privateCodeHost,
    // The word for the data directory of the host holds for the worker's, which lies in it.
    takeOverFlags: takeOver === undefined ? [] : [takeOverFlag(takeOver)],
    logLevel,
    // A person who starts the inspector with the host asks to see the host's own worker.
    sharesActors: inspect !== undefined,
    environment: process.env,
    inheritable: inheritableDescriptors,
    clock: realClock,
    log,
  })
}

// ---- the end -------------------------------------------------------------------------------------------------------

/** Closes the store last, and ends the process when that takes too long: what a start had begun would keep it alive. */
async function endHost(
  exitCode: number,
  reason: string,
  { dataDir, store, log, providers }: OpenHost & { readonly providers: HostProviders },
): Promise<never> {
  const rescue = watchRescue(store.database.state())
  realClock.after(CLOSE_STORE_MS_MAX + rescue.msMax, () =>
    endProcess(log, exitCode === EXIT.done ? EXIT.broken : exitCode, rescue.describe(reason)),
  )
  // A host without a disk, or without its directory, writes nothing there.
  const recordStop = async () => {
    if (store.database.state().is === 'ready')
      await store.trail.record({ source: 'host', action: 'stopHost', status: exitCode })
  }
  const inOrder = [
    () => removeLaunch(dataDir, store.database),
    () => providers.close(),
    recordStop,
    () => store.close(),
  ]
  for (const step of inOrder)
    await step().catch((error) => log.error({ err: error }, 'could not close everything in order'))
  endProcess(log, exitCode, rescue.describe(reason))
}

/** Prints a sentence with its cure; `--log-level debug` shows where the failure happened. */
async function endFailedStart(error: unknown, { dataDir, store, log }: OpenHost): Promise<never> {
  log.debug({ err: error }, 'the host could not start')
  const code = reportError(startExitError(error, dataDir), createOutputFor(process.argv.slice(2)))
  realClock.after(CLOSE_STORE_MS_MAX, () => process.exit(code))
  await store.close().catch((failure) => log.error({ err: failure }, 'could not close everything in order'))
  process.exit(code)
}
