/**
 * LeaseShares knows which costs of a run belong to which lease, and adds those that arrive after a lease's end.
 *
 * The run changes at once, and its log and record become durable with the next commit. LeaseSettlements makes sure that
 * the costs of a lease are added once.
 */
import { attemptsOf, labelFor, labelled } from '../../core/run/cost.ts'
import { type LeaseShare, settleCosts } from '../../core/run/settle-costs.ts'
import { isJsonEqual } from '../../core/settings/json-equal.ts'
import type { CostEntry } from '../../protocol/cost.ts'
import type { Run } from '../../protocol/run.ts'
import type { ActorSystem, StateChange } from '../runtime/actor-system.ts'
import type { FinishedRuns } from './finished-runs.ts'
import { costLabelOf, leaseShareOf, type RunContext, type RunMachineEvent } from './run.machine.ts'
import { RUN } from './run.names.ts'
import type { RunEventLog } from './run-event-log.ts'

export interface LeaseSharesPorts {
  /** The current wall time as an ISO 8601 timestamp. */
  readonly instant: () => string
  readonly system: ActorSystem
  readonly finishedRuns: FinishedRuns
  readonly runEventLog: RunEventLog
  readonly isLive: (leaseId: string) => boolean
}

export class LeaseShares {
  readonly #ports: LeaseSharesPorts

  /** By lease id, the shares of leases that have outlived their run. */
  readonly #left = new Map<string, LeaseShare>()

  constructor(ports: LeaseSharesPorts) {
    this.#ports = ports
  }

  /** Keeps the share of a lease that ends after its run, such as one that is cancelled in the queue. */
  onRunChanged({ before, over }: StateChange): void {
    const context = before?.context as RunContext | undefined
    if (!over || context === undefined || context.lease === null) return
    if (this.#ports.isLive(context.lease)) this.#left.set(context.lease, leaseShareOf(context))
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
    const run = this.#contextOf(runId)?.run ?? this.#ports.finishedRuns.latest(runId)
    return run && { label, from, entries: run.costs.slice(from).filter((entry) => entry.label === label) }
  }

  /**
   * Adds the costs of an ended lease to its run. Returns false while the run's actor recovers from a crash: the costs
   * would count as stored before they are.
   */
  settle(runId: string, known: LeaseShare | undefined, costs: readonly CostEntry[]): boolean {
    const { system, finishedRuns, runEventLog, instant } = this.#ports
    const context = this.#contextOf(runId)
    const run = context?.run ?? finishedRuns.latest(runId)
    if (run === undefined) return true
    const share = known ?? unknownShareOf(run)
    const entries = labelled(costs, share.label)
    if (isJsonEqual(entries, share.entries)) return true
    const settled: RunMachineEvent = { type: 'costs settled', share, costs }
    if (context === undefined) finishedRuns.update(settleCosts(run, run.costs.length, share, costs).run)
    else if (system.isRunning(RUN, runId)) system.send(RUN, runId, settled)
    else return false
    for (const entry of entries) runEventLog.append(runId, { at: instant(), type: 'cost', entry })
    return true
  }

  #contextOf(runId: string): RunContext | undefined {
    return this.#ports.system.peek(RUN, runId)?.context as RunContext | undefined
  }
}

/** The lease was not the run's. */
function unknownShareOf({ costs }: Run): LeaseShare {
  return { label: labelFor('run', attemptsOf(costs) + 1), from: costs.length, entries: [] }
}
