/** The checks of a pull request in words, and what stands against merging it. */
import { describe, expect, test } from '@jest/globals'
import { outcomeOfCheck } from '../../../protocol/pull-concerns.ts'
import type { PullCheck } from '../../../protocol/pulls.ts'
import {
  allowedMethods,
  checksSummary,
  hasConflict,
  sortedChecks,
  whyNotMerge,
} from '../../../web/dashboard/pulls/check-words.ts'

const check = (name: string, conclusion?: string): PullCheck => ({
  name,
  status: conclusion === undefined ? 'in_progress' : 'completed',
  ...(conclusion === undefined ? {} : { conclusion }),
  source: 'check-run',
})
const checks = [
  check('b', 'success'),
  check('a', 'success'),
  check('d'),
  check('c', 'timed_out'),
  check('e', 'skipped'),
]

describe('checks', () => {
  test('are counted without those that were skipped', () => {
    expect(checksSummary(checks)).toBe('2 of 4 checks passed, 1 failed, 1 running')
    expect(checksSummary([])).toBe('No checks')
    expect(checksSummary(checks.filter(({ conclusion }) => conclusion === 'skipped'))).toBe(
      'All checks were skipped',
    )
  })

  test('that failed come first', () => {
    expect(sortedChecks(checks).map(({ name }) => name)).toEqual(['c', 'd', 'a', 'b', 'e'])
    expect(outcomeOfCheck(check('x', 'neutral'))).toBe('skipped')
  })
})

test.each([
  ['open', 'clean', true],
  ['open', 'behind', true],
  ['open', 'dirty', false],
  ['open', 'blocked', false],
  ['draft', 'clean', false],
  ['merged', undefined, false],
  ['closed', 'clean', false],
] as const)('an %s pull request that is %s: %p', (state, mergeableState, isMergeable) => {
  const pull = { state, ...(mergeableState === undefined ? {} : { mergeableState }) }
  expect(whyNotMerge(pull) === undefined).toBe(isMergeable)
  expect(hasConflict(pull)).toBe(mergeableState === 'dirty')
})

test('the methods of merging are those that the repository allows, where that is known', () => {
  const names = (methods: ReturnType<typeof allowedMethods>) => methods.map(([method]) => method)
  expect(names(allowedMethods({}))).toEqual(['squash', 'merge', 'rebase'])
  expect(names(allowedMethods({ mergeMethods: ['rebase', 'merge'] }))).toEqual(['merge', 'rebase'])
})
