/**
 * Decides which failed runs go back into the queue because no run can change what they failed of.
 *
 * A worker says so by the kind of the failure. The run keeps its costs, and waits with the worker's words as reason.
 */
import type { CostEntry } from '../../protocol/cost.ts'
import type { FailureKind, RunOutcome } from '../../protocol/frames.ts'
import type { Run } from '../../protocol/run.ts'
import { isInterrupted, isInterruption } from './interruption.ts'
import { isActive } from './run-transitions.ts'

const NOT_OF_THE_RUN: ReadonlySet<FailureKind | undefined> = new Set(['configuration', 'credentials'])

export function isSetback(outcome: RunOutcome): boolean {
  return outcome.status === 'failed' && NOT_OF_THE_RUN.has(outcome.failure) && !isInterrupted(outcome)
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
