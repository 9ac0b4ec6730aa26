/** Shows a worker's own part of the demand, which its supervisor polls. */
import type { FleetDemandResponse } from '../../protocol/demand.ts'
import type { EnrolledWorker } from './enrolled-worker.ts'
import { drainOf } from './worker-view.ts'

/** Figures of a worker that asks, which the queue and the terminals hold. */
export interface OwnDemandCounts {
  readonly queuedRuns: number
  readonly wanted: number
  readonly attachSessions: number
  readonly awaitedRuns: number
  readonly promisedRuns: number
}

/** Supervisors poll this. The common answer is one literal, because spreading would take longer than the rest. */
export function ownDemand(
  { context, online, state, leases }: EnrolledWorker,
  { attachSessions, awaitedRuns, promisedRuns }: OwnDemandCounts,
): NonNullable<FleetDemandResponse['worker']> {
  const { id } = context
  // The host cannot know which runs continue on a disconnected worker.
  const activeRuns = online ? leases.size : 0
  if (state === 'active' && awaitedRuns === 0 && promisedRuns === 0)
    return { id, connected: online, state, activeRuns, attachSessions }
  return {
    id,
    connected: online,
    state,
    ...drainOf(state, context),
    activeRuns,
    attachSessions,
    ...(awaitedRuns === 0 ? {} : { awaitedRuns }),
    ...(promisedRuns === 0 ? {} : { promisedRuns }),
  }
}
