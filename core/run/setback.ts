/**
 * Decides which failed runs go back into the queue because no run can change what they failed of.
 *
 * A worker says so by the kind of the failure. The run keeps its costs, and waits with the worker's words as reason.
 */
import type { CostEntry } from '../../protocol/cost.ts'
import type { FailureKind, RunOutcome } from '../../protocol/frames.ts'
import type { Run } from '../../protocol/run.ts'
import { isInterrupted, isInterruption } from './interruption.ts'
import { topicOf } from './queue-reasons.ts'
import { isActive } from './run-transitions.ts'

/** After this long the host tries again what a worker could not use, such as a key. */
export const SETBACK_RECHECK_MS = 15 * 60_000
/** A repository is tried again after this long, then after twice as long, and at most after SETBACK_RECHECK_MS. */
export const REPOSITORY_RECHECK_MS_MIN = 60_000

const NOT_OF_THE_RUN: ReadonlySet<FailureKind | undefined> = new Set(['configuration', 'credentials'])

export function isSetback(outcome: RunOutcome): boolean {
  const { status, failure, costs } = outcome
  if (status !== 'failed' || isInterrupted(outcome)) return false
  // A repository that can't be reached fails a run before its agent has begun.
  return NOT_OF_THE_RUN.has(failure) || (failure === 'network' && !hasSpent(costs))
}

/** When a worker may try again what it could not use. A code host may be back at any moment, a key is rarely mended. */
export function setbackRecheckMs(subject: string, tries: number): number {
  if (topicOf(subject) !== 'repository') return SETBACK_RECHECK_MS
  return Math.min(REPOSITORY_RECHECK_MS_MIN * 2 ** (tries - 1), SETBACK_RECHECK_MS)
}

/** Returns the reason with which a worker has just given the run back. */
export function setbackReason(before: Run | undefined, after: Run): string | undefined {
  if (before === undefined || !isActive(before.status) || after.status !== 'queued') return undefined
  const { queueReason } = after
  return queueReason === undefined || isInterruption(queueReason) ? undefined : queueReason
}

/** Whether an attempt with these costs had an agent at work. Such an attempt is not repeated without a person. */
export const hasSpent = (costs: readonly CostEntry[]): boolean =>
  costs.some(
    ({ costUsd = 0, inputTokens, outputTokens }) => costUsd > 0 || inputTokens > 0 || outputTokens > 0,
  )
