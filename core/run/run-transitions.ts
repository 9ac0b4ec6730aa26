/**
 * The run's record after each thing that happens to it.
 *
 * Every function answers a new record and leaves its argument alone. A fact that no longer holds is left out rather
 * than set to nothing. Whether a thing may happen is asked elsewhere (`permission.ts`, the machines); here it has.
 */
import type { RunOutcome, RunPatch } from '../../protocol/frames.ts'
import { RETENTION_SLACK_HOURS, TEXT_CHARS_MAX } from '../../protocol/limits.ts'
import type { PullState, Run, RunResult, RunSandbox, RunStatus, Ticket } from '../../protocol/run.ts'
import { truncate } from '../safe-text.ts'
import { foldExcessCosts, replaceLeaseCosts, totalsOf } from './cost.ts'

const HOUR_MS = 3_600_000

/** How far along each status is. Only the three in the middle are ever reached by a worker's word alone. */
const PROGRESS: Readonly<Record<RunStatus, number>> = {
  queued: 0,
  preparing: 1,
  running: 2,
  finalizing: 3,
  completed: 4,
  failed: 4,
  cancelled: 4,
}

export function isTerminal(status: RunStatus): boolean {
  return PROGRESS[status] === 4
}

/** A worker is at it. */
export function isActive(status: RunStatus): boolean {
  return !isTerminal(status) && status !== 'queued'
}

export function newRun(id: string, ticket: Ticket, now: string): Run {
  return { id, ticket, status: 'queued', sandbox: {}, createdAt: now, queuedAt: now, costs: [] }
}

/**
 * A sandbox, and the agent's session in it, are of one machine: what another worker held is nothing to this one. The
 * one it holds itself stays, for a follow-up works in it.
 */
export function acceptRun(run: Run, by: { readonly workerId: string; readonly now: string }): Run {
  const { provider = 'bwrap', workerId } = run.sandbox
  const moved = workerId !== undefined && workerId !== by.workerId
  const kept = omitFields(
    run,
    moved ? ['queueReason', 'finishedAt', 'agentSessionId'] : ['queueReason', 'finishedAt'],
  )
  return {
    ...kept,
    status: 'preparing',
    startedAt: by.now,
    sandbox: { ...(moved ? {} : run.sandbox), provider, workerId: by.workerId },
  }
}

/** Whose report it is, and which of the run's costs were there before its lease. */
export interface LeaseReporter {
  readonly workerId: string
  readonly costsBefore: number
  readonly label: string
}

/** Until when a sandbox is kept is settled when the run ends, so a patch has no say in it. */
export function patchRun(run: Run, patch: RunPatch, by: LeaseReporter): Run {
  const sandbox = { ...patch.sandbox }
  delete sandbox.retainedUntil
  return {
    ...applyReport(run, patch, by),
    status: furthestStatus(run.status, patch.status),
    sandbox: { ...run.sandbox, ...sandbox, workerId: by.workerId },
  }
}

export function finishRun(
  run: Run,
  outcome: RunOutcome,
  by: LeaseReporter & { readonly now: string; readonly retentionHours: number },
): Run {
  const result = resultOf(outcome) ?? run.result
  const error = outcome.error ?? (outcome.status === 'failed' ? 'the worker gave no reason' : undefined)
  return {
    ...omitFields(applyReport(run, outcome, by), ['queueReason', 'error']),
    status: outcome.status,
    finishedAt: by.now,
    sandbox: retainedSandbox({ ...run.sandbox, ...outcome.sandbox, workerId: by.workerId }, outcome, by),
    ...(result === undefined ? {} : { result }),
    ...(error === undefined ? {} : { error }),
  }
}

/** Since when it waits is kept when it never stopped waiting: a refused dispatch costs it no age. */
export function requeueRun(run: Run, reason: string | undefined, now: string): Run {
  const since = run.status === 'queued' ? (run.queuedAt ?? now) : now
  return {
    ...queueAgain(omitFields(run, ['startedAt', 'finishedAt', 'queueReason']), since),
    ...(reason === undefined ? {} : { queueReason: truncate(reason, TEXT_CHARS_MAX) }),
  }
}

/** Its worker is gone, its pull request is there: the pull request is the result. */
export function completeWithPull(run: Run, now: string): Run {
  const { prUrl } = run
  if (prUrl === undefined) throw new Error(`${run.id} has no pull request to adopt a result from`)
  const branch = run.result?.branch
  return {
    ...omitFields(run, ['queueReason', 'error']),
    status: 'completed',
    finishedAt: now,
    result: { prUrl, ...(branch === undefined ? {} : { branch }), artifacts: [] },
  }
}

export function failRun(run: Run, error: string, now: string): Run {
  return endRun(run, 'failed', now, error)
}

export function cancelRun(run: Run, now: string, error?: string): Run {
  return endRun(run, 'cancelled', now, error)
}

/** The very same object when it is no news, or about another pull request than the run has by now. */
export function updatePullState(run: Run, url: string, prState: PullState): Run {
  return run.prUrl !== url || run.prState === prState ? run : { ...run, prState }
}

