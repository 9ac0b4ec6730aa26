/** A diff as rows: numbers of lines, changed words, places of comments and threads, instructions made of comments. */
import { describe, expect, test } from '@jest/globals'
import { placeOfThread } from '../../../web/dashboard/diff/diff-list.ts'
import {
  changedWords,
  changedWordsOf,
  type DiffFile,
  type DiffRow,
  linesBetween,
  placeKey,
  placeOf,
  rowsOfFile,
} from '../../../web/dashboard/diff/diff-rows.ts'
import { instructionsOf } from '../../../web/dashboard/diff/diff-state.ts'

const PATCH = [
  '@@ -61,4 +61,5 @@ export function issue()',
  ' const session = create()',
  "-response.cookie('sid', session.id, { sameSite: 'lax' })",
  '+response.cookie(name, session.id, {',
  "+  sameSite: 'strict',",
  '+})',
  ' return response',
  '-}',
  '\\ No newline at end of file',
  '@@ -104 +110 @@',
  '--- looks like a head',
  '+++ looks like a head',
].join('\n')

const file = (fields: Partial<DiffFile> = {}): DiffFile => ({
  path: 'src/session.ts',
  status: 'modified',
  additions: 4,
  deletions: 3,
  patch: PATCH,
  ...fields,
})

const shown = (row: DiffRow): string => {
  if (row.is === 'line')
    return `${row.line.before ?? ''}|${row.line.after ?? ''}|${row.line.kind}|${row.line.text}`
  if (row.is === 'hunk') return row.text
  return row.is === 'note' ? row.note : row.is
}

/** The texts of the marked ranges. */
const marked = (lines: readonly string[], ranges: readonly (readonly (readonly [number, number])[])[]) =>
  lines.map((line, at) => ranges[at]?.map(([from, to]) => line.slice(from, to)))

test('a patch becomes rows with the numbers of both sides', () => {
  expect(rowsOfFile(file(), 0).map(shown)).toEqual([
    'file',
    '@@ -61,4 +61,5 @@ export function issue()',
    '61|61|context|const session = create()',
    "62||removed|response.cookie('sid', session.id, { sameSite: 'lax' })",
    '|62|added|response.cookie(name, session.id, {',
    "|63|added|  sameSite: 'strict',",
    '|64|added|})',
    '63|65|context|return response',
    '64||removed|}',
    'no-newline',
    '@@ -104 +110 @@',
    '104||removed|-- looks like a head',
    '|110|added|++ looks like a head',
  ])
})

test.each([
  ['binary', { patch: undefined, additions: 0, deletions: 0 }],
  ['too-large', { patch: undefined }],
  ['renamed', { patch: undefined, status: 'renamed', additions: 0, deletions: 0 }],
  ['binary', { patch: '', additions: 0, deletions: 0 }],
])('a file without a patch says %s', (note, fields) => {
  const { patch, ...others } = fields
  const { patch: _, ...whole } = file()
  expect(
    rowsOfFile({ ...whole, ...others, ...(patch === undefined ? {} : { patch }) }, 0).map(shown),
  ).toEqual(['file', note])
})

describe('changed words', () => {
  test('of a call that was spread over lines are its new arguments', () => {
    const [removed, added] = [
      ["response.cookie('sid', session.id, { sameSite: 'lax' })"],
      ['response.cookie(name, session.id, {', "  sameSite: 'strict',", '  secure,', '})'],
    ]
    const words = changedWords(removed, added)
    expect(marked(removed, words.removed)).toEqual([["'sid'", 'lax']])
    expect(marked(added, words.added)).toEqual([['name'], ['strict', ','], [], []])
  })

  test('are none where lines have little in common, or are too many', () => {
    expect(changedWords(['alpha beta gamma'], ['delta epsilon'])).toEqual({ removed: [[]], added: [[]] })
    const many = Array.from({ length: 600 }, (_, at) => `word${at}`).join(' ')
    expect(changedWords([many], [many.replace('word7 ', 'new ')])).toEqual({ removed: [[]], added: [[]] })
  })

  test('are asked for through the row', () => {
    const words = rowsOfFile(file(), 0).flatMap((row) =>
      row.is === 'line' ? changedWordsOf(row.line).map(([from, to]) => row.line.text.slice(from, to)) : [],
    )
    expect(words).toContain('lax')
    expect(words).toContain('strict')
  })
})

describe('places', () => {
  const rows = rowsOfFile(file(), 0)
  const lines = rows.flatMap((row) => (row.is === 'line' ? [row.line] : []))
  const keys = new Set(lines.map((line) => placeKey(placeOf('src/session.ts', line))))
  const thread = { path: 'src/session.ts', line: 62 }

  test('a removed line stands on the left, all others on the right', () => {
    expect(lines.map((line) => placeKey(placeOf('a', line))).slice(0, 3)).toEqual([
      'RIGHT 61 a',
      'LEFT 62 a',
      'RIGHT 62 a',
    ])
  })

  test.each([
    ['the hunk ends with an added line', '@@ -61,4 +61,5 @@\n+a', 'RIGHT'],
    ['the hunk ends with a removed line', '@@ -61,4 +61,5 @@\n-a', 'LEFT'],
    ['there is no hunk', '', 'RIGHT'],
  ])('a thread finds its line where %s', (_, diffHunk, side) => {
    expect(placeOfThread({ ...thread, diffHunk }, keys)).toEqual({ ...thread, side })
  })

  test('a thread on a line that is gone has no place', () => {
    expect(placeOfThread({ ...thread, line: 900, diffHunk: '' }, keys)).toBeUndefined()
    expect(placeOfThread({ path: 'src/session.ts', diffHunk: '' }, keys)).toBeUndefined()
  })

  test('a range holds the lines of its side only', () => {
    const place = (line: number) => ({ path: 'src/session.ts', line, side: 'RIGHT' as const })
    expect(linesBetween(rows, place(64), place(62)).map(({ text }) => text)).toEqual([
      'response.cookie(name, session.id, {',
      "  sameSite: 'strict',",
      '})',
    ])
  })

  test('comments become instructions with the lines that they are about', () => {
    const comment = { path: 'a.ts', side: 'RIGHT' as const, line: 61, body: ' Name it better. ' }
    expect(
      instructionsOf([
        { comment, lines: lines.slice(0, 1) },
        { comment: { ...comment, side: 'LEFT', from: 60, body: 'Why?' }, lines: [] },
      ]),
    ).toBe(
      'a.ts, line 61:\n> const session = create()\nName it better.\n\na.ts, lines 60 to 61 of the file before the change:\nWhy?',
    )
  })
})
