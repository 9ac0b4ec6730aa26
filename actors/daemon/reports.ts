/**
 * Passes the reports of executions to the frame outbox, and stores progress and costs in the execution's snapshot.
 *
 * The log of an execution is split into events and limited to its budget before it reaches the outbox.
 * Everything is checked before it is stored, because an unreadable snapshot would leave its run without a report.
 */
import { failedOutcome } from '../../core/daemon/outcome.ts'
import type { ExecutionReport, Progress, RecoveredOutputs } from '../../core/daemon/ports.ts'
import type { Log } from '../../core/ports/log.ts'
import { executionLogBytes, LogLimiter, logBudget, splitLogEvent } from '../../core/run/log-budget.ts'
import { checkExecutionProgress } from '../../protocol/actor-snapshots.ts'
import { configDefaults } from '../../protocol/config.ts'
import type { CostEntry } from '../../protocol/cost.ts'
import { fitFrame } from '../../protocol/frame-budget.ts'
import { checkWorkerFrame, type Job, type RunOutcome, type RunPatch } from '../../protocol/frames.ts'
import { RUN_COSTS_MAX } from '../../protocol/limits.ts'
import { messageOf } from '../../protocol/message-of.ts'
import type { DaemonContext } from './daemon-context.ts'
import { type ExecutionContext, isLeaseLost } from './execution.machine.ts'
import type { ExecutionLookup } from './execution-lookup.ts'
import type { FrameOutbox } from './frame-outbox.ts'

/** How many costs are stored when they are reported one by one. */
const RECORDED_COSTS_MAX = 64

/** The budget of a log whose host names none, because it is older. */
const LOG_BYTES_DEFAULT = executionLogBytes(logBudget(configDefaults), 0)

interface LeaseReports {
  /** The remote of the repository, to which memories belong. */
  readonly remote: string
  readonly logLimiter: LogLimiter
  /** The execution has reported its costs as a whole list, which contains the single entries. */
  hasWholeCostList: boolean
  /** By progress field, the last value (as JSON) that was sent to the host. */
  readonly sentFields: Map<string, string>
}

export class Reports {
  readonly #log: Log
  readonly #lookup: ExecutionLookup
  readonly #outbox: FrameOutbox
  readonly #byLease = new Map<string, LeaseReports>()

  constructor(log: Log, lookup: ExecutionLookup, outbox: FrameOutbox) {
    this.#log = log
    this.#lookup = lookup
    this.#outbox = outbox
  }

