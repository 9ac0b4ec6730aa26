/** Laws about the costs that a worker reports after the end of a lease. */
import type { Law } from './law.ts'

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
      onWorkerReceives: (_wire, frame) => {
        if (frame.type === 'lease-costs-ack') owed.delete(frame.leaseId)
      },
      onTick: () => {
        for (const [leaseId, costs] of owed) {
          const canSettle = view.isHostAwake() && view.isHostDiskWell() && view.isLinkSteady(costs.worker)
          if (!canSettle) costs.since = view.now()
          else if (view.now() - costs.since > ANSWERED_MS_MAX)
            fail(`${costs.worker} still owes the costs of ${leaseId}`)
        }
      },
    }
  },
}

export const settlementLaws: readonly Law[] = [settledWhileConnected]
