/** The comments of a person on a diff: their boxes, the review, what a reload keeps, and where the rows stand. */
import { beforeEach, expect, test } from '@jest/globals'
import type { PullThread } from '../../../protocol/pulls.ts'
import { type DiffListRow, keyOfRow, listRows } from '../../../web/dashboard/diff/diff-list.ts'
import type { DiffFile } from '../../../web/dashboard/diff/diff-rows.ts'
import { DiffState } from '../../../web/dashboard/diff/diff-state.ts'

const FILE: DiffFile = {
  path: 'a.ts',
  status: 'modified',
  additions: 2,
  deletions: 1,
  patch: '@@ -1,2 +1,3 @@\n one\n-two\n+2\n+3',
}
const PLACE = { path: 'a.ts', line: 3, side: 'RIGHT' } as const

const kept = new Map<string, string>()
const storage = {
  getItem: (key: string) => kept.get(key) ?? null,
  setItem: (key: string, value: string) => void kept.set(key, value),
  removeItem: (key: string) => void kept.delete(key),
}
const open = (): DiffState => new DiffState('acme/api#1')

beforeEach(() => {
  kept.clear()
  Object.assign(globalThis, { localStorage: storage })
})

const rowsOf = (state: DiffState, threads: readonly PullThread[] = [], isSplit = false): DiffListRow[] =>
  listRows({
    files: [FILE],
    threads,
    pending: state.pending,
    sent: state.sent,
    drafts: state.drafts,
    isFolded: (file) => state.isFolded(file),
    isSplit,
  })

const shown = (rows: readonly DiffListRow[]): string[] =>
  rows.map((row) => (row.is === 'line' ? `${row.line.kind} ${row.line.text}` : row.is))

test('a draft survives a reload, and nothing is kept when there is nothing', () => {
  const state = open()
  state.open(PLACE, 1)
  state.write(PLACE, 'Why?')
  expect(open().drafts).toEqual([{ ...PLACE, from: 1, body: 'Why?' }])
  state.discard(PLACE)
  expect(kept.size).toBe(0)
  kept.set('switchyard.diff.acme/api#1', '{')
  expect(open().drafts).toEqual([])
})

test('a comment goes into the review, back into its box, and out of it', () => {
  const state = open()
  state.open(PLACE)
  state.addToReview(PLACE)
  expect(state.pending).toEqual([])
  state.write(PLACE, 'Name it.')
  state.addToReview(PLACE)
  expect([state.drafts, open().pending]).toEqual([[], [{ ...PLACE, body: 'Name it.' }]])
  const [comment] = state.pending
  if (comment === undefined) throw new Error('the comment is gone')
  state.edit(comment)
  expect([state.drafts.length, state.pending.length]).toEqual([1, 0])
  state.addToReview(PLACE)
  state.markPendingSent()
  expect([state.pending, open().sent]).toEqual([
    [],
    [{ ...PLACE, body: 'Name it.', to: 'review', at: expect.any(String) }],
  ])
})

test('two columns have the removed lines beside the added ones, and a comment below both', () => {
  const state = open()
  state.open(PLACE)
  const rows = rowsOf(state, [], true)
  expect(rows.map((row) => (row.is === 'pair' ? `${row.left?.text} | ${row.right?.text}` : row.is))).toEqual([
    'file',
    'hunk',
    'one | one',
    'two | 2',
    'undefined | 3',
    'draft',
  ])
})

test('opening a box again keeps its words', () => {
  const state = open()
  state.open(PLACE)
  state.write(PLACE, 'Half a')
  state.open(PLACE)
  expect(state.drafts).toEqual([{ ...PLACE, body: 'Half a' }])
})

test('a viewed file folds, and is not viewed any more when it changes', () => {
  const state = open()
  state.toggleViewed(FILE)
  expect([state.isViewed(FILE), state.isFolded(FILE)]).toEqual([true, true])
  expect(shown(rowsOf(state))).toEqual(['file'])
  expect(open().isViewed(FILE)).toBe(true)
  expect(open().isViewed({ ...FILE, patch: `${FILE.patch} ` })).toBe(false)
  state.toggleViewed(FILE)
  expect([state.isViewed(FILE), state.isFolded(FILE)]).toEqual([false, false])
})

test('threads and comments stand after their lines, and before all lines when theirs are gone', () => {
  const state = open()
  state.open({ path: 'a.ts', line: 1, side: 'LEFT' })
  state.open(PLACE)
  state.write(PLACE, 'x')
  state.addToReview(PLACE)
  const thread = (id: string, line: number, diffHunk: string): PullThread => ({
    id,
    resolved: false,
    path: 'a.ts',
    line,
    diffHunk,
    comments: [],
  })
  const rows = rowsOf(state, [thread('old', 90, ''), thread('left', 2, '-two')])
  expect(shown(rows)).toEqual([
    'file',
    'thread',
    'hunk',
    'context one',
    'draft',
    'removed two',
    'thread',
    'added 2',
    'added 3',
    'pending',
  ])
  const keys = rows.map((row, at) => keyOfRow(row, [FILE], at))
  expect(new Set(keys).size).toBe(keys.length)
})

test('a browser that refuses to keep anything loses comments at a reload only', () => {
  const refuse = () => {
    throw new Error('the storage is full')
  }
  Object.assign(globalThis, { localStorage: { getItem: refuse, setItem: refuse, removeItem: refuse } })
  const state = open()
  state.open(PLACE)
  state.write(PLACE, 'Why?')
  expect(state.drafts).toEqual([{ ...PLACE, body: 'Why?' }])
  state.discard(PLACE)
  expect(state.drafts).toEqual([])
})
