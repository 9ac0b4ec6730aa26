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
import { ROOT } from '../root/actor-kinds.ts'
import type { DashboardBroadcast } from '../root/dashboard-broadcast.ts'
import type { HostLifecycle } from '../root/host-lifecycle.ts'
import type { RunEffect } from '../runs/run-manager.ts'
import type { ActorSystem } from '../runtime/actor-system.ts'
import type { CommitWaiters } from '../runtime/commit-waiters.ts'
import type { CurrentConfig } from '../settings/current-config.ts'
import type { SettingsRequest } from '../settings/settings.effects.ts'
import { createAccountApi } from './accounts.ts'
import { createFollowUpApi } from './follow-ups.ts'
import type { HostApi } from './host-api.ts'
import { createPullRequestApi } from './pull-requests.ts'
import { createRunApi } from './runs.ts'
import { createTerminalApi } from './terminals.ts'
import { createWorkerApi } from './workers.ts'

export interface HostApiPorts {
  readonly clock: Clock
  readonly system: ActorSystem
  readonly currentConfig: CurrentConfig
  /** Asks the settings, and answers once it is decided, on disk and told. */
  readonly changeSettings: (wish: SettingsRequest) => Promise<Result<SettingsUpdateResponse>>
  readonly broadcast: DashboardBroadcast
  readonly health: HealthResponse
  readonly store: Store
  readonly lifecycle: HostLifecycle
  readonly commitWaiters: CommitWaiters
  /** Refused while no code host is connected. */
  readonly codeHost: (config: ServiceConfig) => Result<PullRequestApi>
}

export function createHostApi(parts: HostApiPorts): HostApi {
  const { system, currentConfig: vault, broadcast, health, store, lifecycle, commitWaiters } = parts
  const { modules } = lifecycle
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
  const waitForCommit = () =>
    commitWaiters.wait((handle) => {
      const effect: RunEffect = { type: 'run.notify committed', handle }
      system.runAfterCommit(effect)
    })
  return {
    ...createRunApi({
      clock: parts.clock,
      system,
      store,
      modules,
      mayChange,
      waitForCommit,
      codeHost: () => parts.codeHost(config()),
    }),
    ...createWorkerApi({ system, modules, mayChange, waitForCommit }),
    ...createTerminalApi({
      database,
      clock: parts.clock,
      modules,
      isFollowUpStarting: (id) => modules.followUps.isStarting(id),
      isOpen: open,
      mayChange,
    }),
    ...createFollowUpApi({
      system,
      modules,
      mayChange,
      waitForCommit,
      codeHost: () => parts.codeHost(config()),
      database,
    }),
    ...createAccountApi({
      accountManager: modules.connect,
      trackerConnection: modules.trackerConnection,
      mayChange,
    }),
    ...createPullRequestApi({
      config,
      codeHost: () => parts.codeHost(config()),
      pullStatePoller: modules.pullWatch,
    }),
    health: () => health,
    config: () => vault.redacted,
    changeSettings: async (patch) => {
      const may = mayChange()
      return may.ok ? parts.changeSettings({ is: 'patch', patch }) : may
    },
    hello: () => ({
      type: 'hello',
      runs: helloRuns(database).map((run) => modules.runs.withWaitReason(run)),
      tickets: [...modules.intake.eligible()],
      config: vault.redacted,
      linearStatus: lifecycle.trackerStatus(),
      workers: modules.workers.views(),
    }),
    onPush: (listener) => broadcast.listen(listener),
    allowedOrigins: () => vault.configuration.effective.server.allowedOrigins,
    isOpen: open,
    storeState: () => database.state(),
    updateGauges: () => lifecycle.updateGauges(),
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
