/**
 * What of a full-screen program's output a terminal need not be told, because all of it has been painted over by the end.
 *
 * In front of everything else nothing scrolls away to be kept, so of what was painted only the last can be seen. Where
 * all that waits is cells, colours and cursor, and the end of it paints every cell of the screen anew, the rest is left
 * out, but for what lasts: the colour that it ends with, whether the cursor shows, the letters or lines it writes in.
 * Whether the end does so is found out by following it; whatever could scroll, or is not known to be one cell wide,
 * proves nothing, and everything is read.
 */
import type { TerminalSize } from '../../core/daemon/terminal.ts'
import { colourOf, found, lastOf } from './skip-scrolled.ts'

/** Steps of the cursor, what erases, inserts and scrolls, colours; and what lasts until it is said again. */
const PAINTS = '\\[[\\d;:]*[@-MPSTX`abdefm]|[DEM]|\\[\\?(?:25|2026)[hl]|\\([0B]'
/** It goes on in what comes next. */
const UNFINISHED = '(?:\\[\\??[\\d;:]*|\\()?$'
/** Whatever is none of these, and no character. */
const OTHER = new RegExp(`[\\0-\\x07\\x0e-\\x1a\\x1c-\\x1f\\x7f-\\x9f]|\\x1b(?!${PAINTS}|${UNFINISHED})`, 'g')
const LASTING = [
  ['\x1b[?25h', '\x1b[?25l'],
  ['\x1b[?2026h', '\x1b[?2026l'],
  ['\x1b(B', '\x1b(0'],
] as const

/** Where following it may begin, seen from the end: most programs paint all of a screen with less than the first. */
const TAILS_CHARS = [64 * 1024, 256 * 1024, 1024 * 1024]
/** From there on it does not matter where the cursor was. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what this is about
const PLACED = /\x1b\[(?:\d+;\d+)?H/g

/** Where the part begins that only paints. */
export function paintFrom(text: string): number {
  let from = 0
  OTHER.lastIndex = 0
  while (OTHER.exec(text) !== null) from = OTHER.lastIndex
  return from
}

/** Where the part ends that only paints. */
export const paintUntil = (text: string): number => found(text.search(OTHER), text)

/** `paint`: it only paints, in front, with no margins and nothing that moves aside for what is written. */
export function withoutPaintedOver(paint: string, size: TerminalSize): string {
  for (const chars of TAILS_CHARS) {
    PLACED.lastIndex = Math.max(0, paint.length - chars)
    const at = PLACED.exec(paint)?.index
    if (at === undefined) return paint
    if (new Painting(size).isWhole(paint, at)) return lastingOf(paint.slice(0, at)) + paint.slice(at)
    if (at === 0) break
  }
  return paint
}

const lastingOf = (text: string): string =>
  LASTING.map((sequences) => lastOf(text, sequences).is).join('') + colourOf(text)

/** In turn: characters that take a cell each; a control sequence; what lasts; the two steps of a line's end. */
const STEP =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what this is about
  /([ -~\xa0-\u02ff\u2010-\u2027\u2190-\u21ff\u2500-\u25ff\u2800-\u28ff]+)|\x1b\[(\d*)(?:;(\d*))?(?:[\d;:]*m|([A-Z`a-z]))|\x1b(?:\[\?(?:25|2026)[hl]|\([0B])|\r|\n/y

/** Follows what is painted, for as long as it is sure where. */
class Painting {
  readonly #cols: number
  readonly #rows: number
  readonly #isPainted: Uint8Array
  #left: number
  #x = 0
  #y = 0

  constructor({ cols, rows }: TerminalSize) {
    this.#cols = cols
    this.#rows = rows
    this.#left = cols * rows
    this.#isPainted = new Uint8Array(this.#left)
  }

  /** Whether every cell is painted by what begins there. */
  isWhole(text: string, from: number): boolean {
    STEP.lastIndex = from
    while (this.#left > 0) {
      const found = STEP.exec(text)
      if (found === null || !this.#step(found)) return false
    }
    return true
  }

  #step([whole, characters, first, second, final]: RegExpExecArray): boolean {
    if (characters !== undefined) return this.#write(characters.length)
    if (final !== undefined)
      return this.#obey(final, Number(first), second === undefined ? 0 : Number(second))
    if (whole === '\r') this.#x = 0
    return whole !== '\n' || this.#nextRow()
  }

  /** It would go on in the next row, and from the last one all would scroll. */
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

  #obey(final: string, first: number, second: number): boolean {
    if (final === 'H') return this.#place(Math.max(1, first) - 1, Math.max(1, second) - 1)
    // Behind the last column everybody counts differently.
    if (this.#x === this.#cols && final !== 'J' && final !== 'K') return false
    if (final === 'K') return this.#eraseInRow(first)
    if (final === 'J') return this.#erase(first)
    const count = Math.max(1, first)
    if (final === 'X') return this.#paint(this.#y, this.#x, this.#x + count)
    if (final === 'G') return this.#place(this.#y, count - 1)
    if (final === 'd') return this.#place(count - 1, this.#x)
    if (final === 'A') return this.#place(this.#y - count, this.#x)
    if (final === 'B') return this.#place(this.#y + count, this.#x)
    if (final === 'C') return this.#place(this.#y, this.#x + count)
    return final === 'D' && this.#place(this.#y, this.#x - count)
  }

  #place(y: number, x: number): boolean {
    this.#y = Math.max(0, Math.min(y, this.#rows - 1))
    this.#x = Math.max(0, Math.min(x, this.#cols - 1))
    return true
  }

  #eraseInRow(how: number): boolean {
    if (how === TO_END) return this.#paint(this.#y, this.#x, this.#cols)
    if (how === TO_HERE) return this.#paint(this.#y, 0, this.#x)
    return how === ALL && this.#paint(this.#y, 0, this.#cols)
  }

  #erase(how: number): boolean {
    if (how > ALL) return false
    const [first, last] = [how === TO_END ? this.#y + 1 : 0, how === TO_HERE ? this.#y : this.#rows]
    for (let y = first; y < last; y++) this.#paint(y, 0, this.#cols)
    return this.#eraseInRow(how)
  }

  #paint(y: number, from: number, until: number): boolean {
    const row = y * this.#cols
    for (let at = row + from; at < row + Math.min(until, this.#cols); at++) {
      if (this.#isPainted[at] === 1) continue
      this.#isPainted[at] = 1
      this.#left -= 1
    }
    return true
  }
}

const TO_END = 0
const TO_HERE = 1
const ALL = 2
