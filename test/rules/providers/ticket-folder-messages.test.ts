/** The words about a ticket folder and its files name the file or folder, and the cure. */
import { describe, expect, test } from '@jest/globals'
import { TICKET_FILES_MAX, TICKET_PROBLEMS_MAX } from '../../../protocol/limits.ts'
import {
  largeFileProblem,
  limitProblems,
  manyFilesProblems,
  refuseUnreadableFolder,
  repeatedIdProblem,
  unprintableNameProblem,
  unreadableFileProblem,
} from '../../../providers/tracker/local/whole-file.ts'

const errorWith = (code: string): Error => Object.assign(new Error(`${code}: it failed`), { code })

test.each([
  ['a large file', largeFileProblem('a.md'), 'a.md has more than 262144 bytes; shorten it'],
  [
    'a repeated id',
    repeatedIdProblem('b.md', 'x', 'a.md'),
    'b.md has the id x, as a.md has; change one of them',
  ],
  [
    'a name with a control character',
    unprintableNameProblem('a\nb.md'),
    'a\ufffdb.md has characters in its name that do not print; rename it',
  ],
  ['a broken file', unreadableFileProblem('a.md', errorWith('EIO')), 'a.md cannot be read (EIO: it failed)'],
  [
    'a file of somebody else',
    unreadableFileProblem('a.md', errorWith('EACCES')),
    'a.md cannot be read (EACCES: it failed); give switchyard the right to read it',
  ],
  [
    'too many files',
    manyFilesProblems(TICKET_FILES_MAX + 1).join(),
    'only the first 10000 of 10001 files are read; move closed tickets to another folder',
  ],
  ['as many files as are read', manyFilesProblems(TICKET_FILES_MAX).join(), ''],
])('the problem of %s', (_, problem, expected) => {
  expect(problem).toBe(expected)
})

test('the list of problems ends with the number of those that it leaves out', () => {
  const problems = Array.from({ length: TICKET_PROBLEMS_MAX + 5 }, (_, n) => `problem ${n}`)
  expect(limitProblems(problems)).toEqual([
    ...problems.slice(0, TICKET_PROBLEMS_MAX),
    '5 more files have problems; fix these first',
  ])
  expect(limitProblems(problems.slice(5))).toEqual(problems.slice(5))
})

describe('the refusal of a folder', () => {
  test.each([
    [
      'ENOENT',
      'invalid',
      'does not exist; make that folder, or set tracker.path to the folder that holds the tickets',
    ],
    [
      'ENOTDIR',
      'invalid',
      'is not a folder; make it one, or set tracker.path to the folder that holds the tickets',
    ],
    [
      'EACCES',
      'invalid',
      'may not be read; give switchyard the right to, or set tracker.path to the folder that holds the tickets',
    ],
    ['EIO', 'failed', 'cannot be read (EIO: it failed)'],
  ])('that fails with %s', (code, kind, words) => {
    expect(refuseUnreadableFolder('/t', errorWith(code))).toEqual({
      ok: false,
      refusal: { kind, message: `tracker.path: /t ${words}` },
    })
  })
})
