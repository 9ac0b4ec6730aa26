/** The leases module grants leases, receives the frames of their runs, and ends them. */
import { leaseTermMs, restoredLeaseDeadline } from '../../core/lease/deadline.ts'
import { artifactBudget, logBudget } from '../../core/run/log-budget.ts'
import { UNFINISHED } from '../../core/run/run-transitions.ts'
import { defineHostModule, type HostContext } from '../host-context.ts'
import type { RunContext } from '../runs/run.machine.ts'
import { RUN } from '../runs/run.machine.ts'
import type { RunManager } from '../runs/run-manager.ts'
import type { ActorSystem } from '../runtime/actor-system.ts'
import { effectHandlers } from '../runtime/module.ts'
import type { WorkerRegistry } from '../workers/worker-registry.ts'
import { EndedLeases } from './ended-leases.ts'
import { FrameReceiver } from './frame-receiver.ts'
import { type LeaseEffect, type LeaseEvent, leaseKind } from './lease.machine.ts'
import { LEASE } from './lease.names.ts'
import { LeaseAcknowledgements } from './lease-acknowledgements.ts'
import { LeaseManager } from './lease-manager.ts'
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
    const acknowledge = (workerId: string, leaseId: string) =>
      connections.sendToWorker(workerId, { type: 'lease-costs-ack', leaseId })
    const endedLeases = new EndedLeases(
      store.database.keyValues,
      requestCommit,
      trustedClock,
      (leaseId, workerId) => acknowledge(workerId, leaseId),
    )
    const settlements = new LeaseSettlements({ ...context, endedLeases, leaseShares, acknowledge })
    let cancelPrune = () => {}
    const prune = () => {
      endedLeases.prune()
      cancelPrune = clock.after(PRUNE_MS, prune)
    }
    return {
      view: { endedLeases, settlements },
      participants: [endedLeases],
      onStateChange: { [RUN]: (change) => settlements.onRunChanged(change) },
      start: prune,
      stop: () => cancelPrune(),
    }
  },
})

export const leasesModule = defineHostModule({
  name: 'leases',
  kinds: [leaseKind],
  create(
    context,
    { workers, runs, endedLeases: { endedLeases, settlements }, leaseShares, jobs, runRecords },
  ) {
    const { store, system, ids, config, onInvariantViolated } = context
    const { keyValues } = store.database
    const { registry, connections, dispatchBackoff } = workers
    const frameReceiver = new FrameReceiver({
      ...context,
      keyValues,
      artifacts: store.artifacts,
      usage: store.usage,
      runEventLog: runRecords.eventLog,
      leaseShares,
      workerName: (workerId) => registry.get(workerId)?.name,
      sendToLease: (leaseId, event) => void system.send(LEASE, leaseId, event),
      acceptsFrames: (runId) => system.isRunning(RUN, runId),
      screenReport: (runId, reported) =>
        jobs.runPulls.screen(runId, jobs.preparation.screenSession(runId, reported)),
      patchRun: (runId, workerId, patch, pull) => {
        const type =
          patch.status === 'running' || patch.status === 'finalizing'
            ? (`patched to ${patch.status}` as const)
            : 'patched'
        runs.send(runId, { type, workerId, patch, ...(pull === undefined ? {} : { pull }) })
      },
      recordMemories: (runId, repo, learnt) => jobs.preparation.recordMemories(runId, repo, learnt),
      retentionHours: () => config().sandbox.retentionHours,
      logBudget: () => logBudget(config()),
      artifactBudget: () => artifactBudget(config()),
      onAckDue: (workerId, leaseId) => acknowledgements.acknowledgeLease(workerId, leaseId),
      onInvariantViolated: () => onInvariantViolated('acknowledged never falls'),
    })
    const acknowledgements = new LeaseAcknowledgements({
      ...context,
      workers: registry,
      connections,
      frameReceiver,
    })
    const manager = new LeaseManager({
      ...context,
      newId: () => ids.lease(),
      workers: registry,
      connections,
      dispatchBackoff,
      frameReceiver,
      endedLeases,
      isPaused: () => config().policy.paused,
      preparation: jobs.preparation,
      leaseShares,
    })
    return {
      view: { manager, frameReceiver, endedLeases, settlements, acknowledgements },
      effects: effectHandlers<LeaseEffect>({ lease: (effect) => manager.runEffect(effect) }),
      participants: [frameReceiver],
      onStateChange: { [LEASE]: (change) => manager.onLeaseChanged(change) },
      onTimer: { lease: (key, name) => manager.onTimer(key, name) },
      onRestored: () => reconcileAfterRestart({ ...context, workers: registry, runs, settlements }),
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

interface RestartReconciliationPorts
  extends Pick<HostContext, 'store' | 'system' | 'clock' | 'timeouts' | 'instant'> {
  readonly workers: WorkerRegistry
  readonly runs: RunManager
  readonly settlements: LeaseSettlements
}

/**
 * After a restart, stored runs and stored leases are brought into agreement before any listener opens. A restored lease
 * outranks what its run's record says.
 */
function reconcileAfterRestart(ports: RestartReconciliationPorts): void {
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

/** The worker may still execute the run, for as long as a lease lives that it was promised before the restart. */
function reportLostLeases(ports: RestartReconciliationPorts): void {
  const { clock, system, workers, runs, settlements, instant } = ports
  const timeouts = ports.timeouts()
  const waitMs = restoredLeaseDeadline(0, leaseTermMs(timeouts), timeouts)
  const reason = 'the lease was gone after a restart'
  for (const id of [...system.keys(RUN)]) {
    const leaseId = contextOf(system, id)?.lease ?? null
    if (leaseId === null || workers.lease(leaseId) !== undefined) continue
    settlements.expectEnd(leaseId)
    clock.after(waitMs, () => {
      // The run may have been cancelled meanwhile, and begun anew.
      if (contextOf(system, id)?.lease === leaseId)
        runs.send(id, { type: 'lease lost', leaseId, at: instant(), reason })
    })
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
