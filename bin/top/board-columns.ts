/** Draws the rows of runs and workers in columns that both tables share where they stand below each other. */

import { beginningOf } from '../../client/run-beginning.ts'
import { describeVersion, platformOf, slotsOf, stateOf } from '../../client/worker-words.ts'
import type { Run } from '../../protocol/run.ts'
import { formatCost } from '../output/amounts.ts'
import { glyphRole } from '../output/glyphs.ts'
import { columnsOf } from '../output/text-width.ts'
import { formatAge } from '../output/times.ts'
import type { Board, RunRow, WorkerRow } from './board.ts'
import { type BoardLine, type BoardText, type CellFormat, cellSpans, type Span } from './line.ts'

export interface BoardWidth {
  readonly text: BoardText
  readonly columns: number
  readonly now: number
}

/** From here on runs have their title and worker, and workers their platform and version. */
const WIDE_COLUMNS_MIN = 120
const GAP: Span = { text: '  ' }
/** The widest state of a run. Fixed widths keep the columns calm. */
const STATE_COLUMNS = 10
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

interface NamedText {
  readonly name: string
  readonly glyph: Span
}

/** The columns of a name with its glyph, in runs and in workers. */
export function nameColumns(board: Board, { text, columns }: BoardWidth): number {
  const names = [
    ...[...board.unfinished, ...board.finished].map(({ run }) => run.ticket.identifier),
    ...board.workers.map(({ worker }) => worker.name),
  ]
  const widest = Math.max(...names.map((name) => columnsOf(text.clean(name))), 0)
  // `WORKERS` is the longest heading.
  return Math.max(7, 2 + Math.min(widest, Math.floor(columns / 4)))
}

// ---- runs ----------------------------------------------------------------------------------------------------------

export interface DrawnTable<Row> {
  readonly heading: BoardLine
  line(row: Row, isSelected: boolean): BoardLine
}

export function runTable(board: Board, width: BoardWidth): DrawnTable<RunRow> {
  const first = nameColumns(board, width)
  const columns = runColumns(board, width, first)
  return {
    heading: headingLine('RUNS', first, columns),
    line: (row, isSelected) => ({
      isSelected,
      spans: joinCells(width.text, first, columns, row, {
        name: row.run.ticket.identifier,
        glyph: { text: width.text.glyphs.of(row.run.status), role: glyphRole(row.run.status) },
      }),
    }),
  }
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
    { heading: 'STATE', width: STATE_COLUMNS, cell: ({ run }) => run.status },
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

export function workerTable(board: Board, width: BoardWidth): DrawnTable<WorkerRow> {
  const first = nameColumns(board, width)
  const columns = workerColumns(board, width, first)
  return {
    heading: headingLine('WORKERS', first, columns),
    line: (row, isSelected) => ({
      isSelected,
      spans: joinCells(width.text, first, columns, row, { name: row.worker.name, glyph: { text: ' ' } }),
    }),
  }
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

function joinCells<Row>(
  text: BoardText,
  first: number,
  columns: readonly Column<Row>[],
  row: Row,
  { name, glyph }: NamedText,
): Span[] {
  return [
    glyph,
    { text: ' ' },
    ...cellSpans(text, name, first - 2, { shrinks: 'middle' }),
    ...columns.flatMap((column) => [GAP, ...cellSpans(text, column.cell(row), column.width, column)]),
  ]
}