  open(leaseId: string, { repo, limits }: Job): void {
    const logLimiter = new LogLimiter(limits.logBytes ?? LOG_BYTES_DEFAULT)
    this.#byLease.set(leaseId, {
      remote: repo.remote,
      logLimiter,
      hasWholeCostList: false,
      sentFields: new Map(),
    })
  }

  /** Sends the held-back end of a log. Called before the outcome becomes durable, so that both do in one commit. */
  endLog(leaseId: string, at: string): void {
    const reports = this.#byLease.get(leaseId)
    if (reports === undefined || this.#lookup.stateOf(leaseId) === 'abandoned') return
    for (const event of reports.logLimiter.end(at))
      this.#outbox.addReport(leaseId, { is: 'event', event }, reports.remote)
  }

  /** Later reports of this lease are ignored. */
  close(leaseId: string): void {
    this.#byLease.delete(leaseId)
  }

  /** Never throws, because the caller is reading an agent's output and must not stop for one bad report. */
  report(leaseId: string, report: ExecutionReport): void {
    try {
      this.#addReport(leaseId, report)
    } catch (error) {
      const reason = messageOf(error)
      this.#log.error({ lease: leaseId, is: report.is, reason }, 'could not process a report of an execution')
    }
  }

  #addReport(leaseId: string, report: ExecutionReport): void {
    const reports = this.#byLease.get(leaseId)
    if (reports === undefined) return
    const fields = this.#lookup.fieldsOf(leaseId)
    // Only the usage and the costs of an execution without a lease count.
    const isOwed = report.is === 'usage' || (fields !== undefined && !isLeaseLost(fields))
    if (isOwed && !this.#send(leaseId, report, reports)) return
    this.#noteCosts(leaseId, report, reports)
  }

  #noteCosts(leaseId: string, report: ExecutionReport, reports: LeaseReports): void {
    if (report.is === 'patch' && report.patch.costs !== undefined) {
      reports.hasWholeCostList = true
      this.#setCosts(leaseId, report.patch.costs)
    } else if (report.is === 'event' && report.event.type === 'cost' && !reports.hasWholeCostList)
      this.#addCost(leaseId, report.event.entry)
  }

  /** Returns false when the outbox did not accept the report. Events that the log's budget holds back count as sent. */
  #send(leaseId: string, report: ExecutionReport, { logLimiter, remote }: LeaseReports): boolean {
    const outbox = this.#outbox
    if (report.is !== 'event') return outbox.addReport(leaseId, report, remote)
    const events = splitLogEvent(report.event).flatMap((event) => logLimiter.add(event))
    return events.every((event) => outbox.addReport(leaseId, { is: 'event', event }, remote))
  }

  patch(leaseId: string, patch: RunPatch): void {
    this.report(leaseId, { is: 'patch', patch })
  }

  /** Stores progress, and sends changed fields to the host: a pull request that the host knows outlives this machine. */
  recordProgress(leaseId: string, progress: Progress): void {
    const checked = checkExecutionProgress(progress)
    if (!checked.ok) {
      this.#log.error(
        { lease: leaseId, problem: checked.error },
        'ignored progress that does not match its schema',
      )
      return
    }
    this.#lookup.send(leaseId, { type: 'progressed', progress: checked.value })
    const sent = this.#byLease.get(leaseId)?.sentFields
    const { sandbox, agentSessionId, prUrl, prState } = checked.value
    const changes = Object.entries({ sandbox, agentSessionId, prUrl, prState }).filter(
      ([field, value]) => value !== undefined && sent?.get(field) !== JSON.stringify(value),
    )
    if (changes.length === 0) return
    for (const [field, value] of changes) sent?.set(field, JSON.stringify(value))
    this.patch(leaseId, Object.fromEntries(changes))
  }

  /** Adds the completion to the outbox, once per lease. */
  complete(leaseId: string): void {
    const [lookup, outbox] = [this.#lookup, this.#outbox]
    const outcome = lookup.fieldsOf(leaseId)?.outcome
    if (outcome === undefined || outcome === null || outbox.hasCompletion(leaseId)) return
    if (!outbox.addCompletion(leaseId, outcome)) outbox.addCompletion(leaseId, fitOutcome(outcome))
  }

  #addCost(leaseId: string, entry: CostEntry): void {
    const costs = this.#lookup.fieldsOf(leaseId)?.costs ?? []
    if (costs.length < RECORDED_COSTS_MAX) this.#setCosts(leaseId, [...costs, entry])
  }

  #setCosts(leaseId: string, costs: readonly CostEntry[]): void {
    const outcome = fitOutcome({ status: 'failed', costs: costs.slice(0, RUN_COSTS_MAX) })
    this.#lookup.send(leaseId, { type: 'costs reported', costs: outcome.costs })
  }
}

/** Shortens an outcome until the host accepts it as a frame. An outcome that cannot be shortened becomes a failure. */
export function fitOutcome(outcome: RunOutcome): RunOutcome {
  const frame = fitFrame({ type: 'run-complete', leaseId: 'any', seq: 1, outcome })
  return checkWorkerFrame(frame).ok
    ? frame.outcome
    : failedOutcome('internal error: the outcome does not match its schema')
}

// ---- recovery ----------------------------------------------------------------------------------------------------

/** Reports what an execution has left behind whose daemon died: its sandbox, its usage and its costs. */
export async function recoverOutputs(
  fields: ExecutionContext,
  context: DaemonContext,
  { lookup, outbox }: { readonly lookup: ExecutionLookup; readonly outbox: FrameOutbox },
): Promise<void> {
  const { leaseId } = fields
  const { sandbox, costs = [], usage = [] } = await readOutputs(fields, context)
  for (const snapshot of usage) outbox.addReport(leaseId, { is: 'usage', snapshot }, '')
  // Costs that were reported before the daemon died are in the stored execution already.
  if (fields.costs.length === 0 && costs.length > 0) {
    const event = { type: 'cost', at: new Date(context.clock.now()).toISOString() } as const
    for (const entry of costs) outbox.addReport(leaseId, { is: 'event', event: { ...event, entry } }, '')
    lookup.send(leaseId, { type: 'costs reported', costs: [...costs] })
  }
  lookup.send(leaseId, { type: 'recovered', sandbox })
}

async function readOutputs(
  fields: ExecutionContext,
  { executor, log }: DaemonContext,
): Promise<RecoveredOutputs> {
  const { leaseId, runId, progress, retentionHours } = fields
  const ended = { leaseId, runId, isLeaseLost: isLeaseLost(fields) }
  try {
    const recovered = await executor.recover(ended, progress, retentionHours)
    const { sandbox } = recovered
    if (sandbox === undefined || checkExecutionProgress({ sandbox }).ok) return recovered
  } catch (error) {
    const reason = messageOf(error)
    log.error({ run: runId, reason }, 'could not recover the outputs of a run')
  }
  return {}
}
