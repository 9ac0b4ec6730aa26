/**
 * The front desk, staffed: each thing the doors may ask is a look at what is durable, or an event for a life.
 */

import type { Clock, ControlDatabase, Store } from '../../core/ports.ts'
import type { PullRequestApi } from '../../core/provider-ports.ts'
import { no, type Result, yes } from '../../core/result.ts'
import type { ServiceConfig } from '../../protocol/config.ts'
import { HELLO_FINISHED_RUNS } from '../../protocol/limits.ts'
import type { SettingsUpdateResponse } from '../../protocol/routes.ts'
import type { Run, RunStatus } from '../../protocol/run.ts'
import type { HealthResponse } from '../../protocol/worker.ts'
import type { DashboardBroadcast } from '../dashboard/dashboard-broadcast.ts'
import { ROOT } from '../root/actor-kinds.ts'
import type { Yard } from '../root/host-lifecycle.ts'
import type { RunEffect } from '../runs/run-manager.ts'
import type { ActorSystem } from '../runtime/actor-system.ts'
import type { CommitWaiters } from '../runtime/commit-waiters.ts'
import type { CurrentConfig } from '../settings/current-config.ts'
import type { SettingsRequest } from '../settings/settings.effects.ts'
import { connectDesk } from './accounts.ts'
import { followUpDesk } from './follow-ups.ts'
import type { FrontDesk } from './host-api.ts'
import { pullDesk } from './pull-requests.ts'
import { runDesk } from './runs.ts'
import { attachDesk } from './terminals.ts'
import { fleetDesk } from './workers.ts'

export interface DeskParts {
  readonly clock: Clock
  readonly system: ActorSystem
  readonly vault: CurrentConfig
  /** Asks the settings, and answers once it is decided, on disk and told. */
  readonly settle: (wish: SettingsRequest) => Promise<Result<SettingsUpdateResponse>>
  readonly pushes: DashboardBroadcast
  readonly health: HealthResponse
  readonly store: Store
  readonly yard: Yard
  readonly landings: CommitWaiters
  /** Refused while no code host is connected. */
  readonly pulls: (config: ServiceConfig) => Result<PullRequestApi>
}

export function frontDesk(parts: DeskParts): FrontDesk {
  const { system, vault, pushes, health, store, yard, landings } = parts
  const { rooms } = yard
  const { database } = store
  const config = () => vault.configuration.effective
  const open = () => isOpen(system)
  const mayChange = (): Result<void> => {
    if (!open()) return no('unavailable', 'the service is stopping')
    const state = database.state()
    return state.is === 'ready'
      ? yes(undefined)
      : no('unavailable', `the disk takes no writes: ${state.reason}`)
  }
  const landed = () =>
    landings.wait((handle) => {
      const effect: RunEffect = { type: 'run.notify committed', handle }
      system.runAfterCommit(effect)
    })
  return {
    ...runDesk({
      clock: parts.clock,
      system,
      store,
      rooms,
      mayChange,
      landed,
      pulls: () => parts.pulls(config()),
    }),
    ...fleetDesk({ system, rooms, mayChange, landed }),
    ...attachDesk({
      database,
      clock: parts.clock,
      rooms,
      followUpStarting: (id) => rooms.followUps.isStarting(id),
      open,
      mayChange,
    }),
    ...followUpDesk({ system, rooms, mayChange, landed, pulls: () => parts.pulls(config()), database }),
    ...connectDesk({ connect: rooms.connect, trackerConnection: rooms.trackerConnection, mayChange }),
    ...pullDesk({ config, pulls: () => parts.pulls(config()), watch: rooms.pullWatch }),
    health: () => health,
    config: () => vault.redacted,
    changeSettings: async (patch) => {
      const may = mayChange()
      return may.ok ? parts.settle({ is: 'patch', patch }) : may
    },
    hello: () => ({
      type: 'hello',
      runs: helloRuns(database).map((run) => rooms.runs.withWaitReason(run)),
      tickets: [...rooms.intake.eligible()],
      config: vault.redacted,
      linearStatus: yard.trackerStatus(),
      workers: rooms.workers.views(),
    }),
    onPush: (listener) => pushes.listen(listener),
    allowedOrigins: () => vault.configuration.effective.server.allowedOrigins,
    open,
    storeState: () => database.state(),
    measure: () => yard.measure(),
    actorsByKind: () => system.count(),
  }
}

/** From the moment the doors are being opened: a request may come in before the root has heard that they are. */
export function isOpen(system: ActorSystem): boolean {
  const state = system.peek(ROOT, ROOT)?.value
  return state === 'recovering' || state === 'serving'
}

const UNFINISHED: readonly RunStatus[] = ['queued', 'preparing', 'running', 'finalizing']
const FINISHED: readonly RunStatus[] = ['completed', 'failed', 'cancelled']

/** Every unfinished run and the newest finished ones, newest first. */
function helloRuns(database: ControlDatabase): Run[] {
  const unfinished = database.runs.list({ status: UNFINISHED })
  const finished = database.runs.list({ status: FINISHED, limit: HELLO_FINISHED_RUNS })
  return [...unfinished, ...finished].sort((a, b) => (a.id < b.id ? 1 : -1))
}
