/** The leases module grants leases, receives the frames of their runs, and ends them. */

import { leaseTermMs, restoredLeaseDeadline } from '../../core/lease/deadline.ts'
import { UNFINISHED } from '../../core/run/run-transitions.ts'
import { defineHostModule, type HostContext } from '../host-context.ts'
import { RUN } from '../runs/run.machine.ts'
import type { RunManager } from '../runs/run-manager.ts'
import { effectHandlers, observeKind } from '../runtime/module.ts'
import { handleTimer } from '../runtime/timer-kind.ts'
import type { WorkerRegistry } from '../workers/worker-registry.ts'
import { EndedLeases } from './ended-leases.ts'
import { FrameReceiver } from './frame-receiver.ts'
import { type LeaseEffect, leaseKind } from './lease.machine.ts'
import { LEASE } from './lease.names.ts'
import { LeaseAcknowledgements } from './lease-acknowledgements.ts'
import { LEASE_TIMER, LeaseManager } from './lease-manager.ts'
import { LeaseSettlements } from './lease-settlements.ts'

export interface LeasesView {
  readonly manager: LeaseManager
  readonly frameReceiver: FrameReceiver
  readonly endedLeases: EndedLeases
  readonly settlements: LeaseSettlements
  readonly acknowledgements: LeaseAcknowledgements
}

declare module '../runtime/module.ts' {
  interface ModuleViews {
    readonly leases: LeasesView
    readonly endedLeases: Pick<LeasesView, 'endedLeases' | 'settlements'>
  }
}

const PRUNE_MS = 6 * 3_600_000

/** The endedLeases module remembers leases that have ended, and accepts the costs that their workers still report. */
export const endedLeasesModule = defineHostModule({
  name: 'endedLeases',
  create(context, { workers: { connections }, leaseShares, trustedClock }) {
    const { clock, store, requestCommit } = context
    const endedLeases = new EndedLeases(
      store.database.keyValues,
      requestCommit,
      trustedClock,
      (leaseId, workerId) => settlements.acknowledge(workerId, leaseId),
    )
    const settlements = new LeaseSettlements(context, connections, endedLeases, leaseShares)
    let cancelPrune = () => {}
    const prune = () => {
      endedLeases.prune()
      cancelPrune = clock.after(PRUNE_MS, prune)
    }
    return {
      view: { endedLeases, settlements },
      participants: [endedLeases],
      onStateChange: [observeKind(RUN, (change) => settlements.onRunChanged(change))],
      start: prune,
      stop: () => cancelPrune(),
    }
  },
})

export const leasesModule = defineHostModule({
  name: 'leases',
  kinds: [leaseKind],
  create(context, { workers, runs, endedLeases, leaseShares, jobs, runRecords }) {
    const frameReceiver = new FrameReceiver(
      context,
      { workers, runs, jobs, runRecords, leaseShares },
      (workerId, leaseId) => acknowledgements.acknowledgeLease(workerId, leaseId),
    )
    const acknowledgements = new LeaseAcknowledgements(context, workers, frameReceiver)
    const manager = new LeaseManager(context, { workers, jobs, endedLeases, leaseShares }, frameReceiver)
    return {
      view: { manager, frameReceiver, ...endedLeases, acknowledgements },
      effects: effectHandlers<LeaseEffect>({ lease: (effect) => manager.runEffect(effect) }),
      participants: [frameReceiver],
      onStateChange: [observeKind(LEASE, (change) => manager.onLeaseChanged(change))],
      onTimer: [handleTimer(LEASE_TIMER, (leaseId, name) => manager.onTimer(leaseId, name))],
      onRestored: () => reconcileAfterRestart(context, workers.registry, runs, endedLeases.settlements),
      reportGauges(meters) {
        meters.gauge('watermark_lag_frames', frameReceiver.countUncommittedFrames())
        manager.reportCounts(meters)
      },
      sizes: () => ({
        trackedLeases: frameReceiver.size,
        pendingBytes: frameReceiver.pendingBytes,
        framesBehind: frameReceiver.countUncommittedFrames(),
      }),
    }
  },
})

// ---- after a restart ---------------------------------------------------------------------------------------------

/**
 * After a restart, stored runs and stored leases are brought into agreement before any listener opens. A restored lease
 * outranks what its run's record says.
 */
function reconcileAfterRestart(
  context: HostContext,
  workers: WorkerRegistry,
  runs: RunManager,
  settlements: LeaseSettlements,
): void {
  settleLeases(context, workers, runs)
  reportLostLeases(context, workers, runs, settlements)
  requeueRunsWithoutActor(context, runs)
}

/** A lease without its run is closed; a run that does not know its lease is told of it. */
function settleLeases({ system }: HostContext, workers: WorkerRegistry, runs: RunManager): void {
  for (const lease of [...workers.leases()]) {
    const run = system.peek(RUN, lease.runId)?.context
    if (run === undefined || (run.lease !== null && run.lease !== lease.id))
      system.send(LEASE, lease.id, { type: 'orphaned' })
    else if (run.lease === null) runs.send(lease.runId, { type: 'granted', leaseId: lease.id })
  }
}

/** The worker may still execute the run, for as long as a lease lives that it was promised before the restart. */
function reportLostLeases(
  context: HostContext,
  workers: WorkerRegistry,
  runs: RunManager,
  settlements: LeaseSettlements,
): void {
  const { clock, system, instant } = context
  const timeouts = context.timeouts()
  const waitMs = restoredLeaseDeadline(0, leaseTermMs(timeouts), timeouts)
  const reason = 'the lease was gone after a restart'
  for (const id of [...system.keys(RUN)]) {
    const leaseId = system.peek(RUN, id)?.context?.lease ?? null
    if (leaseId === null || workers.lease(leaseId) !== undefined) continue
    settlements.expectEnd(leaseId)
    clock.after(waitMs, () => {
      // The run may have been cancelled meanwhile, and begun anew.
      if (system.peek(RUN, id)?.context?.lease === leaseId)
        runs.send(id, { type: 'lease lost', leaseId, at: instant(), reason })
    })
  }
}

/** The actor's snapshot was damaged, or the record is older than actors. */
function requeueRunsWithoutActor({ system, store }: HostContext, runs: RunManager): void {
  for (const run of store.database.runs.list({ status: UNFINISHED }))
    if (system.peek(RUN, run.id)?.context === undefined && !system.isDamaged(RUN, run.id))
      runs.requeueLostRun(run)
}
