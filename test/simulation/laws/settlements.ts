/** Laws about the costs that a worker reports after the end of a lease. */
import type { Law, LawView } from './law.ts'

/** More than two heartbeats, of which each repeats what the host has not acknowledged. */
const ANSWERED_MS_MAX = 45_000

interface OwedCosts {
  readonly worker: string
  /** Since when nothing has kept the worker and its host from settling. */
  since: number
}

const settledWhileConnected: Law = {
  number: '31',
  sentence: 'costs that a worker owes are settled on a connection that stands, whatever it lost before',
  observe: (view, fail) => {
    const owed = new Map<string, OwedCosts>()
    return {
      onWorkerCommitted: ({ plan }, { changes }) => {
        for (const change of changes) {
          if (change.is !== 'key-value' || change.collection !== 'settlement') continue
          if (change.row === null) owed.delete(change.key)
          else owed.set(change.key, { worker: plan.id, since: view.now() })
        }
      },
      onRowsDamaged: (_worker, rows) => {
        for (const { collection, leaseId } of rows) if (collection === 'settlement') owed.delete(leaseId)
      },
      onWorkerReceives: (_connection, frame) => {
        if (frame.type === 'lease-costs-ack') owed.delete(frame.leaseId)
      },
      onTick: () => {
        for (const [leaseId, costs] of owed) {
          // The worker keeps what can't be added to the damaged run, or to a lease of which nobody knows the run.
          const { runId } = { runId: '', ...view.disk.keyValue('ended-lease', leaseId) }
          // A lease of an earlier enrollment looks unknown until it ends, and so may be a damaged one.
          const mayBeDamaged = !view.hostDamage.isEmpty && view.lease(leaseId) !== undefined
          if (isDamagedFor(view, leaseId, runId)) continue
          const canSettle =
            !mayBeDamaged && view.isHostAwake() && view.isHostDiskWell() && view.isLinkSteady(costs.worker)
          if (!canSettle) costs.since = view.now()
          else if (view.now() - costs.since > ANSWERED_MS_MAX)
            fail(`${costs.worker} still owes the costs of ${leaseId}`)
        }
      },
    }
  },
}

const keptUntilCounted: Law = {
  number: '31',
  sentence: 'costs are acknowledged only when their run has them, also where the run or the lease is damaged',
  observe: (view, fail) => {
    const leases = new Map<string, { readonly runId: string; readonly workerId: string | undefined }>()
    return {
      onHostSends: (connection, frame) => {
        const workerId = view.registeredAs(connection)
        if (frame.type === 'dispatch') leases.set(frame.lease.id, { runId: frame.lease.runId, workerId })
        if (frame.type !== 'lease-costs-ack' || view.hostDamage.isEmpty) return
        const { leaseId } = frame
        const { runId = '', workerId: holder } = leases.get(leaseId) ?? {}
        // A worker that was enrolled again reports nothing under its old id.
        if (holder !== workerId || !isDamagedFor(view, leaseId, runId)) return
        const isCounted = view.run(runId)?.costs.some(({ model }) => model === leaseId) === true
        if (!isCounted) fail(`the costs of ${leaseId} are acknowledged, and ${runId} lacks them`)
      },
    }
  },
}

/** Whether nobody can add the costs: the run is damaged, or the records that say which run the lease had. */
function isDamagedFor({ hostDamage }: LawView, leaseId: string, runId: string): boolean {
  const isLeaseDamaged = (['lease', 'ended-lease'] as const).some((kind) => hostDamage.has(kind, leaseId))
  return isLeaseDamaged || hostDamage.has('run', runId)
}

export const settlementLaws: readonly Law[] = [settledWhileConnected, keptUntilCounted]
