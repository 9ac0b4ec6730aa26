/**
 * Computes a run's record after each thing that happens to the run.
 *
 * Every function returns a new record and leaves its argument unchanged. A field that no longer applies is removed.
 * Whether the change is allowed is decided elsewhere (`permission.ts`, the machines).
 */
import { DEFAULT_SANDBOX_PROVIDER, type SandboxProvider } from '../../protocol/config.ts'
import type { RunOutcome, RunPatch } from '../../protocol/frames.ts'
import { TEXT_CHARS_MAX } from '../../protocol/limits.ts'
import type { PullState, Run, RunPull, RunResult, RunStatus, Ticket } from '../../protocol/run.ts'
import type { RunSandbox } from '../../protocol/run-sandbox.ts'
import { extend } from '../extend.ts'
import { printableTexts } from '../printable-output.ts'
import { truncate } from '../safe-text.ts'
import { foldExcessCosts, replaceLeaseCosts, totalsOf } from './cost.ts'
import { isKnownPull } from './run-pull.ts'

/** The order of statuses. A worker's report alone reaches only the three in the middle. */
const PROGRESS: Readonly<Record<RunStatus, number>> = {
  queued: 0,
  preparing: 1,
  running: 2,
  finalizing: 3,
  completed: 4,
  failed: 4,
  cancelled: 4,
}

/** The statuses of runs that have not ended. */
export const UNFINISHED: readonly RunStatus[] = ['queued', 'preparing', 'running', 'finalizing']

export function isTerminal(status: RunStatus): boolean {
  return PROGRESS[status] === 4
}

/** Whether a worker executes the run. */
export function isActive(status: RunStatus): boolean {
  return !isTerminal(status) && status !== 'queued'
}

/** `provider`: the sandbox provider that the configuration chooses; the worker that accepts the run may report another. */
export function newRun(id: string, ticket: Ticket, provider: SandboxProvider, now: string): Run {
  return { id, ticket, status: 'queued', sandbox: { provider }, createdAt: now, queuedAt: now, costs: [] }
}

/**
 * A sandbox and its agent session belong to one machine, so those of another worker are dropped. The accepting
 * worker's own sandbox stays, because a follow-up uses it.
 */
export function acceptRun(run: Run, by: AcceptingWorker & { readonly now: string }): Run {
  const moved = isOfOtherWorker(run.sandbox, by)
  const kept = omitFields(
    run,
    moved ? ['queueReason', 'finishedAt', 'agentSessionId'] : ['queueReason', 'finishedAt'],
  )
  return extend(kept, {
    status: 'preparing' as const,
    startedAt: by.now,
    sandbox: acceptSandbox(run.sandbox, by),
  })
}

/** The worker whose report it is, and the number of cost entries from before its lease. */
export interface LeaseReporter {
  readonly workerId: string
  readonly costsBefore: number
  readonly label: string
  /** The pull request that the report names. */
  readonly pull?: RunPull
}

/** Applies a patch. The retention of a sandbox is decided when the run ends, so a patch cannot change it. */
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
  const reported = applyReport(run, outcome, by)
  const result = resultOf(outcome, by.pull === undefined ? undefined : reported.prUrl) ?? run.result
  const error = outcome.error ?? (outcome.status === 'failed' ? 'the worker gave no reason' : undefined)
  const sandbox = extend(extend(run.sandbox, outcome.sandbox ?? {}), { workerId: by.workerId })
  const ended: Run = extend(omitFields(reported, ['queueReason', 'error', 'foundKeys', 'foundKeysDigest']), {
    status: outcome.status,
    finishedAt: by.now,
    sandbox: retainedSandbox(sandbox, outcome, by),
  })
  if (result !== undefined) ended.result = result
  if (error !== undefined) ended.error = error
  if (outcome.keys === undefined || outcome.keys.length === 0) return ended
  ended.foundKeys = printableTexts(outcome.keys)
  if (outcome.keysDigest !== undefined) ended.foundKeysDigest = outcome.keysDigest
  return ended
}

/** The queue time is kept when the run never left the queue, so a refused dispatch does not reset it. */
export function requeueRun(run: Run, reason: string | undefined, now: string): Run {
  const since = run.status === 'queued' ? (run.queuedAt ?? now) : now
  return {
    ...queueAgain(omitFields(run, ['startedAt', 'finishedAt', 'queueReason']), since),
    ...(reason === undefined ? {} : { queueReason: truncate(reason, TEXT_CHARS_MAX) }),
  }
}

/** Completes a run whose worker is lost and whose pull request exists: the pull request is the result. */
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

/** Returns the same object when the state is unchanged, or when the URL is not the run's current pull request. */
export function updatePullState(run: Run, url: string, prState: PullState): Run {
  return run.prUrl !== url || run.prState === prState ? run : { ...run, prState }
}

/** The fields that tell of a run's end. */
const OF_AN_END = ['error', 'foundKeys', 'foundKeysDigest', 'startedAt', 'finishedAt', 'queueReason'] as const

/** The sandbox stays on the record until a worker accepts the run, so that it can still be discarded. */
export function queueRetry(run: Run, now: string): Run {
  return queueAgain(omitFields(run, ['result', ...OF_AN_END]), now)
}

