/** Concerns about a merge: how checks ended, which are red or pending, and what people asked for. */
import type { PullCheck, PullDetail, PullReview } from './pulls.ts'

export type CheckOutcome = 'passed' | 'failed' | 'running' | 'skipped'

/** How a check of a pull request ended; every conclusion of a code host is one of a few outcomes. */
export function outcomeOfCheck({ status, conclusion }: PullCheck): CheckOutcome {
  if (status !== 'completed') return 'running'
  if (conclusion === 'success') return 'passed'
  return conclusion === 'neutral' || conclusion === 'skipped' ? 'skipped' : 'failed'
}

type JudgedPull = Pick<PullDetail, 'checks' | 'checksLookupFailed' | 'conversation'>

/** Failed checks, by name. */
export const redChecks = (checks: readonly PullCheck[]): readonly PullCheck[] =>
  checks.filter((check) => outcomeOfCheck(check) === 'failed')

/** A comment leaves an earlier verdict of its author standing. */
const VERDICTS: readonly string[] = ['APPROVED', 'CHANGES_REQUESTED', 'DISMISSED']

/** The reviewers who may write, asked for changes, and have neither approved since nor been overruled. */
export function changesRequestedBy(reviews: readonly PullReview[]): string[] {
  const latest = new Map<string, string>()
  // Anybody may review a public pull request, and a follow-up obeys only those who may write.
  const judges = reviews.filter(({ authorMayWrite }) => authorMayWrite !== false)
  const inOrder = judges.sort((a, b) => (a.submittedAt < b.submittedAt ? -1 : 1))
  for (const { author, state } of inOrder)
    if (VERDICTS.includes(state.toUpperCase())) latest.set(author, state.toUpperCase())
  return [...latest].flatMap(([author, state]) => (state === 'CHANGES_REQUESTED' ? [author] : []))
}

/** Phrases for one sentence: `check lint is red`, `ada requested changes`. Empty when nothing speaks against it. */
export function concernsOf({ checks, checksLookupFailed, conversation }: JudgedPull): string[] {
  const red = redChecks(checks).map(({ name }) => name)
  const pending = checks.filter((check) => outcomeOfCheck(check) === 'running').map(({ name }) => name)
  const open = conversation.threads.filter(({ resolved }) => !resolved).length
  const askers = changesRequestedBy(conversation.reviews)
  return [
    ...(red.length === 0 ? [] : [`${namesOf(red)} red`]),
    ...(pending.length === 0 ? [] : [`${namesOf(pending)} pending`]),
    ...(checksLookupFailed === true ? ['some checks could not be read'] : []),
    ...(askers.length === 0 ? [] : [`${askers.join(', ')} requested changes`]),
    ...(open === 0 ? [] : [`${open} ${open === 1 ? 'thread is' : 'threads are'} open`]),
  ]
}

const namesOf = (names: readonly string[]): string =>
  `${names.length === 1 ? 'check' : 'checks'} ${names.join(', ')} ${names.length === 1 ? 'is' : 'are'}`

/** A few words for a list of pull requests: `checks red, changes requested`. */
export function verdictOf({ checks, conversation }: JudgedPull): string | undefined {
  const isRed = redChecks(checks).length > 0
  const isAsked = changesRequestedBy(conversation.reviews).length > 0
  const words = [...(isRed ? ['checks red'] : []), ...(isAsked ? ['changes requested'] : [])]
  return words.length === 0 ? undefined : words.join(', ')
}
