/**
 * After a restart, stored runs and stored leases are brought into agreement before any listener opens. A restored lease
 * outranks what its run's record says.
 */
import { type LeaseTimeouts, leaseTermMs } from '../../core/lease/deadline.ts'
import type { Clock, Store } from '../../core/ports.ts'
import type { RunStatus } from '../../protocol/run.ts'
import type { RunContext } from '../runs/run.machine.ts'
import { RUN } from '../runs/run.names.ts'
import type { RunManager } from '../runs/run-manager.ts'
import type { ActorSystem } from '../runtime/actor-system.ts'
import type { WorkerRegistry } from '../workers/worker-registry.ts'
import type { LeaseEvent } from './lease.machine.ts'
import { LEASE } from './lease.names.ts'

export interface RestartReconciliationPorts {
  readonly store: Store
  readonly system: ActorSystem
  readonly clock: Pick<Clock, 'after'>
  readonly timeouts: () => LeaseTimeouts
  /** The wall clock, as records write it. */
  readonly instant: () => string
  readonly workers: WorkerRegistry
  readonly runs: RunManager
}

const UNFINISHED: readonly RunStatus[] = ['queued', 'preparing', 'running', 'finalizing']

export function reconcileAfterRestart(ports: RestartReconciliationPorts): void {
  settleLeases(ports)
  reportLostLeases(ports)
  requeueRunsWithoutActor(ports)
}

/** A lease without its run is closed; a run that does not know its lease is told of it. */
function settleLeases({ system, workers, runs }: RestartReconciliationPorts): void {
  const orphaned: LeaseEvent = { type: 'orphaned' }
  for (const lease of [...workers.leases()]) {
    const run = contextOf(system, lease.runId)
    if (run === undefined || (run.lease !== null && run.lease !== lease.id))
      system.send(LEASE, lease.id, orphaned)
    else if (run.lease === null) runs.send(lease.runId, { type: 'granted', leaseId: lease.id })
  }
}

function reportLostLeases({
  clock,
  timeouts,
  system,
  workers,
  runs,
  instant,
}: RestartReconciliationPorts): void {
  const at = instant()
  const reason = 'the lease was gone after a restart'
  for (const id of [...system.keys(RUN)]) {
    const leaseId = contextOf(system, id)?.lease ?? null
    if (leaseId === null || workers.lease(leaseId) !== undefined) continue
    const lose = () => runs.send(id, { type: 'lease lost', leaseId, at, reason })
    // The lease may be the damaged one: its worker may still execute the run, for as long as a lease lives.
    if (system.hasDamaged(LEASE)) clock.after(leaseTermMs(timeouts()), lose)
    else lose()
  }
}

/** The actor's snapshot was damaged, or the record is older than actors. */
function requeueRunsWithoutActor({ system, store, runs }: RestartReconciliationPorts): void {
  for (const run of store.database.runs.list({ status: UNFINISHED }))
    if (contextOf(system, run.id) === undefined && !system.isDamaged(RUN, run.id)) runs.requeueLostRun(run)
}

function contextOf(system: ActorSystem, runId: string): RunContext | undefined {
  return system.peek(RUN, runId)?.context as RunContext | undefined
}
