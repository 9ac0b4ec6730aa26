/**
 * What executions tell: to the post, and what must outlive the daemon into their records.
 *
 * Nothing gets into a record that its reader would refuse: a record that can't be read is a run nobody speaks for.
 */
import { isNativeError } from 'node:util/types'
import { failedOutcome } from '../../core/daemon/outcome.ts'
import type { ExecutionReport, Progress } from '../../core/daemon/ports.ts'
import type { Log } from '../../core/ports.ts'
import { checkExecutionProgress } from '../../protocol/actor-snapshots.ts'
import type { CostEntry } from '../../protocol/cost.ts'
import { fitting } from '../../protocol/frame-budget.ts'
import { checkWorkerFrame, type RunOutcome, type RunPatch } from '../../protocol/frames.ts'
import { RUN_COSTS_MAX } from '../../protocol/limits.ts'
import type { ExecutionLookup } from './execution-lookup.ts'
import type { FrameOutbox } from './frame-outbox.ts'

export interface ReportsPorts {
  readonly log: Log
  readonly lookup: ExecutionLookup
  readonly outbox: FrameOutbox
}

/** What is noted of costs that are told one by one. */
const RECORDED_COSTS_MAX = 64

interface LeaseReports {
  /** The repository that memories belong to. */
  readonly remote: string
  /** Costs have come as a whole list: single entries are in it. */
  hasWholeCostList: boolean
  /** By field, what of its progress the host has been told. */
  readonly sentFields: Map<string, string>
}

export class Reports {
  readonly #ports: ReportsPorts
  readonly #byLease = new Map<string, LeaseReports>()

  constructor(ports: ReportsPorts) {
    this.#ports = ports
  }

  open(leaseId: string, remote: string): void {
    this.#byLease.set(leaseId, { remote, hasWholeCostList: false, sentFields: new Map() })
  }

  /** Whatever it still tells is not heard. */
  close(leaseId: string): void {
    this.#byLease.delete(leaseId)
  }

  /** Whoever tells is reading an agent's output: whatever is wrong with it must not end that. */
  report(leaseId: string, told: ExecutionReport): void {
    try {
      this.#addReport(leaseId, told)
    } catch (error) {
      const reason = isNativeError(error) ? error.message : String(error)
      this.#ports.log.error({ lease: leaseId, is: told.is, reason }, 'a report could not be taken')
    }
  }

  #addReport(leaseId: string, told: ExecutionReport): void {
    const reporter = this.#byLease.get(leaseId)
    if (reporter === undefined || this.#ports.lookup.stateOf(leaseId) === 'abandoned') return
    if (!this.#ports.outbox.addReport(leaseId, told, reporter.remote)) return
    if (told.is === 'patch' && told.patch.costs !== undefined) {
      reporter.hasWholeCostList = true
      this.#setCosts(leaseId, told.patch.costs)
    } else if (told.is === 'event' && told.event.type === 'cost' && !reporter.hasWholeCostList)
      this.#addCost(leaseId, told.event.entry)
  }

  patch(leaseId: string, patch: RunPatch): void {
    this.report(leaseId, { is: 'patch', patch })
  }

  /** Into the record, and to the host what concerns it: a pull request that it knows of outlives this machine. */
  recordProgress(leaseId: string, progress: Progress): void {
    const checked = checkExecutionProgress(progress)
    if (!checked.ok) {
      this.#ports.log.error({ lease: leaseId, problem: checked.error }, 'progress that is not of its form')
      return
    }
    this.#ports.lookup.send(leaseId, { type: 'progressed', progress: checked.value })
    const told = this.#byLease.get(leaseId)?.sentFields
    const { sandbox, agentSessionId, prUrl, prState } = checked.value
    const changes = Object.entries({ sandbox, agentSessionId, prUrl, prState }).filter(
      ([field, value]) => value !== undefined && told?.get(field) !== JSON.stringify(value),
    )
    if (changes.length === 0) return
    for (const [field, value] of changes) told?.set(field, JSON.stringify(value))
    this.patch(leaseId, Object.fromEntries(changes))
  }

  /** Once a lease: a completion that is in the post is not told again. */
  complete(leaseId: string): void {
    const { lookup, outbox } = this.#ports
    const outcome = lookup.fieldsOf(leaseId)?.outcome
    if (outcome === undefined || outcome === null || outbox.hasCompletion(leaseId)) return
    if (!outbox.addCompletion(leaseId, outcome)) outbox.addCompletion(leaseId, fitOutcome(outcome))
  }

  #addCost(leaseId: string, entry: CostEntry): void {
    const costs = this.#ports.lookup.fieldsOf(leaseId)?.costs ?? []
    if (costs.length < RECORDED_COSTS_MAX) this.#setCosts(leaseId, [...costs, entry])
  }

  #setCosts(leaseId: string, costs: readonly CostEntry[]): void {
    const outcome = fitOutcome({ status: 'failed', costs: costs.slice(0, RUN_COSTS_MAX) })
    this.#ports.lookup.send(leaseId, { type: 'spent', costs: outcome.costs })
  }
}

/** The same outcome as the host takes it; if no cutting makes it so, what can be said of it. */
export function fitOutcome(outcome: RunOutcome): RunOutcome {
  const frame = fitting({ type: 'run-complete', leaseId: 'any', seq: 1, outcome })
  return checkWorkerFrame(frame).ok
    ? frame.outcome
    : failedOutcome('internal error: the outcome was not of its form')
}
