/**
 * Lays the board out for a terminal of any size: counts, what needs somebody, runs, workers, the log of the selected run,
 * keys.
 *
 * A pure function of the board, the size and the time. Every line fits the width, and the lines fill the height.
 */
import { glyphRole } from '../output/glyphs.ts'
import { columnsOf, wrapWords } from '../output/text-width.ts'
import { formatClock, formatClockSeconds, type Present } from '../output/times.ts'
import type { Board } from './board.ts'
import { runTable, workerTable } from './board-columns.ts'
import type { BoardLogLine } from './board-events.ts'
import {
  alignSpans,
  type BoardLine,
  type BoardText,
  cellSpans,
  EMPTY_LINE,
  lineOfText,
  type Span,
  widthOf,
} from './line.ts'
import { planRows, planWindow, type RowPlan } from './plan-rows.ts'

export type FeedState =
  | { readonly is: 'live' }
  | { readonly is: 'reconnecting' }
  | { readonly is: 'stale'; readonly since: number }

export interface BoardView {
  readonly text: BoardText
  readonly columns: number
  readonly rows: number
  readonly present: Present
  readonly feed: FeedState
  readonly selected: string | undefined
  /** The log of the selected run. */
  readonly log: readonly BoardLogLine[]
  /** A question, or the outcome of an action, in the place of the keys. */
  readonly message?: string | undefined
  /** The workers in one line. */
  readonly workersSummary: string
}

const KEYS = [
  'up/down select',
  'enter show',
  'l logs',
  'a attach',
  'c cancel',
  'r retry',
  '? help',
  'q quit',
] as const
const MESSAGE_LINES_MAX = 3
/** As in `switchyard logs`. */
const STATE_COLUMNS = 11
const NOTHING_RUNS = 'nothing runs; switchyard start "WORDS" queues a run'

export function layoutBoard(board: Board, view: BoardView): BoardLine[] {
  const footer = footerLines(view)
  const plan = planRows({
    rows: view.rows,
    footer: footer.length,
    needs: board.needs.length,
    active: board.active,
    queued: board.queued,
    finished: board.finished.length,
    workers: board.workers.length,
  })
  const gap = plan.gap === 1 ? [EMPTY_LINE] : []
  const sections = [
    [headerLine(board, view)],
    needLines(board, view, plan),
    [...runLines(board, view, plan), ...Array.from({ length: plan.filler }, () => EMPTY_LINE)],
    workerLines(board, view, plan),
    logLines(board, view, plan),
    footer,
  ].filter((lines) => lines.length > 0)
  const lines = sections.flatMap((section, at) => (at === 0 ? section : [...gap, ...section]))
  return lines.slice(0, view.rows)
}

// ---- the first line ------------------------------------------------------------------------------------------------

export function feedSpan(feed: FeedState, present: Present): Span {
  if (feed.is === 'live') return { text: 'live' }
  return {
    text: feed.is === 'stale' ? `stale since ${formatClock(feed.since, present)}` : 'reconnecting',
    role: 'attention',
  }
}

function headerLine(board: Board, { columns, present, feed }: BoardView): BoardLine {
  const { active, queued, needs, cost, isPaused } = board
  const gap = { text: '  ' }
  const counts: Span[] = [
    ...(isPaused ? [{ text: 'paused', role: 'attention' as const }, gap] : []),
    { text: `${active} active` },
    gap,
    { text: `${queued} queued` },
    gap,
    needs.length === 0
      ? { text: 'nothing needs you' }
      : { text: `${needs.length} ${needs.length === 1 ? 'needs' : 'need'} you`, role: 'attention' },
  ]
  const name: Span[] = [{ text: 'switchyard   ', role: 'bold' }]
  const today: Span[] = [{ text: `   today ${cost ?? '-'}` }]
  const clock: Span = { text: `${formatClockSeconds(present.now, present.offset)}  `, role: 'dim' }
  const connection = feedSpan(feed, present)
  const lefts = [[...name, ...counts, ...today], [...name, ...counts], counts]
  const fitting = lefts.find((left) => widthOf([...left, gap, clock, connection]) <= columns)
  if (fitting !== undefined) return alignSpans(fitting, [clock, connection], columns)
  return alignSpans(counts, [connection], columns)
}

// ---- sections ------------------------------------------------------------------------------------------------------

