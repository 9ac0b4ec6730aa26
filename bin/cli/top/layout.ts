/**
 * Lays the board out for a terminal of any size: counts, what needs somebody, runs, workers, the log of the selected
 * run, keys.
 *
 * A pure function of the board, the size and the time. Every line fits the width, and the lines fill the height.
 */

import { beginningOf } from '../../../client/run-beginning.ts'
import { describeVersion, platformOf, slotsOf, stateOf } from '../../../client/worker-words.ts'
import type { Run } from '../../../protocol/run.ts'
import { formatCost } from '../../output/amounts.ts'
import { glyphRole } from '../../output/styled-stream.ts'
import { columnsOf, wrapWords } from '../../output/text-width.ts'
import { formatAge, formatClock, formatClockSeconds, type Present } from '../../output/times.ts'
import type { Board, RunRow, WorkerRow } from './board.ts'
import type { BoardLogLine } from './board-records.ts'
import {
  alignSpans,
  type BoardLine,
  type BoardText,
  type CellFormat,
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

// ---- tables --------------------------------------------------------------------------------------------------------

interface BoardWidth {
  readonly text: BoardText
  readonly columns: number
  readonly now: number
}

/** From here on runs have their title and worker, and workers their platform and version. */
const WIDE_COLUMNS_MIN = 120
const GAP: Span = { text: '  ' }
/** The widest state of a run. Fixed widths keep the columns calm. */
const RUN_STATE_COLUMNS = 10
const AGE_COLUMNS = 5
const COST_COLUMNS = 6
const TITLE_COLUMNS = 26
const WORKER_COLUMNS_MAX = 16
const WORKER_STATE_COLUMNS = 8
const SLOTS_COLUMNS = 5
/** With less room for the last line the cost gives way, then the age. */
const LAST_COLUMNS_MIN = 20

interface Column<Row> extends CellFormat {
  readonly heading: string
  readonly width: number
  readonly cell: (row: Row) => string
}

/** The columns of a name with its glyph, in runs and in workers. */
function nameColumns(board: Board, { text, columns }: BoardWidth): number {
  const names = [
    ...[...board.unfinished, ...board.finished].map(({ run }) => run.ticket.identifier),
    ...board.workers.map(({ worker }) => worker.name),
  ]
  const widest = Math.max(...names.map((name) => columnsOf(text.clean(name))), 0)
  // `WORKERS` is the longest heading.
  return Math.max(7, 2 + Math.min(widest, Math.floor(columns / 4)))
}

// ---- runs ----------------------------------------------------------------------------------------------------------

function runTable(board: Board, width: BoardWidth) {
  const first = nameColumns(board, width)
  return drawTable('RUNS', width.text, first, runColumns(board, width, first), ({ run }) => ({
    name: run.ticket.identifier,
    glyph: { text: width.text.glyphs.of(run.status), role: glyphRole(run.status) },
  }))
}

function runColumns(board: Board, { text, columns, now }: BoardWidth, first: number): Column<RunRow>[] {
  const rows = [...board.unfinished, ...board.finished]
  const widest = (cell: (row: RunRow) => string) =>
    Math.max(0, ...rows.map((row) => columnsOf(text.clean(cell(row)))))
  const isWide = columns >= WIDE_COLUMNS_MIN
  const title = ({ run }: RunRow) => run.ticket.title
  const worker = ({ run }: RunRow) => run.sandbox.workerName ?? '-'
  const age = ({ run }: RunRow) => ageOf(run, now)
  const cost = ({ run }: RunRow) => formatCost(run.costTotals)
  const titleMax = TITLE_COLUMNS + Math.floor((columns - WIDE_COLUMNS_MIN) / 3)
  const ageColumn = { heading: 'AGE', width: Math.max(AGE_COLUMNS, widest(age)), cell: age }
  const costColumn = {
    heading: 'COST',
    width: Math.max(COST_COLUMNS, widest(cost)),
    cell: cost,
    align: 'right' as const,
  }
  const left: Column<RunRow>[] = [
    ...(isWide
      ? [{ heading: 'TITLE', width: Math.max(5, Math.min(widest(title), titleMax)), cell: title }]
      : []),
    { heading: 'STATE', width: RUN_STATE_COLUMNS, cell: ({ run }) => run.status },
  ]
  const right: Column<RunRow>[] = isWide
    ? [{ heading: 'WORKER', width: Math.max(6, Math.min(widest(worker), WORKER_COLUMNS_MAX)), cell: worker }]
    : []
  const restBeside = (middle: readonly Column<RunRow>[]) =>
    [...left, ...middle, ...right].reduce((rest, { width }) => rest - width - 2, columns - first - 2)
  const candidates = [[ageColumn, costColumn], [ageColumn], []]
  const middle = candidates.find((some) => restBeside(some) >= LAST_COLUMNS_MIN) ?? []
  const last = Math.max(0, restBeside(middle))
  return [...left, ...middle, ...right, { heading: 'LAST LINE', width: last, cell: (row) => row.last }]
}

const ageOf = (run: Run, now: number): string => formatAge(now - Date.parse(beginningOf(run)))

// ---- workers -------------------------------------------------------------------------------------------------------

function workerTable(board: Board, width: BoardWidth) {
  const first = nameColumns(board, width)
  return drawTable('WORKERS', width.text, first, workerColumns(board, width, first), ({ worker }) => ({
    name: worker.name,
    glyph: { text: ' ' },
  }))
}

function workerColumns(
  { workers, hostVersion }: Board,
  { text, columns }: BoardWidth,
  first: number,
): Column<WorkerRow>[] {
  const widest = (cell: (row: WorkerRow) => string) =>
    Math.max(0, ...workers.map((row) => columnsOf(text.clean(cell(row)))))
  const slots = ({ worker }: WorkerRow) => slotsOf(worker)
  const platform = ({ worker }: WorkerRow) => platformOf(worker)
  const version = ({ worker }: WorkerRow) =>
    hostVersion === undefined ? (worker.capabilities?.version ?? '-') : describeVersion(worker, hostVersion)
  const left: Column<WorkerRow>[] = [
    { heading: 'STATE', width: WORKER_STATE_COLUMNS, cell: ({ worker }) => stateOf(worker) },
    { heading: 'SLOTS', width: Math.max(SLOTS_COLUMNS, widest(slots)), cell: slots },
    ...(columns >= WIDE_COLUMNS_MIN
      ? [
          { heading: 'PLATFORM', width: Math.max(8, Math.min(widest(platform), 16)), cell: platform },
          { heading: 'VERSION', width: Math.max(7, Math.min(widest(version), 20)), cell: version },
        ]
      : []),
  ]
  const rest = left.reduce((sum, { width }) => sum - width - 2, columns - first - 2)
  return [...left, { heading: 'RUNS', width: Math.max(0, rest), cell: ({ work }) => work }]
}

// ---- cells ---------------------------------------------------------------------------------------------------------

function headingLine<Row>(name: string, first: number, columns: readonly Column<Row>[]): BoardLine {
  const spans = columns.flatMap(({ heading, width, align }, at): Span[] => {
    const isLast = at === columns.length - 1
    const text =
      align === 'right' ? heading.padStart(width) : isLast ? heading.slice(0, width) : heading.padEnd(width)
    return [GAP, { text, role: 'bold' }]
  })
  return { spans: [{ text: name.padEnd(first), role: 'bold' }, ...spans] }
}

function drawTable<Row>(
  heading: string,
  text: BoardText,
  first: number,
  columns: readonly Column<Row>[],
  nameOf: (row: Row) => { readonly name: string; readonly glyph: Span },
) {
  return {
    heading: headingLine(heading, first, columns),
    line(row: Row, isSelected: boolean): BoardLine {
      const { name, glyph } = nameOf(row)
      const named = [glyph, { text: ' ' }, ...cellSpans(text, name, first - 2, { shrinks: 'middle' })]
      const cells = columns.flatMap((column) => [
        GAP,
        ...cellSpans(text, column.cell(row), column.width, column),
      ])
      return { isSelected, spans: [...named, ...cells] }
    },
  }
}
