/** Lines of a diff on which a person may comment. */
import { describe, expect, test } from '@jest/globals'
import { findDiffHunk } from '../../../core/pulls/diff-line.ts'
import { REVIEW_COMMENTS_MAX } from '../../../protocol/limits.ts'
import { createChecker } from '../../../protocol/parse.ts'
import { type PullFile, ReviewRequest } from '../../../protocol/pulls.ts'

const PATCH = [
  '@@ -3,3 +3,4 @@ in the lamp',
  ' three',
  '-four',
  '+@@ -9 +9 @@',
  '+vier',
  ' five',
  '@@ -20 +21 @@',
  '-twenty',
  '\\ No newline at end of file',
  '+twenty',
].join('\n')
const files: PullFile[] = [
  { path: 'lamp', status: 'modified', additions: 3, deletions: 2, patch: PATCH },
  { path: 'raw.bin', status: 'modified', additions: 0, deletions: 0 },
]

const lastLine = (side: 'LEFT' | 'RIGHT', line: number): string | undefined => {
  const hunk = findDiffHunk(files, { path: 'lamp', line, side })
  return hunk.ok ? hunk.value.split('\n').at(-1) : undefined
}

describe('a line', () => {
  test.each([
    ['LEFT', 3, ' three'],
    ['LEFT', 4, '-four'],
    ['LEFT', 5, ' five'],
    ['LEFT', 6, undefined],
    ['LEFT', 20, '-twenty'],
    ['LEFT', 21, undefined],
    ['RIGHT', 2, undefined],
    ['RIGHT', 3, ' three'],
    ['RIGHT', 4, '+@@ -9 +9 @@'],
    ['RIGHT', 5, '+vier'],
    ['RIGHT', 6, ' five'],
    ['RIGHT', 9, undefined],
    ['RIGHT', 21, '+twenty'],
    ['RIGHT', 22, undefined],
  ] as const)('%s %d is %j', (side, line, text) => expect(lastLine(side, line)).toBe(text))

  test('is shown with its own hunk only', () => {
    expect(findDiffHunk(files, { path: 'lamp', line: 21, side: 'RIGHT' })).toEqual({
      ok: true,
      value: '@@ -20 +21 @@\n-twenty\n\\ No newline at end of file\n+twenty',
    })
  })

  test('of another file, or of one without lines, is refused by name', () => {
    for (const path of ['raw.bin', 'nothing'])
      expect(findDiffHunk(files, { path, line: 1, side: 'RIGHT' })).toMatchObject({
        refusal: { kind: 'invalid', message: expect.stringContaining(path) },
      })
  })
})

test('a review brings at most a hundred comments, each with a line and a side', () => {
  const check = createChecker(ReviewRequest)
  const comment = { path: 'lamp', line: 1, side: 'LEFT', body: 'Hm' }
  const review = (comments: object[]) => check({ event: 'COMMENT', body: '', comments })
  expect(review(Array(REVIEW_COMMENTS_MAX).fill(comment)).ok).toBe(true)
  for (const [comments, error] of [
    [Array(REVIEW_COMMENTS_MAX + 1).fill(comment), /^\/comments: /],
    [[{ ...comment, line: 0 }], /^\/comments\/0\/line: /],
    [[{ ...comment, side: 'BOTH' }], /^\/comments\/0\/side: /],
    [[{ ...comment, path: '' }], /^\/comments\/0\/path: /],
  ] as const)
    expect(review([...comments])).toMatchObject({ error: expect.stringMatching(error) })
})
