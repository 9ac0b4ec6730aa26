/**
 * LeaseSettlements adds the costs of executions to their runs when a worker reports them after the end of the lease.
 *
 * The costs of one lease count once, however often they are reported: a record of the lease says that they are
 * settled, and is written in one commit with the run. A worker that reports costs does not claim the lease, so a
 * lease that is still live ends first. The acknowledgement follows the commit. A copy of the worker's data directory may
 * have reported an earlier reading of the same execution, so a later report that is higher takes its place.
 *
 * A lease whose record was gone after a restart ends when its run gives it up. Until then its worker keeps the costs,
 * because an acknowledgement would be the last word about them.
 */
import { isOfRun } from '../../core/damage.ts'
import type { LeaseShare } from '../../core/run/settle-costs.ts'
import { sumUsd } from '../../core/run/usage.ts'
import type { CostEntry } from '../../protocol/cost.ts'
import type { WorkerFrameOf } from '../../protocol/frames.ts'
import type { HostContext } from '../host-context.ts'
import type { LeaseShares } from '../runs/lease-shares.ts'
import { leaseShareOf, type RunContext } from '../runs/run.machine.ts'
import type { StateChange } from '../runtime/actor-system.ts'
import type { EnrolledWorker } from '../workers/enrolled-worker.ts'
import type { WorkerConnections } from '../workers/worker-connections.ts'
import type { EndedLease, EndedLeases } from './ended-leases.ts'
import { LEASE } from './lease.names.ts'

/** Stands where only the lost record of a lease said which worker had it. */
const UNKNOWN_WORKER = ''

export class LeaseSettlements {
  readonly #context: HostContext
  readonly #connections: WorkerConnections
  readonly #endedLeases: EndedLeases
  readonly #leaseShares: LeaseShares
  /** Leases that their runs still have though their records are gone. */
  readonly #gone = new Set<string>()

  constructor(
    context: HostContext,
    connections: WorkerConnections,
    endedLeases: EndedLeases,
    leaseShares: LeaseShares,
  ) {
    this.#context = context
    this.#connections = connections
    this.#endedLeases = endedLeases
    this.#leaseShares = leaseShares
  }

  acknowledge(workerId: string, leaseId: string): void {
    this.#connections.sendToWorker(workerId, { type: 'lease-costs-ack', leaseId })
  }

  /** Whether the worker may still report costs and usage of this lease. */
  isOpen(worker: EnrolledWorker, leaseId: string): boolean {
    if (worker.leases.has(leaseId)) return true
    const ended = this.#endedLeases.find(leaseId)
    return ended !== undefined && this.#isOwed(worker, leaseId, ended)
  }

  /** Called after a restart that found no record of a run's lease. */
  expectEnd(leaseId: string): void {
    this.#gone.add(leaseId)
  }

  /** Records the end of a lease without a record in the commit in which its run gives it up. */
  onRunChanged({ key, before, after, over }: StateChange<RunContext>): void {
    const context = before?.context
    const leaseId = context?.lease ?? null
    if (context === undefined || leaseId === null || !this.#gone.has(leaseId)) return
    if (!over && after.context.lease === leaseId) return
    this.#gone.delete(leaseId)
    const endedLeases = this.#endedLeases
    const { clock } = this.#context
    const lease = { id: leaseId, runId: key, workerId: UNKNOWN_WORKER, end: 'lost' } as const
    endedLeases.recordEnd(lease, clock.now(), leaseShareOf(context))
  }

  receive(worker: EnrolledWorker, { leaseId, costs }: WorkerFrameOf<'lease-costs'>): void {
    const [endedLeases, leaseShares] = [this.#endedLeases, this.#leaseShares]
    const { instant, system } = this.#context
    if (worker.leases.has(leaseId))
      system.send(LEASE, leaseId, { type: 'worker denied lease', at: instant() })
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
    const [endedLeases, leaseShares] = [this.#endedLeases, this.#leaseShares]
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
    const endedLeases = this.#endedLeases
    const { log } = this.#context
    if (!endedLeases.isStored(leaseId)) return
    if (ended === undefined || !mayBeOf(id, ended))
      log.warn({ worker: id, lease: leaseId }, 'ignored the costs of a lease that this worker never had')
    this.acknowledge(id, leaseId)
  }

  /** The lease, its end or its run may be damaged or gone: its worker keeps the costs, which nobody else knows. */
  #isUnsure(leaseId: string): boolean {
    const { store, system } = this.#context
    const isDamaged = system.hasDamaged(LEASE) || store.database.damage.all().some(isOfRun)
    return isDamaged || this.#gone.has(leaseId) || this.#endedLeases.isUnreadable(leaseId)
  }

  #isOwed({ id }: EnrolledWorker, leaseId: string, ended: EndedLease): boolean {
    return mayBeOf(id, ended) && ended.how !== 'completed' && !this.#endedLeases.isSettled(leaseId)
  }
}

const mayBeOf = (id: string, { workerId }: EndedLease): boolean =>
  workerId === id || workerId === UNKNOWN_WORKER
