/**
 * Skips output of a full-screen program that later output paints over, before the terminal emulator parses it;
 * `skipScrolled` skips lines of a flood that scroll away.
 *
 * The alternate screen has no scrollback, so only the last paint of each cell is visible. When the pending output only
 * paints cells, sets colours and moves the cursor, and its tail repaints every cell, everything before the tail is
 * dropped, except lasting settings: colour, cursor visibility, character set. The tail is simulated to prove that it
 * covers the screen; a sequence that could scroll, or a character of unknown width, ends the proof, and nothing is
 * dropped.
 */
import type { TerminalSize } from '../../core/daemon/terminal.ts'

/** Cursor movement, erasing, inserting, scrolling, colours, and the lasting settings. */
const PAINT_SEQUENCE = '\\[[\\d;:]*[@-MPSTX`abdefm]|[DEM]|\\[\\?(?:25|2026)[hl]|\\([0B]'
/** A sequence cut off at the end of the text. */
const UNFINISHED_SEQUENCE = '(?:\\[\\??[\\d;:]*|\\()?$'
/** Matches anything but these sequences and printable characters. */
const NOT_PAINT = new RegExp(
  `[\\0-\\x07\\x0e-\\x1a\\x1c-\\x1f\\x7f-\\x9f]|\\x1b(?!${PAINT_SEQUENCE}|${UNFINISHED_SEQUENCE})`,
  'g',
)
const LASTING_SEQUENCES = [
  ['\x1b[?25h', '\x1b[?25l'],
  ['\x1b[?2026h', '\x1b[?2026l'],
  ['\x1b(B', '\x1b(0'],
] as const

/** Tail lengths to try. Most programs paint a whole screen with less than the first. */
const TAILS_CHARS = [64 * 1024, 256 * 1024, 1024 * 1024]
/** An absolute cursor position: from here on, the earlier cursor position does not matter. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: the pattern matches control characters
const CURSOR_POSITIONED = /\x1b\[(?:\d+;\d+)?H/g

/** Returns where the trailing part that only paints starts. */
export function paintStart(text: string): number {
  let from = 0
  NOT_PAINT.lastIndex = 0
  while (NOT_PAINT.exec(text) !== null) from = NOT_PAINT.lastIndex
  return from
}

/** Returns where the leading part that only paints ends. */
export const paintEnd = (text: string): number => indexOrEnd(text.search(NOT_PAINT), text)

/** `paint` must only paint, on the alternate screen, without margins and without insert mode. */
export function skipOverpainted(paint: string, size: TerminalSize): string {
  for (const chars of TAILS_CHARS) {
    CURSOR_POSITIONED.lastIndex = Math.max(0, paint.length - chars)
    const at = CURSOR_POSITIONED.exec(paint)?.index
    if (at === undefined) return paint
    if (new PaintedCells(size).coversScreen(paint, at))
      return findLasting(paint.slice(0, at)) + paint.slice(at)
    if (at === 0) break
  }
  return paint
}

const findLasting = (text: string): string =>
  LASTING_SEQUENCES.map((sequences) => findLast(text, sequences).is).join('') + findFinalColour(text)

