/** How a check of a pull request ended; every conclusion of a code host is one of a few outcomes. */
import type { PullCheck } from './pulls.ts'

export type CheckOutcome = 'passed' | 'failed' | 'running' | 'skipped'

export function outcomeOfCheck({ status, conclusion }: PullCheck): CheckOutcome {
  if (status !== 'completed') return 'running'
  if (conclusion === 'success') return 'passed'
  return conclusion === 'neutral' || conclusion === 'skipped' ? 'skipped' : 'failed'
}
