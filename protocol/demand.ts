/** The demand for workers, as supervisors and autoscalers read it. */
import Type, { type Static } from 'typebox'
import { createOpenChecker } from './parse.ts'
import { Count, Id, record } from './schema-helpers.ts'
import { DrainHolders, WorkerState } from './worker.ts'

export const FleetDemandResponse = record('FleetDemandResponse', {
  queuedRuns: Count,
  /** Not counted: runs that wait for anything but a worker, for a given worker, or for what no machine so far had. */
  wanted: Type.Integer({
    minimum: 0,
    description: 'Queued runs that one more worker could take now; 0 while an operator drains all machines.',
  }),
  activeRuns: Count,
  connectedWorkers: Count,
  spareCapacity: Count,
  /** Absent when a join key asked, which belongs to no single worker. */
  worker: Type.Optional(
    record('OwnDemand', {
      id: Id,
      connected: Type.Boolean(),
      state: WorkerState,
      drainedBy: Type.Optional(DrainHolders),
      activeRuns: Count,
      attachSessions: Count,
      awaitedRuns: Type.Optional({
        ...Count,
        description:
          'Queued runs that only this worker can take, because it holds their sandbox; absent: none.',
      }),
      promisedRuns: Type.Optional({
        ...Count,
        description: 'Of `wanted`, the runs for which other sleeping workers wake; absent: none.',
      }),
    }),
  ),
})
export type FleetDemandResponse = Static<typeof FleetDemandResponse>
/** Ignores keys of a newer host. */
export const checkFleetDemand = createOpenChecker(FleetDemandResponse)