/** Matches, in turn: characters of one cell each; a control sequence; a lasting setting; CR or LF. */
const PAINT_STEP =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the pattern matches control characters
  /([ -~\xa0-\u02ff\u2010-\u2027\u2190-\u21ff\u2500-\u25ff\u2800-\u28ff]+)|\x1b\[(\d*)(?:;(\d*))?(?:[\d;:]*m|([A-Z`a-z]))|\x1b(?:\[\?(?:25|2026)[hl]|\([0B])|\r|\n/y

/** Simulates which cells are painted, as long as the cursor position is certain. */
class PaintedCells {
  readonly #cols: number
  readonly #rows: number
  readonly #isPainted: Uint8Array
  #unpainted: number
  #x = 0
  #y = 0

  constructor({ cols, rows }: TerminalSize) {
    this.#cols = cols
    this.#rows = rows
    this.#unpainted = cols * rows
    this.#isPainted = new Uint8Array(this.#unpainted)
  }

  /** Returns whether the text from `from` on paints every cell. */
  coversScreen(text: string, from: number): boolean {
    PAINT_STEP.lastIndex = from
    while (this.#unpainted > 0) {
      const found = PAINT_STEP.exec(text)
      if (found === null || !this.#step(found)) return false
    }
    return true
  }

  #step([whole, characters, first, second, final]: RegExpExecArray): boolean {
    if (characters !== undefined) return this.#write(characters.length)
    if (final !== undefined)
      return this.#applySequence(final, Number(first), second === undefined ? 0 : Number(second))
    if (whole === '\r') this.#x = 0
    return whole !== '\n' || this.#nextRow()
  }

  /** Fails for text that would wrap to the next row, because wrapping on the last row would scroll. */
  #write(count: number): boolean {
    if (this.#x + count > this.#cols) return false
    this.#paint(this.#y, this.#x, this.#x + count)
    this.#x += count
    return true
  }

  #nextRow(): boolean {
    if (this.#y === this.#rows - 1) return false
    this.#y += 1
    this.#x = Math.min(this.#x, this.#cols - 1)
    return true
  }

  #applySequence(final: string, first: number, second: number): boolean {
    if (final === 'H') return this.#moveCursor(Math.max(1, first) - 1, Math.max(1, second) - 1)
    // Terminals differ in how they count from behind the last column.
    if (this.#x === this.#cols && final !== 'J' && final !== 'K') return false
    if (final === 'K') return this.#eraseInRow(first)
    if (final === 'J') return this.#erase(first)
    const count = Math.max(1, first)
    if (final === 'X') return this.#paint(this.#y, this.#x, this.#x + count)
    if (final === 'G') return this.#moveCursor(this.#y, count - 1)
    if (final === 'd') return this.#moveCursor(count - 1, this.#x)
    if (final === 'A') return this.#moveCursor(this.#y - count, this.#x)
    if (final === 'B') return this.#moveCursor(this.#y + count, this.#x)
    if (final === 'C') return this.#moveCursor(this.#y, this.#x + count)
    return final === 'D' && this.#moveCursor(this.#y, this.#x - count)
  }

  #moveCursor(y: number, x: number): boolean {
    this.#y = Math.max(0, Math.min(y, this.#rows - 1))
    this.#x = Math.max(0, Math.min(x, this.#cols - 1))
    return true
  }

  #eraseInRow(how: number): boolean {
    if (how === ERASE_TO_END) return this.#paint(this.#y, this.#x, this.#cols)
    if (how === ERASE_TO_CURSOR) return this.#paint(this.#y, 0, this.#x)
    return how === ERASE_ALL && this.#paint(this.#y, 0, this.#cols)
  }

  #erase(how: number): boolean {
    if (how > ERASE_ALL) return false
    const [first, last] = [
      how === ERASE_TO_END ? this.#y + 1 : 0,
      how === ERASE_TO_CURSOR ? this.#y : this.#rows,
    ]
    for (let y = first; y < last; y++) this.#paint(y, 0, this.#cols)
    return this.#eraseInRow(how)
  }

  #paint(y: number, from: number, until: number): boolean {
    const row = y * this.#cols
    for (let at = row + from; at < row + Math.min(until, this.#cols); at++) {
      if (this.#isPainted[at] === 1) continue
      this.#isPainted[at] = 1
      this.#unpainted -= 1
    }
    return true
  }
}

const ERASE_TO_END = 0
const ERASE_TO_CURSOR = 1
const ERASE_ALL = 2

// ---- lines that scroll away ----------------------------------------------------------------------------------------

/** For less output, skipping saves nothing. */
export const FLOOD_CHARS_MIN = 64 * 1024

/** Matches anything but printable characters, line ends, colours, and a colour sequence cut off at the end. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: the pattern matches control characters
const NOT_PLAIN_LINES = /[\0-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f-\x9f]|\x1b(?!\[[\d;:]*(?:m|$)|$)/g
// biome-ignore lint/suspicious/noControlCharactersInRegex: as above
const COLOUR = /\x1b\[[\d;:]*m/g
const RESETS = ['\x1b[m', '\x1b[0m']

/** Returns where the trailing part of only lines and colours starts. */
export function plainLinesStart(text: string): number {
  let from = 0
  NOT_PLAIN_LINES.lastIndex = 0
  while (NOT_PLAIN_LINES.exec(text) !== null) from = NOT_PLAIN_LINES.lastIndex
  return from
}

/** Returns where the leading part of only lines and colours ends. */
export const plainLinesEnd = (text: string): number => indexOrEnd(text.search(NOT_PLAIN_LINES), text)

const indexOrEnd = (at: number, text: string): number => (at === -1 ? text.length : at)

export const isPlainLines = (text: string): boolean => text.search(NOT_PLAIN_LINES) === -1

/**
 * Skips output of a flood that will have scrolled away by its end, before the terminal emulator parses it.
 *
 * Parsing terminal output character by character is the most expensive step. When the pending output consists only of
 * lines and colours, only the last lines can be visible or in the scrollback; the others are dropped, except for the
 * colour they end with. The resulting screen is identical in every cell.
 *
 * `lines` must contain only lines and colours. The last `visibleLines` of them may be visible or in the scrollback.
 */
export function skipScrolled(lines: string, visibleLines: number): string {
  let start = lines.length
  for (let n = visibleLines; n > 0; n--) {
    start = lines.lastIndexOf('\r\n', start - 1)
    if (start <= 0) return lines
  }
  return findFinalColour(lines.slice(0, start)) + lines.slice(start)
}

// ---- the last of several sequences ---------------------------------------------------------------------------------

/** Returns the colour sequences in effect at the end of a text, starting at its last reset. */
function findFinalColour(text: string): string {
  return (text.slice(findLast(text, RESETS).at).match(COLOUR) ?? []).join('')
}

/** Sequences usually repeat often, so the last occurrence is mostly near the end. */
const TAIL_CHARS = 16 * 1024
/** Searching for a sequence without its common introducer is much faster. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: as above
const INTRODUCER = /^\x1b\[?/

/** Finds which of the sequences occurs last in a text, and where. */
function findLast(text: string, sequences: readonly string[]): { readonly at: number; readonly is: string } {
  const tailStart = Math.max(0, text.length - TAIL_CHARS)
  const inTail = findLastAmong(text.slice(tailStart), sequences)
  if (inTail.is !== '') return { at: tailStart + inTail.at, is: inTail.is }
  return findLastAmong(
    text,
    sequences.filter((sequence) => text.includes(sequence.replace(INTRODUCER, ''))),
  )
}

function findLastAmong(
  text: string,
  sequences: readonly string[],
): { readonly at: number; readonly is: string } {
  let last = { at: 0, is: '' }
  for (const is of sequences) {
    const at = text.lastIndexOf(is)
    if (at >= last.at) last = { at, is }
  }
  return last
}
