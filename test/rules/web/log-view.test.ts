/** The log on the page: what it follows, what it counts, where links and searches lead. */
import { afterEach, expect, test } from '@jest/globals'
import type { RunLogSource } from '../../../client/run-log.ts'
import type { DashboardFrame } from '../../../protocol/dashboard.ts'
import type { RunEvent } from '../../../protocol/run.ts'
import { formatLines, LogView, parseLines } from '../../../web/dashboard/run/log/log-view.ts'
import { until } from '../../support/until.ts'

const eventAt = (index: number, text = `line ${index + 1}`): RunEvent => ({
  runId: 'run-1',
  index,
  at: '2026-01-01T00:00:00.000Z',
  type: 'log',
  stream: 'stderr',
  text,
})

const closing: LogView[] = []
afterEach(() => {
  for (const view of closing.splice(0)) view.close()
})

/** A view on a log of so many events, with a scroller that remembers what it was asked for. */
async function openView(texts: readonly string[]) {
  const events = texts.map((text, index) => eventAt(index, text))
  let push: (frame: DashboardFrame) => void = () => {}
  const source: RunLogSource = {
    async *readEvents({ tail, before = 0, limit = 0, after }) {
      if (tail !== undefined) yield* events.slice(-tail)
      else if (after === undefined) yield* events.slice(Math.max(0, before - limit), before)
    },
    watch: (onFrame) => {
      push = onFrame
      return () => {}
    },
  }
  const view = new LogView(source)
  closing.push(view)
  const scrolled: (number | 'end')[] = []
  view.scroller = {
    toRow: (row) => void scrolled.push(row),
    toEnd: () => void scrolled.push('end'),
    firstRow: () => 0,
  }
  await shows(() => view.state.value.isRead)
  return {
    view,
    scrolled,
    append: (text: string) => {
      const event = eventAt(events.length, text)
      events.push(event)
      push({ type: 'run-event', event })
    },
  }
}

const shows = (isSo: () => boolean) => until('the log shows it', isSo)
const lines = (count: number) => Array.from({ length: count }, (_, at) => `line ${at + 1}`)
const chosen = ({ chosen: { value } }: LogView) => (value === undefined ? undefined : formatLines(value))

test('lines that come while a person reads are counted until the end is in view', async () => {
  const { view, append, scrolled } = await openView(lines(3))
  append('followed')
  await shows(() => view.model.rowCount === 4)
  expect(view.unseen.value).toBe(0)
  view.onScroll(false, true)
  append('a\nb')
  await shows(() => view.unseen.value === 2)
  view.onScroll(false, false)
  expect(view.isFollowing.value).toBe(false)
  view.follow()
  expect([view.isFollowing.value, view.unseen.value, scrolled]).toEqual([true, 0, ['end']])
  view.onScroll(false, true)
  view.onScroll(true, false)
  expect(view.isFollowing.value).toBe(true)
})

test('a link to old lines reads down to them', async () => {
  const { view, scrolled } = await openView(lines(3_500))
  const range = parseLines('L12-L14')
  if (range === undefined) throw new Error('the range is one')
  view.reveal(range)
  await shows(() => scrolled.length > 0)
  expect([scrolled, chosen(view), view.chosenText(), view.state.value.older]).toEqual([
    [11],
    'L12-L14',
    'line 12\nline 13\nline 14',
    0,
  ])
})

test('keys step from line to line and from error to error', async () => {
  const { view } = await openView(['fine', 'Error: a', 'fine', 'Error: b'])
  view.stepError(1)
  expect(chosen(view)).toBe('L2')
  view.stepLine(1)
  expect(chosen(view)).toBe('L3')
  view.stepError(1)
  expect([chosen(view), view.stepError(1), view.stepError(-1), chosen(view)]).toEqual([
    'L4',
    false,
    true,
    'L2',
  ])
  await view.showFirstError()
  expect(chosen(view)).toBe('L2')
  view.stepLine(-1)
  view.stepLine(-1)
  expect([chosen(view), view.isFollowing.value]).toEqual(['L1', false])
})

test('a search goes from match to match, and keeps its place when older lines come', async () => {
  const { view, scrolled } = await openView(lines(1_500))
  view.finder.setQuery('line 150')
  expect([view.finder.search.value?.matches.length, scrolled]).toEqual([1, [999]])
  view.finder.setQuery('9')
  view.finder.step(1)
  const line = view.finder.line
  await view.loadOlder()
  await shows(() => view.finder.search.value?.isDone === true)
  expect([view.finder.line, view.model.lines.text(line ?? -1)]).toEqual([line, 'line 519'])
  view.finder.step(-1)
  expect(view.model.lines.text(view.finder.line ?? -1)).toBe('line 509')
  view.setFilter('system')
  expect(view.finder.search.value?.matches).toEqual([])
})
