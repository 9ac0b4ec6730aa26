/**
 * LeaseSettlements adds the costs of executions to their runs when a worker reports them after the end of the lease.
 *
 * The costs of one lease count once, however often they are reported: a record of the lease says that they are
 * settled, and is written in one commit with the run. A worker that reports costs does not claim the lease, so a
 * lease that is still live ends first. The acknowledgement follows the commit. A copy of the worker's data directory may
 * have reported an earlier reading of the same execution, so a later report that is higher takes its place.
 */
import type { LeaseShare } from '../../core/run/settle-costs.ts'
import { sumUsd } from '../../core/run/usage.ts'
import type { CostEntry } from '../../protocol/cost.ts'
import type { WorkerFrameOf } from '../../protocol/frames.ts'
import type { HostContext } from '../host-context.ts'
import type { LeaseShares } from '../runs/lease-shares.ts'
import type { EnrolledWorker } from '../workers/enrolled-worker.ts'
import type { EndedLease, EndedLeases } from './ended-leases.ts'
import type { LeaseEvent } from './lease.machine.ts'
import { LEASE } from './lease.names.ts'

export interface LeaseSettlementsPorts extends Pick<HostContext, 'instant' | 'log' | 'system'> {
  readonly endedLeases: EndedLeases
  readonly leaseShares: LeaseShares
  readonly acknowledge: (workerId: string, leaseId: string) => void
}

export class LeaseSettlements {
  readonly #ports: LeaseSettlementsPorts

  constructor(ports: LeaseSettlementsPorts) {
    this.#ports = ports
  }

  /** Whether the worker may still report costs and usage of this lease. */
  isOpen(worker: EnrolledWorker, leaseId: string): boolean {
    if (worker.leases.has(leaseId)) return true
    const ended = this.#ports.endedLeases.find(leaseId)
    return ended !== undefined && this.#isOwed(worker, leaseId, ended)
  }

  receive(worker: EnrolledWorker, { leaseId, costs }: WorkerFrameOf<'lease-costs'>): void {
    const { instant, system, endedLeases, leaseShares } = this.#ports
    const denied: LeaseEvent = { type: 'worker denied lease', at: instant() }
    if (worker.leases.has(leaseId)) system.send(LEASE, leaseId, denied)
    // The worker repeats the report, and a lease that could not end now will have ended by then.
    if (worker.leases.has(leaseId)) return
    const ended = endedLeases.find(leaseId)
    if (ended === undefined && this.#isUnsure(leaseId)) return
    const isOwed = ended !== undefined && this.#isOwed(worker, leaseId, ended)
    const share = isOwed ? ended.share : this.#lowerShare(worker, leaseId, costs)
    if (ended === undefined || (!isOwed && share === undefined))
      this.#acknowledgeStored(worker, leaseId, ended)
    else if (leaseShares.settle(ended.runId, share, costs))
      endedLeases.recordSettlement(leaseId, worker.id, costs)
  }

  /** The settled share of the lease, where it is lower than these costs. */
  #lowerShare({ id }: EnrolledWorker, leaseId: string, costs: readonly CostEntry[]): LeaseShare | undefined {
    const { endedLeases, leaseShares } = this.#ports
    const { workerId, runId, share } = endedLeases.find(leaseId) ?? {}
    if (workerId !== id || runId === undefined || share === undefined || !endedLeases.isStored(leaseId))
      return undefined
    const settled = leaseShares.settled(runId, share, endedLeases.settledCosts(leaseId))
    return settled !== undefined && (sumUsd(costs) ?? 0) > (sumUsd(settled.entries) ?? 0)
      ? settled
      : undefined
  }

  /** Records that are not on disk yet get no answer: the acknowledgement follows the commit, or the next report. */
  #acknowledgeStored({ id }: EnrolledWorker, leaseId: string, ended: EndedLease | undefined): void {
    const { acknowledge, endedLeases, log } = this.#ports
    if (!endedLeases.isStored(leaseId)) return
    if (ended?.workerId !== id)
      log.warn({ worker: id, lease: leaseId }, 'ignored the costs of a lease that this worker never had')
    acknowledge(id, leaseId)
  }

  /** The lease or its end may be a damaged one: its worker keeps the costs, which nobody else knows. */
  #isUnsure(leaseId: string): boolean {
    const { system, endedLeases } = this.#ports
    return system.hasDamaged(LEASE) || endedLeases.isUnreadable(leaseId)
  }

  #isOwed({ id }: EnrolledWorker, leaseId: string, { workerId, how }: EndedLease): boolean {
    return workerId === id && how !== 'completed' && !this.#ports.endedLeases.isSettled(leaseId)
  }
}
