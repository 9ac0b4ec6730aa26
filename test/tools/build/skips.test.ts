/** Skipped tests: the test command lists them by their reason, and fails for one that it does not accept. */
import { describe, expect, test } from '@jest/globals'
import { readSkips, skipProblems } from '../../../build/skips.mjs'
import { withReason } from '../../support/skips.ts'

const result = (fullName: string, status: string) => ({ fullName, status })

const report = {
  testResults: [
    {
      assertionResults: [
        result('a passes', 'passed'),
        result(withReason('a mounts', 'needs root'), 'pending'),
      ],
    },
    { assertionResults: [result(`${withReason('as root', 'needs root')} kills`, 'pending')] },
    { assertionResults: [result(withReason('a day', 'a long round'), 'pending')] },
    // A file that cannot be loaded has no results.
    {},
  ],
}
const bare = { testResults: [{ assertionResults: [result('a waits', 'pending'), result('later', 'todo')] }] }

describe('skipped tests', () => {
  test('are listed by their reason', () => {
    expect([...readSkips(report)]).toEqual([
      ['needs root', ['a mounts (skipped: needs root)', 'as root (skipped: needs root) kills']],
      ['a long round', ['a day (skipped: a long round)']],
    ])
  })

  test('are accepted with any reason, but in CI only with a reason of its list', () => {
    const skips = readSkips(report)
    expect(skipProblems(skips, undefined)).toEqual([])
    expect(skipProblems(skips, ['needs root', 'a long round'])).toEqual([])
    expect(skipProblems(skips, ['a long round'])).toEqual([expect.stringContaining('as root')])
  })

  test('fail without a reason, everywhere', () => {
    for (const allowed of [undefined, ['needs root']])
      expect(skipProblems(readSkips(bare), allowed)).toEqual([
        'skipped without a reason: a waits',
        'skipped without a reason: later',
      ])
  })
})
