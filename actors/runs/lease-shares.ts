/**
 * LeaseShares knows which costs of a run belong to which lease, and adds those that arrive after a lease's end.
 *
 * The run changes at once, and its log and record become durable with the next commit. LeaseSettlements makes sure that
 * the costs of a lease are added once.
 */

import { readOr } from '../../core/damage.ts'
import { attemptsOf, labelFor, labelled } from '../../core/run/cost.ts'
import { type LeaseShare, settleCosts } from '../../core/run/settle-costs.ts'
import { isJsonEqual } from '../../core/settings/json-values.ts'
import type { CostEntry } from '../../protocol/cost.ts'
import type { Run } from '../../protocol/run.ts'
import { defineHostModule, type HostContext } from '../host-context.ts'
import type { StateChange } from '../runtime/actor-system.ts'
import { observeKind } from '../runtime/module.ts'
import type { WorkersView } from '../workers/module.ts'
import type { RunRecordsView } from './module.ts'
import { costLabelOf, leaseShareOf, RUN, type RunContext } from './run.machine.ts'

export class LeaseShares {
  readonly #context: HostContext
  readonly #records: RunRecordsView
  readonly #workers: WorkersView

  /** By lease id, the shares of leases that have outlived their run. */
  readonly #left = new Map<string, LeaseShare>()

  constructor(context: HostContext, records: RunRecordsView, workers: WorkersView) {
    this.#context = context
    this.#records = records
    this.#workers = workers
  }

  /** Keeps the share of a lease that ends after its run, such as one that is cancelled in the queue. */
  onRunChanged({ before, over }: StateChange<RunContext>): void {
    const context = before?.context
    if (!over || context === undefined || context.lease === null) return
    if (this.#workers.registry.lease(context.lease) !== undefined)
      this.#left.set(context.lease, leaseShareOf(context))
  }

  /** The label of the costs that the run's current lease reports. */
  labelOf(runId: string): string | undefined {
    const context = this.#contextOf(runId)
    return context === undefined ? undefined : costLabelOf(context)
  }

  /** The part of the run's costs that a lease has reported at its end; undefined for a lease that is not the run's. */
  take(runId: string, leaseId: string): LeaseShare | undefined {
    const left = this.#left.get(leaseId)
    this.#left.delete(leaseId)
    const context = this.#contextOf(runId)
    return context?.lease === leaseId ? leaseShareOf(context) : left
  }

  /**
   * The share of an ended lease as its run has it. `costs`: as its settlement reported them; undefined when the lease
   * completed with them.
   */
  settled(runId: string, share: LeaseShare, costs: readonly CostEntry[] | undefined): LeaseShare | undefined {
    const { label, from } = share
    if (costs !== undefined) return { label, from, entries: labelled(costs, label) }
    const run = this.#latest(runId)
    if (run === undefined || run === null) return undefined
    return { label, from, entries: run.costs.slice(from).filter((entry) => entry.label === label) }
  }

  /**
   * Adds the costs of an ended lease to its run. Returns false while the run's actor recovers from a crash, and where the
   * record is damaged: the costs would count as stored before they are, so their worker keeps them.
   */
  settle(runId: string, known: LeaseShare | undefined, costs: readonly CostEntry[]): boolean {
    const { system, instant } = this.#context
    const { finishedRuns, eventLog } = this.#records
    const context = this.#contextOf(runId)
    const run = this.#latest(runId)
    if (run === null) return false
    if (run === undefined) return true
    const share = known ?? unknownShareOf(run)
    const entries = labelled(costs, share.label)
    if (isJsonEqual(entries, share.entries)) return true
    if (context === undefined) finishedRuns.update(settleCosts(run, run.costs.length, share, costs).run)
    else if (system.isRunning(RUN, runId)) system.send(RUN, runId, { type: 'costs settled', share, costs })
    else return false
    for (const entry of entries) eventLog.append(runId, { at: instant(), type: 'cost', entry })
    return true
  }

  /** Null for a damaged record. */
  #latest(runId: string): Run | undefined | null {
    return (
      this.#contextOf(runId)?.run ??
      readOr<Run | undefined | null>(
        () => this.#records.finishedRuns.latest(runId),
        () => null,
      )
    )
  }

  #contextOf(runId: string): RunContext | undefined {
    return this.#context.system.peek(RUN, runId)?.context
  }
}

/** The lease was not the run's. */
function unknownShareOf({ costs }: Run): LeaseShare {
  return { label: labelFor('run', attemptsOf(costs) + 1), from: costs.length, entries: [] }
}

declare module '../runtime/module.ts' {
  interface ModuleViews {
    readonly leaseShares: LeaseShares
  }
}

/** The leaseShares module knows which costs of a run belong to which lease. */
export const leaseSharesModule = defineHostModule({
  name: 'leaseShares',
  create(context, { runRecords, workers }) {
    const shares = new LeaseShares(context, runRecords, workers)
    return { view: shares, onStateChange: [observeKind(RUN, (change) => shares.onRunChanged(change))] }
  },
})
