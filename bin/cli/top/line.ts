/** A line of the board: spans with a role each, measured and truncated before they are painted. */
import type { Colors } from '../../output/colors.ts'
import type { StyledStream } from '../../output/styled-stream.ts'
import { columnsOf, truncateEnd, truncateMiddle } from '../../output/text-width.ts'

export interface Span {
  readonly text: string
  readonly role?: keyof Colors | undefined
}

export interface BoardLine {
  readonly spans: readonly Span[]
  /** The whole line is reversed. */
  readonly isSelected?: boolean
}

/** The part of a terminal that decides which characters a line may have. */
export type BoardText = Pick<StyledStream, 'glyphs' | 'clean'>

export interface CellFormat {
  readonly align?: 'right'
  readonly role?: keyof Colors | undefined
  readonly shrinks?: 'middle'
}

export const EMPTY_LINE: BoardLine = { spans: [] }

export const lineOfText = (text: string, role?: keyof Colors): BoardLine => ({ spans: [{ text, role }] })

/** Cleans, truncates and pads a text to a width; only the text itself has the role. */
export function cellSpans(
  terminal: BoardText,
  text: string,
  width: number,
  { align, role, shrinks }: CellFormat = {},
): Span[] {
  const truncate = shrinks === 'middle' ? truncateMiddle : truncateEnd
  const shown = truncate(terminal.clean(text), width, terminal.glyphs.ellipsis)
  const padding = { text: ' '.repeat(Math.max(0, width - columnsOf(shown))) }
  const value = { text: shown, role }
  return align === 'right' ? [padding, value] : [value, padding]
}

export const textOf = ({ spans }: BoardLine): string =>
  spans
    .map(({ text }) => text)
    .join('')
    .trimEnd()

/** Puts two parts at the ends of a line; the left part is left out when both don't fit. */
export function alignSpans(left: readonly Span[], right: readonly Span[], columns: number): BoardLine {
  const gap = columns - widthOf(left) - widthOf(right)
  if (gap < 2) return { spans: [{ text: ' '.repeat(Math.max(0, columns - widthOf(right))) }, ...right] }
  return { spans: [...left, { text: ' '.repeat(gap) }, ...right] }
}

export const widthOf = (spans: readonly Span[]): number =>
  spans.reduce((sum, { text }) => sum + columnsOf(text), 0)

/** Returns the text that the terminal gets: a selected line is reversed up to the right edge. */
export function paintLine({ spans, isSelected }: BoardLine, colors: Colors, columns: number): string {
  if (isSelected === true) {
    const text = spans.map((span) => span.text).join('')
    return colors.selection(text + ' '.repeat(Math.max(0, columns - columnsOf(text))))
  }
  return spans
    .map(({ text, role }) => (role === undefined ? text : colors[role](text)))
    .join('')
    .replace(/ +$/, '')
}

// ---- the screen ----------------------------------------------------------------------------------------------------

/** Remembers what the terminal shows, and returns the sequences that draw the lines which have changed. */
export class BoardScreen {
  readonly #colors: Colors
  #shown: readonly string[] = []
  #cursor = ''
  #isUnknown = true

  constructor(colors: Colors) {
    this.#colors = colors
  }

  /** The terminal shows something else, or has another size: the next drawing begins anew. */
  forget(): void {
    this.#isUnknown = true
  }

  /** Returns the text to write; nothing when nothing has changed. */
  draw(lines: readonly BoardLine[], columns: number): string {
    const before = this.#isUnknown ? [] : this.#shown
    const painted = lines.map((line) => paintLine(line, this.#colors, columns))
    const changed = painted.map((line, at) =>
      line === (before[at] ?? '') ? '' : `${moveTo(at)}\x1b[2K${line}`,
    )
    const cursor = this.#cursorOn(lines.findIndex(({ isSelected }) => isSelected === true))
    const drawn = `${this.#isUnknown ? '\x1b[H\x1b[2J' : ''}${changed.join('')}`
    if (drawn === '' && cursor === this.#cursor) return ''
    this.#shown = painted
    this.#cursor = cursor
    this.#isUnknown = false
    return drawn + cursor
  }

  /**
   * The cursor stands on the selected row, for people whose program reads that row to them. Without colours the cursor
   * alone shows the selection.
   */
  #cursorOn(selected: number): string {
    const isShown = selected >= 0 && this.#colors.selection('x') === 'x'
    return `${isShown ? '\x1b[?25h' : '\x1b[?25l'}${moveTo(Math.max(0, selected))}`
  }
}

const moveTo = (row: number): string => `\x1b[${row + 1};1H`
