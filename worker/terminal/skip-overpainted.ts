/**
 * Skips output of a full-screen program that later output paints over, before the terminal emulator parses it.
 *
 * The alternate screen has no scrollback, so only the last paint of each cell is visible. When the pending output only
 * paints cells, sets colours and moves the cursor, and its tail repaints every cell, everything before the tail is
 * dropped, except lasting settings: colour, cursor visibility, character set. The tail is simulated to prove that it
 * covers the screen; a sequence that could scroll, or a character of unknown width, ends the proof, and nothing is
 * dropped.
 */
import type { TerminalSize } from '../../core/daemon/terminal.ts'
import { findFinalColour, findLast, indexOrEnd } from './skip-scrolled.ts'

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
