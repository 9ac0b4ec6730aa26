/**
 * Draws a table: aligned columns that fit into a terminal, or tab-separated values for other programs.
 *
 * From 80 columns on, texts that may shrink give way before columns do. On a narrower terminal whole columns give way
 * first. A column that may neither shrink nor give way is never truncated: what does not fit beside it continues in a
 * line of its own.
 */
import { NO_COLORS, type Paint } from './colors.ts'
import { cleanLine, columnsOf, toAscii, truncateEnd, truncateMiddle } from './text-width.ts'

export interface TableCell {
  readonly text: string
  readonly paint?: Paint
}

export interface TableColumn<Row> {
  readonly heading: string
  /** The value on a terminal. */
  readonly cell: (row: Row) => string | TableCell
  /** The value elsewhere, where ids are whole and times are instants; the terminal's text by default. */
  readonly plain?: (row: Row) => string
  readonly align?: 'right'
  /** The column is left out when the terminal is too narrow: the column with the lowest number first. */
  readonly givesWay?: number
  /** The text may shrink to so many columns. Columns shrink from left to right. */
  readonly shrinksTo?: number
  /** Paths and identifiers shrink in their middle, sentences at their end. */
  readonly shrinks?: 'middle' | 'end'
}

export interface TerminalTable {
  readonly width: number
  readonly ellipsis?: string
  readonly isAsciiOnly?: boolean
  readonly paintHeading?: Paint
}

/** The glyph before each row. */
export type RowMark<Row> = (row: Row) => TableCell

const NARROW_COLUMNS_MAX = 79
const GAP = '  '
const CONTINUATION = '    '

/** Returns lines without a line end at the end of the text. */
export function drawTable<Row>(
  columns: readonly TableColumn<Row>[],
  rows: readonly Row[],
  terminal: TerminalTable,
  mark?: RowMark<Row>,
): string {
  const { width, ellipsis = '…', paintHeading = NO_COLORS.bold } = terminal
  const clean = terminal.isAsciiOnly === true ? (text: string) => toAscii(cleanLine(text)) : cleanLine
  const drawn = columns.map((column): DrawnColumn<Row> => {
    const cells = rows.map((row) => cellOf(column.cell(row), clean))
    const width = Math.max(columnsOf(column.heading), ...cells.map(({ text }) => columnsOf(text)))
    return { ...column, cells, width }
  })
  const marks = mark === undefined ? undefined : rows.map(mark)
  const indentation = marks === undefined ? 0 : 1 + Math.max(1, ...marks.map(({ text }) => columnsOf(text)))
  const fitted = fitColumns(drawn, width - indentation, width <= NARROW_COLUMNS_MAX)
  const lineOf = (cells: readonly TableCell[], first: TableCell) =>
    drawPadded(first, indentation) + joinCells(fitted, cells, width, indentation, ellipsis)
  const heading = fitted.map(({ heading }) => ({ text: heading, paint: paintHeading }))
  const lines = rows.map((_, at) =>
    lineOf(
      fitted.map(({ cells }) => cells[at] ?? { text: '' }),
      marks?.[at] ?? { text: '' },
    ),
  )
  return (hasHeadings(columns) ? [lineOf(heading, { text: '' }), ...lines] : lines).join('\n')
}

/** Tab-separated values with a heading: whole texts without colours. */
export function formatTabSeparated<Row>(columns: readonly TableColumn<Row>[], rows: readonly Row[]): string {
  const lines = rows.map((row) =>
    columns.map(({ cell, plain }) =>
      cleanLine(plain === undefined ? cellOf(cell(row), cleanLine).text : plain(row)),
    ),
  )
  const all = hasHeadings(columns) ? [columns.map(({ heading }) => heading), ...lines] : lines
  return all.map((cells) => cells.join('\t')).join('\n')
}

/** A list whose columns need no explanation has empty headings. */
const hasHeadings = <Row>(columns: readonly TableColumn<Row>[]): boolean =>
  columns.some(({ heading }) => heading !== '')

// ---- fitting -------------------------------------------------------------------------------------------------------

