/**
 * Builds a whole host out of what it is given: clock, store, doors, log. Nothing in here reaches for the world, so a
 * test can build a dozen of them in one process.
 */

import type {
  Cancel,
  Clock,
  LocalWorkerLauncher,
  Log,
  Meters,
  RandomSource,
  Store,
  StoreState,
  Tracker,
} from '../../core/ports.ts'
import type { Accounts, Bucket, PullRequestApi } from '../../core/provider-ports.ts'
import type { Result } from '../../core/result.ts'
import { no, yes } from '../../core/result.ts'
import type { CompletedConfig, ServiceConfig } from '../../protocol/config.ts'
import { STOP_MS_MAX } from '../../protocol/limits.ts'
import type { HealthResponse } from '../../protocol/worker.ts'
import { createHostApi, isOpen } from '../api/create-host-api.ts'
import type { HostApi } from '../api/host-api.ts'
import { ActorSystem } from '../runtime/actor-system.ts'
import type { CommitParticipant } from '../runtime/commit-loop.ts'
import { CommitWaiters } from '../runtime/commit-waiters.ts'
import { routeEffects } from '../runtime/effect-router.ts'
import { PendingRequests } from '../runtime/pending-requests.ts'
import type { Effect } from '../runtime/transition-output.ts'
import { CurrentConfig } from '../settings/current-config.ts'
import { type SettingsRequest, type SettingsRequests, settingsEffects } from '../settings/settings.effects.ts'
import type { SettingsEffect, SettingsEvent } from '../settings/settings.machine.ts'
import { TRACKER_CONNECTION } from '../tracker/tracker-connection.machine.ts'
import { TRACKER_POLL } from '../tracker/tracker-poll.machine.ts'
import { LOCAL_WORKER } from '../workers/local-worker.machine.ts'
import { hostKinds, ROOT, SETTINGS } from './actor-kinds.ts'
import { DashboardBroadcast } from './dashboard-broadcast.ts'
import { HostLifecycle } from './host-lifecycle.ts'
import { Listeners } from './listeners.ts'
import type { ModuleEffect } from './modules.ts'
import { createRootEffects, EXIT_BROKEN } from './root.effects.ts'
import type { RootEffect, RootEvent } from './root.machine.ts'
import { createRunEffects } from './run.effects.ts'

export interface HostDependencies {
  readonly clock: Clock
  readonly random: RandomSource
  readonly log: Log
  readonly meters: Meters
  readonly store: Store
  readonly configuration: CompletedConfig
  /** What the file held when that configuration was read from it. */
  readonly configText: string | undefined
  /** Told whenever another configuration comes into force: there may be new secrets to keep out of the log. */
  readonly onConfigChange?: (effective: ServiceConfig) => void
  readonly health: HealthResponse
  /** The tracker of a configuration; undefined when none is configured. */
  readonly tracker: (config: ServiceConfig) => Tracker | undefined
  readonly accounts: Accounts
  readonly bucket: Bucket
  /** The code host of a configuration; refused while none is connected. */
  readonly pulls: (config: ServiceConfig) => Result<PullRequestApi>
  /** The port of the management listener, once it is open. */
  readonly port: () => number | undefined
  /** Absent where this machine can't execute runs itself. */
  readonly localWorker?: LocalWorkerLauncher
  readonly openListeners: (hostApi: HostApi) => Promise<Result<{ close(): Promise<void> }>>
  /** The last thing a host does. */
  readonly finish: (exitCode: number, reason: string) => void
}

/** Of the time a stop may take, what is left after this is for closing the store. */
const FORCED_STOP_MS = STOP_MS_MAX - 1_500

export interface Host {
  readonly hostApi: HostApi
  start(): void
  /** Ends in `finish`, within the time a stop may take. */
  stop(reason: string): void
  /** How much of what comes and goes is held in memory right now. */
  countInMemory(): Readonly<Record<string, number>>
}

