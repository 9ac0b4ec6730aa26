/** The words of a follow-up's comment: what happened to the branch, and what was pushed. */
import { expect, test } from '@jest/globals'
import type { FollowUpStart } from '../../../worker/git/git-ports.ts'
import { type FollowUpReport, followUpText } from '../../../worker/run/execution/publish-work.ts'

const SHA = 'a'.repeat(40)
const start: FollowUpStart = {
  state: 'rebased',
  head: SHA,
  base: SHA,
  tip: SHA,
  conflictFiles: [],
  isNewCheckout: false,
  preserved: [],
}
const pushed = { pushed: SHA, isContained: false, diff: undefined }
const report: FollowUpReport = {
  pull: { baseBranch: 'main' },
  start,
  pushResult: pushed,
  agentSummary: '',
}

test.each<[string, Partial<FollowUpReport>, string]>([
  [
    'a rebase',
    {},
    'The branch was rebased onto the newest `main` (aaaaaaaaaaaa), without conflicts. Pushed as aaaaaaaaaaaa.',
  ],
  [
    'a conflict in a file with a backtick in its name',
    { start: { ...start, state: 'conflict', conflictFiles: ['a`b'] } },
    "The branch was rebased onto the newest `main` (aaaaaaaaaaaa); conflicts in `a'b` were resolved. Pushed as aaaaaaaaaaaa.",
  ],
  [
    'a branch that holds the newest base',
    { start: { ...start, state: 'current' }, pushResult: { ...pushed, pushed: undefined } },
    'The branch holds the newest `main` (aaaaaaaaaaaa) already. Nothing was changed, so nothing was pushed.',
  ],
  [
    'a branch that is in the base',
    { pushResult: { ...pushed, pushed: undefined, isContained: true } },
    'All of this branch is in `main` already. Nothing was changed, so nothing was pushed.',
  ],
  [
    'an attempt that was interrupted after its push',
    { start: { ...start, state: 'pushed' } },
    'The branch was brought up to date with `main`.',
  ],
  [
    'the last message of an agent',
    { start: { ...start, state: 'pushed' }, agentSummary: 'Done.\n' },
    'The branch was brought up to date with `main`.\n\nDone.',
  ],
])('%s', (_, changes, words) => {
  expect(followUpText({ ...report, ...changes })).toBe(words)
})