type DrawnColumn<Row> = TableColumn<Row> & {
  readonly cells: readonly TableCell[]
  readonly width: number
}

/** The columns that stay, with the widths that they get. */
function fitColumns<Row>(
  columns: readonly DrawnColumn<Row>[],
  width: number,
  isNarrow: boolean,
): readonly DrawnColumn<Row>[] {
  let left = columns
  const neededBy = isNarrow ? widthOf : leastWidthOf
  while (neededBy(left) > width && mayGiveWay(left)) left = withoutNext(left)
  return shrinkColumns(left, width)
}

const mayGiveWay = <Row>(columns: readonly DrawnColumn<Row>[]): boolean =>
  columns.some(({ givesWay }) => givesWay !== undefined)

function withoutNext<Row>(columns: readonly DrawnColumn<Row>[]): readonly DrawnColumn<Row>[] {
  const least = Math.min(...columns.flatMap(({ givesWay }) => givesWay ?? []))
  return columns.filter(({ givesWay }) => givesWay !== least)
}

function shrinkColumns<Row>(
  columns: readonly DrawnColumn<Row>[],
  width: number,
): readonly DrawnColumn<Row>[] {
  const last = columns.at(-1)
  // The last column gets a line of its own, so the others share the whole width.
  if (last !== undefined && columns.length > 1 && leastWidthOf(columns) > width)
    return [
      ...shrinkColumns(columns.slice(0, -1), width),
      ...shrinkColumns([last], width - CONTINUATION.length),
    ]
  let excess = widthOf(columns) - width
  return columns.map((column) => {
    const shrunk = Math.max(leastWidth(column), column.width - Math.max(0, excess))
    excess -= column.width - shrunk
    return { ...column, width: shrunk }
  })
}

const leastWidth = <Row>({ width, heading, shrinksTo }: DrawnColumn<Row>): number =>
  shrinksTo === undefined ? width : Math.min(width, Math.max(shrinksTo, columnsOf(heading)))

const sumWidths = (widths: readonly number[]): number =>
  widths.reduce((sum, width) => sum + width, 0) + GAP.length * Math.max(0, widths.length - 1)
const widthOf = <Row>(columns: readonly DrawnColumn<Row>[]): number =>
  sumWidths(columns.map(({ width }) => width))
const leastWidthOf = <Row>(columns: readonly DrawnColumn<Row>[]): number => sumWidths(columns.map(leastWidth))

// ---- drawing -------------------------------------------------------------------------------------------------------

function joinCells<Row>(
  columns: readonly DrawnColumn<Row>[],
  cells: readonly TableCell[],
  widthMax: number,
  indentation: number,
  ellipsis: string,
): string {
  let line = ''
  let used = indentation
  columns.forEach((column, at) => {
    const { text, paint } = cells[at] ?? { text: '' }
    const isLast = at === columns.length - 1
    const gap = at === 0 ? '' : GAP
    const short = (column.shrinks === 'middle' ? truncateMiddle : truncateEnd)(text, column.width, ellipsis)
    const fits = used + gap.length + column.width <= widthMax
    line += fits || at === 0 ? gap : `\n${CONTINUATION}`
    used = (fits || at === 0 ? used + gap.length : CONTINUATION.length) + column.width
    line += drawPadded(
      { text: short, ...(paint && { paint }) },
      isLast && column.align === undefined ? 0 : column.width,
      column.align,
    )
  })
  return line.replace(/ +$/gm, '')
}

/** Only the text is painted, because an underline would show below the padding. */
function drawPadded({ text, paint = NO_COLORS.bold }: TableCell, width: number, align?: 'right'): string {
  const padding = ' '.repeat(Math.max(0, width - columnsOf(text)))
  return align === 'right' ? padding + paint(text) : paint(text) + padding
}

function cellOf(cell: string | TableCell, clean: (text: string) => string): TableCell {
  const { text, paint } = typeof cell === 'string' ? { text: cell, paint: undefined } : cell
  return { text: clean(text), ...(paint && { paint }) }
}
