/**
 * Creates a whole host from its ports: clock, store, listeners, log, providers. Nothing in here reaches for the outside
 * world by itself, so a test can run a dozen hosts in one process.
 */
import { createIds, createTimestamps } from '../../core/ids.ts'
import { heartbeatTimeoutMs } from '../../core/lease/deadline.ts'
import { isTakenOver } from '../../core/owner.ts'
import type { Accounts } from '../../core/ports/accounts.ts'
import type { Bucket } from '../../core/ports/bucket.ts'
import type { Clock, RandomSource } from '../../core/ports/clock.ts'
import type { PullReference, PullRequestApi } from '../../core/ports/code-host.ts'
import type { Log, Meters } from '../../core/ports/log.ts'
import type { LocalWorkerLauncher } from '../../core/ports/machines.ts'
import type { Store, StoreState } from '../../core/ports/store.ts'
import type { Tracker } from '../../core/ports/tracker.ts'
import type { Result } from '../../core/result.ts'
import type { FindTlsFault } from '../../core/settings/listeners.ts'
import type { CompletedConfig, ServiceConfig } from '../../protocol/config.ts'
import type { HealthResponse } from '../../protocol/worker.ts'
import { createHostApi } from '../api/create-host-api.ts'
import type { HostApi } from '../api/host-api.ts'
import { DashboardBroadcast } from '../dashboard/dashboard-broadcast.ts'
import type { HostChange, HostContext, ProvisioningDependencies } from '../host-context.ts'
import { Inspection } from '../inspection/inspection.ts'
import type { ActorSystem } from '../runtime/actor-system.ts'
import { type AssembledSystem, assembleSystem } from '../runtime/assemble-system.ts'
import type { ModuleList } from '../runtime/module.ts'
import { MonotonicTimers } from '../runtime/monotonic-timers.ts'
import { CurrentConfig } from '../settings/current-config.ts'
import { hostModules } from './modules.ts'
import { ROOT } from './root.machine.ts'
import { createRootModule, EXIT_IN_USE, HostLifecycle, Listeners } from './root.module.ts'

export interface HostDependencies {
  readonly clock: Clock
  /** Milliseconds that also pass while the machine sleeps; absent: the clock's monotonic time. */
  readonly elapsedMs?: () => number
  readonly random: RandomSource
  readonly log: Log
  readonly meters: Meters
  readonly store: Store
  readonly configuration: CompletedConfig
  /** The text of the file from which that configuration was read. */
  readonly configText: string | undefined
  /** Called whenever another configuration takes effect: the log may have to redact new secrets. */
  readonly onConfigChange?: (effective: ServiceConfig) => void
  /** Judges the certificate of a change of the settings, as `openListeners` judges it at the next start. */
  readonly findTlsFault: FindTlsFault
  readonly health: HealthResponse
  /** The tracker of a configuration; undefined when none is configured. */
  readonly tracker: (config: ServiceConfig) => Tracker | undefined
  readonly accounts: Accounts
  readonly bucket: Bucket
  /** The code host of a configuration; refused while none is connected. */
  readonly pulls: (config: ServiceConfig) => Result<PullRequestApi>
  /** The pull request that a URL points to at the code host of a configuration, connected or not. */
  readonly parsePullUrl: (config: ServiceConfig, url: string) => PullReference | undefined
  /** The port of the management listener, once it is open. */
  readonly port: () => number | undefined
  /** Absent where this machine cannot execute runs itself. */
  readonly localWorker?: LocalWorkerLauncher
  /** Absent where the host can reach no other machines. */
  readonly provisioning?: ProvisioningDependencies
  readonly openListeners: (hostApi: HostApi) => Promise<Result<{ close(): Promise<void> }>>
  /** Called as the host's last act. */
  readonly finish: (exitCode: number, reason: string) => void
}

export interface Host {
  readonly hostApi: HostApi
  start(): void
  /** Ends in `finish`, within the time a stop may take. */
  stop(reason: string): void
  /** The number of temporary objects in memory by kind; none may grow over the years. */
  countInMemory(): Readonly<Record<string, number>>
}