function needLines({ needs }: Board, { text, columns, selected }: BoardView, plan: RowPlan): BoardLine[] {
  if (needs.length === 0) return []
  const widest = Math.max(...needs.map(({ name }) => columnsOf(text.clean(name))))
  const first = Math.min(widest, Math.floor(columns / 4))
  const place = needs.findIndex(({ key }) => key === selected)
  const from = Math.max(0, place - plan.needs + 1)
  const lines = needs.slice(from, from + plan.needs).map(
    ({ key, name, message }): BoardLine => ({
      isSelected: key === selected,
      spans: [
        { text: text.glyphs.of('attention'), role: glyphRole('attention') },
        { text: ' ' },
        ...cellSpans(text, name, first, { shrinks: 'middle' }),
        { text: '  ' },
        ...cellSpans(text, message, columns - first - 4),
      ],
    }),
  )
  return [lineOfText('NEEDS YOU', 'bold'), ...lines]
}

function runLines(board: Board, view: BoardView, { runs }: RowPlan): BoardLine[] {
  const { text, columns, present, selected } = view
  const table = runTable(board, { text, columns, now: present.now })
  const all = [...board.unfinished, ...board.finished]
  if (all.length === 0)
    return [table.heading, { spans: cellSpans(text, NOTHING_RUNS, columns, { role: 'dim' }) }]
  const place = all.findIndex(({ key }) => key === selected)
  const { from, to, more } = planWindow(all.length, board.unfinished.length, runs, place)
  const lines = all.slice(from, to).map((row) => table.line(row, row.key === selected))
  return [table.heading, ...lines, ...(more > 0 ? [lineOfText(`  and ${more} more`, 'dim')] : [])]
}

function workerLines(board: Board, view: BoardView, { isFolded }: RowPlan): BoardLine[] {
  const { text, columns, present, workersSummary } = view
  if (board.workers.length === 0) return []
  const table = workerTable(board, { text, columns, now: present.now })
  if (!isFolded) return [table.heading, ...board.workers.map((row) => table.line(row, false))]
  const heading: Span = { text: 'WORKERS    ', role: 'bold' }
  return [{ spans: [heading, ...cellSpans(text, workersSummary, columns - widthOf([heading]))] }]
}

function logLines(
  board: Board,
  { text, columns, present, selected, log }: BoardView,
  plan: RowPlan,
): BoardLine[] {
  if (plan.log === 0) return []
  const run = [...board.needs, ...board.unfinished, ...board.finished].find(
    ({ key }) => key === selected,
  )?.run
  const name = run === undefined ? '' : `  ${run.ticket.identifier}  ${run.ticket.title}`
  const heading: BoardLine = {
    spans: [{ text: 'LOG', role: 'bold' }, ...cellSpans(text, name, columns - 3)],
  }
  const shown = log.slice(-plan.log).map(({ at, mark, text: line, reason }): BoardLine => {
    const clock = formatClockSeconds(Date.parse(at), present.offset)
    if (mark === '--') {
      const state = `-- ${line.padEnd(STATE_COLUMNS)} ${clock}${reason === undefined ? '' : `  ${reason}`}`
      return { spans: cellSpans(text, state, columns, { role: 'bold' }) }
    }
    if (mark === '~~') return { spans: cellSpans(text, `~~ ${line}`, columns, { role: 'attention' }) }
    const head: Span[] = [{ text: clock, role: 'dim' }, { text: ` ${mark.padEnd(1)} ` }]
    return { spans: [...head, ...cellSpans(text, line, columns - widthOf(head))] }
  })
  const filler = Array.from({ length: plan.log - shown.length }, () => EMPTY_LINE)
  return [heading, ...shown, ...filler]
}

// ---- the last lines ------------------------------------------------------------------------------------------------

function footerLines({ text, columns, message }: BoardView): BoardLine[] {
  if (message !== undefined)
    return wrapWords(text.clean(message), columns)
      .slice(0, MESSAGE_LINES_MAX)
      .map((line) => ({ spans: cellSpans(text, line, columns, { role: 'bold' }) }))
  // The last keys stay on a narrow terminal, because they explain the others.
  let keys: readonly string[] = KEYS
  while (columnsOf(keys.join('  ')) > columns) keys = keys.slice(1)
  return [lineOfText(keys.join('  '), 'dim')]
}
