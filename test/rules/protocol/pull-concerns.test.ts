/** Tests of what speaks against a merge, and of whose word counts. */
import { expect, test } from '@jest/globals'
import { concernsOf } from '../../../protocol/pull-concerns.ts'
import type { PullReview } from '../../../protocol/pulls.ts'

const review = (author: string, state: string, more: Partial<PullReview> = {}): PullReview => ({
  id: `${author} ${state}`,
  author,
  state,
  body: '',
  submittedAt: '2026-03-01T09:00:00.000Z',
  ...more,
})
const pullWith = (...reviews: PullReview[]) => ({
  checks: [],
  conversation: { comments: [], reviews, threads: [] },
})

test('only a reviewer who may write speaks against a merge', () => {
  const byOutsider = review('eve', 'CHANGES_REQUESTED', { authorMayWrite: false })
  expect(concernsOf(pullWith(byOutsider))).toEqual([])
  expect(concernsOf(pullWith(byOutsider, review('ada', 'CHANGES_REQUESTED')))).toEqual([
    'ada requested changes',
  ])
})

test('an approval takes back what its author asked for', () => {
  const later = { submittedAt: '2026-03-01T10:00:00.000Z' }
  expect(concernsOf(pullWith(review('ada', 'APPROVED', later), review('ada', 'CHANGES_REQUESTED')))).toEqual(
    [],
  )
})