export function createHost(dependencies: HostDependencies): Host {
  const { clock, store, log, meters } = dependencies
  const currentConfig = new CurrentConfig(
    dependencies.configuration,
    dependencies.configText,
    dependencies.onConfigChange,
  )
  const settingsRequests: SettingsRequests = new PendingRequests()
  const broadcast = new DashboardBroadcast(log)
  const listeners = new Listeners(() => dependencies.openListeners(hostApi))
  let stopWatching: Cancel = () => {}
  let cancelForcedStop: Cancel | undefined
  let finished = false

  const sendToRoot = (event: RootEvent) => void system.send(ROOT, ROOT, event)
  const sendToSettings = (event: SettingsEvent) => system.send(SETTINGS, SETTINGS, event)
  const changeSettings = (wish: SettingsRequest) => {
    const { handle, answer } = settingsRequests.add(wish)
    if (!sendToSettings({ type: 'change requested', handle }))
      settingsRequests.settle(handle, no('unavailable', 'the service is stopping'))
    return answer
  }

  /** Whatever becomes of the orderly way, the end comes in time. */
  const requestStop = (exitCode: number, reason: string) => {
    if (finished) return
    cancelForcedStop ??= clock.after(FORCED_STOP_MS, () =>
      finish(EXIT_BROKEN, `${reason}; could not stop in order`),
    )
    sendToRoot({ type: 'stop requested', at: clock.now(), exitCode, reason })
  }

  const onFatal = (reason: string) => {
    if (finished) return
    log.error({ reason }, 'the host cannot go on')
    // A dead root can't stop anything in order any more.
    if (system.peek(ROOT, ROOT) === undefined) finish(EXIT_BROKEN, reason)
    else requestStop(EXIT_BROKEN, reason)
  }

  const finish = (exitCode: number, reason: string) => {
    if (finished) return
    finished = true
    cancelForcedStop?.()
    stopWatching()
    stopListening()
    settingsRequests.settleAll(
      no('unavailable', 'the service stopped; whether the change was made, config.json tells'),
    )
    commitWaiters.refuseAll()
    lifecycle.stop()
    system.stop()
    dependencies.finish(exitCode, reason)
  }

  const commitWaiters = new CommitWaiters()
  // The host is told of its guests before they are there: they need the host themselves.
  const participants: CommitParticipant[] = []
  const effects = routeEffects<RootEffect | SettingsEffect | ModuleEffect>({
    run: createRunEffects(
      () => lifecycle.modules,
      (handle) => commitWaiters.onCommitted(handle),
    ),
    lease: (effect) => lifecycle.modules.leases.runEffect(effect),
    worker: (effect) => lifecycle.modules.workerManager.runEffect(effect),
    attach: (effect) => lifecycle.modules.terminals.runEffect(effect),
    intake: (effect) => lifecycle.modules.intake.runEffect(effect),
    tracker: (effect) => lifecycle.modules.trackerConnection.runEffect(effect),
    connect: (effect) => lifecycle.modules.connect.runEffect(effect),
    local: (effect) => lifecycle.modules.localWorker.runEffect(effect),
    root: createRootEffects({
      restore: () => {
        const restored = system.restore()
        for (const problem of restored.ok ? restored.value.damaged : []) {
          log.error({ problem }, 'a stored record could not be read; it was left alone')
        }
        if (restored.ok) lifecycle.reconcile()
        return restored
      },
      openListeners: async () => {
        const opened = await listeners.open()
        if (!opened.ok || finished) return opened
        stopWatching = store.config.watch(() => sendToSettings({ type: 'file changed' }))
        // It may have been edited between being read at start and being watched.
        sendToSettings({ type: 'file changed' })
        return opened
      },
      closeListeners: () => {
        stopWatching()
        const { terminals, localWorker, trackerConnection } = lifecycle.modules
        // First of all, so that each hears it from here, in a sentence of its own.
        terminals.stop()
        return Promise.all([localWorker.stop(), trackerConnection.refreshSettled(), listeners.close()])
      },
      finish,
      log,
      sendEvent: sendToRoot,
    }),
    settings: settingsEffects({
      file: store.config,
      currentConfig,
      requests: settingsRequests,
      log,
      meters,
      push: (push) => broadcast.send(push),
      sendEvent: sendToSettings,
      onConfigChange: () => lifecycle.onConfigChange(),
    }),
  })

  const system: ActorSystem = new ActorSystem({
    clock,
    database: store.database,
    log,
    meters,
    kinds: hostKinds,
    runEffect: effects as (effect: Effect) => void,
    participants,
    beforeCommit: () => lifecycle.beforeCommit(),
    onStateChange: (change) => {
      if (change.kind === ROOT) {
        if (change.after.value === 'serving') lifecycle.start()
      } else lifecycle.onStateChange(change)
    },
    onFatal,
  })
  const lifecycle: HostLifecycle = new HostLifecycle(
    {
      clock,
      random: dependencies.random,
      log,
      meters,
      store,
      config: () => currentConfig.configuration.effective,
      broadcast,
      redactedConfig: () => currentConfig.redacted,
      trackerFor: dependencies.tracker,
      accounts: dependencies.accounts,
      bucket: dependencies.bucket,
      pulls: dependencies.pulls,
      port: dependencies.port,
      save: async (change, still) => {
        const saved = await changeSettings({ is: 'credentials', change, isStillWanted: still })
        return saved.ok ? yes(undefined) : saved
      },
      localWorker: dependencies.localWorker,
      version: dependencies.health.version,
      isServing: () => system.peek(ROOT, ROOT)?.value === 'serving',
      isOpen: () => isOpen(system),
    },
    system,
  )
  participants.push(...lifecycle.participants)
  const hear = (state: StoreState) => {
    if (state.is === 'broken') system.stopAfterStoreFailure(state.reason)
    // What was queued meanwhile was not granted.
    if (state.is === 'ready') lifecycle.modules.scheduler.requestScheduling()
  }
  const stopListening = store.database.onState(hear)
  const hostApi = createHostApi({
    clock,
    system,
    currentConfig,
    changeSettings,
    broadcast,
    health: dependencies.health,
    store,
    lifecycle,
    commitWaiters,
    codeHost: dependencies.pulls,
  })

  return {
    hostApi,
    start() {
      system.spawn(ROOT, ROOT, {})
      system.spawn(SETTINGS, SETTINGS, {})
      system.spawn(TRACKER_POLL, TRACKER_POLL, {})
      system.spawn(TRACKER_CONNECTION, TRACKER_CONNECTION, {})
      system.spawn(LOCAL_WORKER, LOCAL_WORKER, {})
      // It may have broken before anybody listened.
      hear(store.database.state())
    },
    stop: (reason) => requestStop(0, reason),
    countInMemory: () => ({
      ...Object.fromEntries(system.count()),
      deadlines: system.pendingDeadlines(),
      waitingForSettings: settingsRequests.size,
      waitingForTheDisk: commitWaiters.size,
      ...lifecycle.census(),
    }),
  }
}