/** The sandbox stays on the record until a worker has accepted: until then it can still be discarded. */
export function queueRetry(run: Run, now: string): Run {
  return queueAgain(omitFields(run, ['result', 'error', 'startedAt', 'finishedAt', 'queueReason']), now)
}

/** What it has come to stays: a follow-up adds to it. */
export function queueFollowUp(run: Run, now: string): Run {
  return queueAgain(omitFields(run, ['error', 'startedAt', 'finishedAt', 'queueReason']), now)
}

/** What a run is put back to when its follow-up comes to nothing. */
export interface EarlierResult {
  readonly result: RunResult | null
  readonly startedAt: string | null
  readonly finishedAt: string | null
}

/** As completed as it was, with a word about what went wrong. */
export function revertFollowUp(run: Run, earlier: EarlierResult | null, why: string, now: string): Run {
  return {
    ...omitFields(run, ['queueReason', 'result', 'startedAt']),
    status: 'completed',
    ...(earlier?.startedAt == null ? {} : { startedAt: earlier.startedAt }),
    error: truncate(`the follow-up failed: ${why}`, TEXT_CHARS_MAX),
    finishedAt: earlier?.finishedAt ?? now,
    ...(earlier?.result == null ? {} : { result: earlier.result }),
  }
}

/** That it was retained is kept, so that a resume is told "gone" and not "never there". */
export function markSandboxDiscarded(run: Run, now: string): Run {
  const sandbox: RunSandbox = { ...run.sandbox, retainedUntil: now }
  delete sandbox.id
  return { ...run, sandbox }
}

// ---- parts -----------------------------------------------------------------------------------------------------

type ClearableField =
  | 'queueReason'
  | 'startedAt'
  | 'finishedAt'
  | 'result'
  | 'error'
  | 'agentSessionId'
  | 'costTotals'
  | 'prState'

function omitFields(run: Run, keys: readonly ClearableField[]): Run {
  const kept = { ...run }
  for (const key of keys) delete kept[key]
  return kept
}

function endRun(run: Run, status: 'failed' | 'cancelled', now: string, error: string | undefined): Run {
  return {
    ...omitFields(run, ['queueReason', 'error']),
    status,
    finishedAt: now,
    ...(error === undefined ? {} : { error: truncate(error, TEXT_CHARS_MAX) }),
  }
}

function queueAgain(run: Run, queuedAt: string): Run {
  return { ...withCosts(run, foldExcessCosts(run.costs)), status: 'queued', queuedAt }
}

function withCosts(run: Run, costs: Run['costs']): Run {
  const costTotals = totalsOf(costs)
  return { ...omitFields(run, ['costTotals']), costs, ...(costTotals === undefined ? {} : { costTotals }) }
}

/** A run that is not with a worker stays where it is: accepting comes first, and an end is an end. */
function furthestStatus(current: RunStatus, reported: RunStatus | undefined): RunStatus {
  if (reported === undefined || !isActive(current)) return current
  return PROGRESS[reported] > PROGRESS[current] ? reported : current
}

/** What a patch and an outcome have in common. */
function applyReport(run: Run, report: RunPatch | RunOutcome, by: LeaseReporter): Run {
  const { agentSessionId, costs } = report
  const known = withPull(run, report)
  return {
    ...(costs === undefined
      ? known
      : withCosts(known, replaceLeaseCosts(run.costs, by.costsBefore, costs, by.label))),
    ...(agentSessionId === undefined ? {} : { agentSessionId }),
  }
}

/** What was last seen of one pull request says nothing of another. */
function withPull(run: Run, report: RunPatch | RunOutcome): Run {
  const prUrl = report.prUrl ?? ('result' in report ? report.result?.prUrl : undefined) ?? run.prUrl
  const { prState } = report
  return {
    ...(prUrl === run.prUrl ? run : omitFields(run, ['prState'])),
    ...(prUrl === undefined ? {} : { prUrl }),
    ...(prState === undefined ? {} : { prState }),
  }
}

function resultOf({ status, result, prUrl }: RunOutcome): RunResult | undefined {
  if (result === undefined) {
    return status === 'completed' && prUrl !== undefined ? { prUrl, artifacts: [] } : undefined
  }
  return result.prUrl !== undefined || prUrl === undefined ? result : { ...result, prUrl }
}

/** A worker knows best how long it keeps a disk, within reason; an instant gone by is no surprise after an absence. */
function retainedSandbox(
  sandbox: RunSandbox,
  outcome: RunOutcome,
  by: { readonly now: string; readonly retentionHours: number },
): RunSandbox {
  const { provider = 'bwrap', ...known } = sandbox
  delete known.retainedUntil
  if (known.id === undefined) return { provider, ...known }
  return { provider, ...known, retainedUntil: retainedUntil(outcome.sandbox?.retainedUntil, by) }
}

function retainedUntil(
  reported: string | undefined,
  { now, retentionHours }: { readonly now: string; readonly retentionHours: number },
): string {
  const from = Date.parse(now)
  const latest = from + (retentionHours + RETENTION_SLACK_HOURS) * HOUR_MS
  if (reported !== undefined && Date.parse(reported) <= latest) return reported
  return new Date(from + retentionHours * HOUR_MS).toISOString()
}
