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
import { frontDesk, isOpen } from '../api/create-host-api.ts'
import type { FrontDesk } from '../api/host-api.ts'
import { DashboardBroadcast } from '../dashboard/dashboard-broadcast.ts'
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
import { Yard } from './host-lifecycle.ts'
import { DoorKeeper } from './listeners.ts'
import type { RoomEffect } from './modules.ts'
import { EXIT_BROKEN, rootEffects } from './root.effects.ts'
import type { RootEffect, RootEvent } from './root.machine.ts'
import { runEffects } from './run.effects.ts'

export interface HostParts {
  readonly clock: Clock
  readonly random: RandomSource
  readonly log: Log
  readonly meters: Meters
  readonly store: Store
  readonly configuration: CompletedConfig
  /** What the file held when that configuration was read from it. */
  readonly configText: string | undefined
  /** Told whenever another configuration comes into force: there may be new secrets to keep out of the log. */
  readonly onConfig?: (effective: ServiceConfig) => void
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
  readonly openDoors: (desk: FrontDesk) => Promise<Result<{ close(): Promise<void> }>>
  /** The last thing a host does. */
  readonly finish: (exitCode: number, reason: string) => void
}

/** Of the time a stop may take, what is left after this is for closing the store. */
const FORCED_STOP_MS = STOP_MS_MAX - 1_500

export interface BuiltHost {
  readonly desk: FrontDesk
  start(): void
  /** Ends in `finish`, within the time a stop may take. */
  stop(reason: string): void
  /** How much of what comes and goes is held in memory right now. */
  census(): Readonly<Record<string, number>>
}

export function buildHost(parts: HostParts): BuiltHost {
  const { clock, store, log, meters } = parts
  const currentConfig = new CurrentConfig(parts.configuration, parts.configText, parts.onConfig)
  const settingsRequests: SettingsRequests = new PendingRequests()
  const pushes = new DashboardBroadcast(log)
  const doors = new DoorKeeper(() => parts.openDoors(desk))
  let unwatch: Cancel = () => {}
  let forced: Cancel | undefined
  let finished = false

  const tellRoot = (event: RootEvent) => void system.send(ROOT, ROOT, event)
  const sendToSettings = (event: SettingsEvent) => system.send(SETTINGS, SETTINGS, event)
  const settle = (wish: SettingsRequest) => {
    const { handle, answer } = settingsRequests.add(wish)
    if (!sendToSettings({ type: 'change requested', handle }))
      settingsRequests.settle(handle, no('unavailable', 'the service is stopping'))
    return answer
  }

  /** Whatever becomes of the orderly way, the end comes in time. */
  const requestStop = (exitCode: number, reason: string) => {
    if (finished) return
    forced ??= clock.after(FORCED_STOP_MS, () => finish(EXIT_BROKEN, `${reason}; could not stop in order`))
    tellRoot({ type: 'stop requested', at: clock.now(), exitCode, reason })
  }

  const fatal = (reason: string) => {
    if (finished) return
    log.error({ reason }, 'the host cannot go on')
    // A dead root can't stop anything in order any more.
    if (system.peek(ROOT, ROOT) === undefined) finish(EXIT_BROKEN, reason)
    else requestStop(EXIT_BROKEN, reason)
  }

  const finish = (exitCode: number, reason: string) => {
    if (finished) return
    finished = true
    forced?.()
    unwatch()
    unhear()
    settingsRequests.settleAll(
      no('unavailable', 'the service stopped; whether the change was made, config.json tells'),
    )
    landings.refuseAll()
    yard.stop()
    system.stop()
    parts.finish(exitCode, reason)
  }

  const landings = new CommitWaiters()
  // The host is told of its guests before they are there: they need the host themselves.
  const guests: CommitParticipant[] = []
  const effects = routeEffects<RootEffect | SettingsEffect | RoomEffect>({
    run: runEffects(
      () => yard.rooms,
      (handle) => landings.onCommitted(handle),
    ),
    lease: (effect) => yard.rooms.leases.runEffect(effect),
    worker: (effect) => yard.rooms.workerManager.runEffect(effect),
    attach: (effect) => yard.rooms.terminals.runEffect(effect),
    intake: (effect) => yard.rooms.intake.runEffect(effect),
    tracker: (effect) => yard.rooms.trackerConnection.runEffect(effect),
    connect: (effect) => yard.rooms.connect.runEffect(effect),
    local: (effect) => yard.rooms.localWorker.runEffect(effect),
    root: rootEffects({
      restore: () => {
        const restored = system.restore()
        for (const problem of restored.ok ? restored.value.damaged : []) {
          log.error({ problem }, 'a stored record could not be read; it was left alone')
        }
        if (restored.ok) yard.restored()
        return restored
      },
      openDoors: async () => {
        const opened = await doors.open()
        if (!opened.ok || finished) return opened
        unwatch = store.config.watch(() => sendToSettings({ type: 'file changed' }))
        // It may have been edited between being read at start and being watched.
        sendToSettings({ type: 'file changed' })
        return opened
      },
      closeDoors: () => {
        unwatch()
        const { terminals, localWorker, trackerConnection } = yard.rooms
        // First of all, so that each hears it from here, in a sentence of its own.
        terminals.stop()
        return Promise.all([localWorker.stop(), trackerConnection.refreshSettled(), doors.close()])
      },
      finish,
      log,
      tell: tellRoot,
    }),
    settings: settingsEffects({
      file: store.config,
      currentConfig,
      requests: settingsRequests,
      log,
      meters,
      push: (push) => pushes.send(push),
      sendEvent: sendToSettings,
      onConfigChange: () => yard.configured(),
    }),
  })

  const system: ActorSystem = new ActorSystem({
    clock,
    database: store.database,
    log,
    meters,
    kinds: hostKinds,
    runEffect: effects as (effect: Effect) => void,
    participants: guests,
    beforeCommit: () => yard.beforeCut(),
    onStateChange: (change) => {
      if (change.kind === ROOT) {
        if (change.after.value === 'serving') yard.start()
      } else yard.watch(change)
    },
    onFatal: fatal,
  })
  const yard: Yard = new Yard(
    {
      clock,
      random: parts.random,
      log,
      meters,
      store,
      config: () => currentConfig.configuration.effective,
      pushes,
      redacted: () => currentConfig.redacted,
      trackerFor: parts.tracker,
      accounts: parts.accounts,
      bucket: parts.bucket,
      pulls: parts.pulls,
      port: parts.port,
      save: async (change, still) => {
        const saved = await settle({ is: 'credentials', change, isStillWanted: still })
        return saved.ok ? yes(undefined) : saved
      },
      localWorker: parts.localWorker,
      version: parts.health.version,
      serving: () => system.peek(ROOT, ROOT)?.value === 'serving',
      open: () => isOpen(system),
    },
    system,
  )
  guests.push(...yard.guests)
  const hear = (state: StoreState) => {
    if (state.is === 'broken') system.stopAfterStoreFailure(state.reason)
    // What was queued meanwhile was not granted.
    if (state.is === 'ready') yard.rooms.scheduler.requestScheduling()
  }
  const unhear = store.database.onState(hear)
  const desk = frontDesk({
    clock,
    system,
    vault: currentConfig,
    settle,
    pushes,
    health: parts.health,
    store,
    yard,
    landings,
    pulls: parts.pulls,
  })

  return {
    desk,
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
    census: () => ({
      ...Object.fromEntries(system.count()),
      deadlines: system.pendingDeadlines(),
      waitingForSettings: settingsRequests.size,
      waitingForTheDisk: landings.size,
      ...yard.census(),
    }),
  }
}