export function createHost(dependencies: HostDependencies): Host {
  const { clock, log, meters, store, health } = dependencies
  const { database } = store
  const listeners = new Listeners(() => dependencies.openListeners(hostApi))
  const lifecycle = new HostLifecycle({
    clock,
    log,
    sendToRoot: (event) => void assembled.system.send(ROOT, ROOT, event),
    hasRoot: () => assembled.system.peek(ROOT, ROOT) !== undefined,
    onFinish(exitCode, reason) {
      stopWatching()
      assembled.modules.stop()
      assembled.system.stop()
      dependencies.finish(exitCode, reason)
    },
  })
  const onFatal = (reason: string) => {
    const state = database.state()
    // A host that does not own its data directory has nothing to bring to an end in order.
    if (isTakenOver(state)) lifecycle.finish(EXIT_IN_USE, state.reason)
    else lifecycle.onFatal(reason)
  }
  const rootModule = createRootModule({ listeners, lifecycle, modules: () => assembled.modules })
  const assembled: AssembledSystem<HostContext> = assembleSystem(
    { clock, trustedNow: () => assembled.modules.views.trustedClock.now(), database, log, meters, onFatal },
    [rootModule, ...hostModules],
    (system, modules) => createHostContext(dependencies, system, modules),
  )
  const { system, modules, context } = assembled
  const onStoreState = (state: StoreState) => {
    if (state.is === 'broken') system.stopAfterStoreFailure(state.reason)
    if (state.is === 'ready') modules.onStoreReady()
  }
  const stopWatching = database.onState(onStoreState)
  const hostApi = createHostApi({ context, modules, health })

  return {
    hostApi,
    start() {
      assembled.startSingletons()
      // The database may have failed before anything watched it.
      onStoreState(database.state())
    },
    stop: (reason) => lifecycle.requestStop(0, reason),
    countInMemory: () => ({
      ...Object.fromEntries(system.count()),
      deadlines: system.pendingDeadlines(),
      monotonicTimers: context.timers.pending,
      ...modules.sizes(),
    }),
  }
}

/** Creates the context that every module of the host receives. */
export function createHostContext(
  dependencies: HostDependencies,
  system: ActorSystem,
  modules: () => ModuleList<HostChange>,
): HostContext {
  const { clock, random, log, meters } = dependencies
  const currentConfig = new CurrentConfig(dependencies.configuration, dependencies.configText, {
    credentialRecords: dependencies.store.credentialRecords,
    log,
    onAdopted: dependencies.onConfigChange,
  })
  const config = () => currentConfig.configuration.effective
  const timeouts = () => config().fleet
  const publish = (change: HostChange) => modules().onViewChange(change)
  const rootState = () => system.peek(ROOT, ROOT)?.value
  return {
    clock,
    elapsedMs: dependencies.elapsedMs ?? (() => clock.monotonic()),
    random,
    log,
    meters,
    store: dependencies.store,
    system,
    timers: new MonotonicTimers(
      clock,
      () => heartbeatTimeoutMs(timeouts()),
      (key, name) => modules().onTimer(key, name),
    ),
    ids: createIds(clock, random),
    instant: createTimestamps(clock),
    currentConfig,
    config,
    timeouts,
    onConfigChange: () => modules().onConfigChange(),
    broadcast: new DashboardBroadcast(log, clock),
    requestCommit: () => system.requestCommit(),
    publish,
    requestScheduling: () => publish({ view: 'placement' }),
    inspection: new Inspection({ clock, system, publish, version: dependencies.health.version }),
    onInvariantViolated(law) {
      meters.count('invariant_violations_total', { law })
      log.error({ law }, 'an invariant is violated; please report this')
    },
    findTlsFault: dependencies.findTlsFault,
    trackerFor: dependencies.tracker,
    accounts: dependencies.accounts,
    bucket: dependencies.bucket,
    pullRequestApi: () => dependencies.pulls(config()),
    parsePullUrl: (url) => dependencies.parsePullUrl(config(), url),
    localWorkerLauncher: dependencies.localWorker,
    provisioning: dependencies.provisioning,
    managementPort: dependencies.port,
    version: dependencies.health.version,
    // A request may come in before the root has heard that the listeners are open.
    isOpen: () => rootState() === 'recovering' || rootState() === 'serving',
    isServing: () => rootState() === 'serving',
  }
}
