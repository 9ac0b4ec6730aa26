/** The checks of a pull request in words, and what stands against merging it. */
import { type CheckOutcome, outcomeOfCheck } from '../../../protocol/pull-concerns.ts'
import type { MergeMethod, PullCheck, PullDetail } from '../../../protocol/pulls.ts'

/** Failed ones first. */
export function sortedChecks(checks: readonly PullCheck[]): PullCheck[] {
  const rank: readonly CheckOutcome[] = ['failed', 'running', 'passed', 'skipped']
  const rankOf = (check: PullCheck) => rank.indexOf(outcomeOfCheck(check))
  return [...checks].sort((a, b) => rankOf(a) - rankOf(b) || (a.name < b.name ? -1 : 1))
}

/** `6 of 7 checks passed, 1 failed`. */
export function checksSummary(checks: readonly PullCheck[]): string {
  if (checks.length === 0) return 'No checks'
  const count = (outcome: CheckOutcome) => checks.filter((check) => outcomeOfCheck(check) === outcome).length
  const counted = checks.length - count('skipped')
  if (counted === 0) return 'All checks were skipped'
  const rest = (['failed', 'running'] as const).flatMap((outcome) =>
    count(outcome) === 0 ? [] : [`${count(outcome)} ${outcome}`],
  )
  return [`${count('passed')} of ${counted} checks passed`, ...rest].join(', ')
}

/** GitHub's words for what it knows about merging; other code hosts use the same. */
const STATES: Readonly<Record<string, string>> = {
  dirty: 'It conflicts with its base branch.',
  blocked: 'The code host wants a review or a check before.',
  behind: 'Its branch is behind its base branch.',
  draft: 'It is a draft.',
}

/** Why the code host would not merge now; undefined when nothing is known against it. */
export function whyNotMerge({
  state,
  mergeableState = '',
}: Pick<PullDetail, 'state' | 'mergeableState'>): string | undefined {
  if (state === 'merged') return 'It is merged.'
  if (state === 'closed') return 'It is closed.'
  if (state === 'draft') return 'It is a draft.'
  return mergeableState === 'behind' ? undefined : STATES[mergeableState]
}

export const hasConflict = ({ mergeableState }: Pick<PullDetail, 'mergeableState'>): boolean =>
  mergeableState === 'dirty'

const METHODS = [
  ['squash', 'Squash: one commit with all changes'],
  ['merge', 'Merge commit: every commit, and one more'],
  ['rebase', 'Rebase: every commit on top of the base branch'],
] as const satisfies readonly (readonly [MergeMethod, string])[]

/** All of them where the code host does not tell which ones the repository allows. */
export const allowedMethods = ({ mergeMethods }: Pick<PullDetail, 'mergeMethods'>) =>
  METHODS.filter(([method]) => mergeMethods?.includes(method) ?? true)