/** Keeps the result, because a follow-up adds to it. */
export function queueFollowUp(run: Run, now: string): Run {
  return queueAgain(omitFields(run, OF_AN_END), now)
}

/** The fields that a run gets back when its follow-up fails. */
export interface EarlierResult {
  readonly result: RunResult | null
  readonly startedAt: string | null
  readonly finishedAt: string | null
}

/** Completes the run again as it was, with an error that says what went wrong. */
export function revertFollowUp(run: Run, earlier: EarlierResult | null, why: string, now: string): Run {
  return {
    ...omitFields(run, ['queueReason', 'result', 'startedAt', 'foundKeys', 'foundKeysDigest']),
    status: 'completed',
    ...(earlier?.startedAt == null ? {} : { startedAt: earlier.startedAt }),
    error: truncate(`the follow-up failed: ${why}`, TEXT_CHARS_MAX),
    finishedAt: earlier?.finishedAt ?? now,
    ...(earlier?.result == null ? {} : { result: earlier.result }),
  }
}

/** Keeps `retainedUntil`, so that a resume is refused with "gone" and not with "never existed". */
export function markSandboxDiscarded(run: Run, now: string): Run {
  const sandbox: RunSandbox = { ...run.sandbox, retainedUntil: now }
  delete sandbox.id
  delete sandbox.unpublished
  return { ...run, sandbox }
}

// ---- helpers ---------------------------------------------------------------------------------------------------

type ClearableField =
  | 'queueReason'
  | 'startedAt'
  | 'finishedAt'
  | 'result'
  | 'error'
  | 'foundKeys'
  | 'foundKeysDigest'
  | 'agentSessionId'
  | 'costTotals'
  | 'prState'
  | 'pull'

/** Returns the same object when it has none of the fields. */
function omitFields(run: Run, keys: readonly ClearableField[]): Run {
  if (keys.every((key) => run[key] === undefined)) return run
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
  return costTotals === undefined
    ? { ...omitFields(run, ['costTotals']), costs }
    : extend(run, { costs, costTotals })
}

/** The status of an inactive run does not change: a run is accepted before it progresses, and an end is final. */
function furthestStatus(current: RunStatus, reported: RunStatus | undefined): RunStatus {
  if (reported === undefined || !isActive(current)) return current
  return PROGRESS[reported] > PROGRESS[current] ? reported : current
}

/** Applies the fields that patches and outcomes share. */
function applyReport(run: Run, report: RunPatch | RunOutcome, by: LeaseReporter): Run {
  const { agentSessionId, costs } = report
  const known = withPull(run, report, by.pull)
  const counted =
    costs === undefined
      ? known
      : withCosts(known, replaceLeaseCosts(run.costs, by.costsBefore, costs, by.label))
  return agentSessionId === undefined ? counted : extend(counted, { agentSessionId })
}

/**
 * The known state of one pull request says nothing about another. A new one has no state until the code host answers.
 * Another spelling of the known address changes nothing.
 */
function withPull(run: Run, report: RunPatch | RunOutcome, pull: RunPull | undefined): Run {
  const prUrl = report.prUrl ?? ('result' in report ? report.result?.prUrl : undefined)
  if (prUrl === undefined || isKnownPull(run, prUrl, pull)) return run
  const known = prUrl === run.prUrl ? run : { ...omitFields(run, ['pull', 'prState']), prUrl }
  return pull === undefined ? known : { ...known, pull }
}

/** `known`: the run's own spelling of the address that the outcome names. */
function resultOf(
  { status, result, prUrl: named }: RunOutcome,
  known: string | undefined,
): RunResult | undefined {
  const prUrl = known ?? result?.prUrl ?? named
  if (prUrl === undefined) return result
  if (result === undefined) return status === 'completed' ? { prUrl, artifacts: [] } : undefined
  return { ...result, prUrl }
}

// ---- the sandbox -------------------------------------------------------------------------------------------------

const HOUR_MS = 3_600_000
/** How much longer than requested a worker may retain a sandbox: its clock may differ from the host's. */
const RETENTION_SLACK_HOURS = 1

interface AcceptingWorker {
  readonly workerId: string
  readonly workerName?: string | undefined
}

const isOfOtherWorker = ({ workerId }: RunSandbox, by: AcceptingWorker): boolean =>
  workerId !== undefined && workerId !== by.workerId

/** The record keeps the worker's name, because the worker may be removed later. */
function acceptSandbox(sandbox: RunSandbox, by: AcceptingWorker): RunSandbox {
  const { provider = DEFAULT_SANDBOX_PROVIDER } = sandbox
  const { workerId, workerName } = by
  const accepted: RunSandbox = extend(isOfOtherWorker(sandbox, by) ? {} : sandbox, { provider, workerId })
  if (workerName !== undefined) accepted.workerName = workerName
  return accepted
}

/** The worker's retention instant is used unless it is too late. An instant in the past is normal after an absence. */
function retainedSandbox(
  sandbox: RunSandbox,
  outcome: RunOutcome,
  by: { readonly now: string; readonly retentionHours: number },
): RunSandbox {
  const { provider = DEFAULT_SANDBOX_PROVIDER, ...known } = sandbox
  delete known.retainedUntil
  if (outcome.sandbox?.unpublished !== true) delete known.unpublished
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
