/**
 * The terminal of a session that nobody sits at: it knows what a view would show, and answers what the session asks.
 *
 * What it is told is taken in small portions between everything else that this process does. It keeps a bounded part
 * of what has scrolled away, and never more of one character than a bounded number of marks on top of each other.
 */
import type { MakeScreen, Screen, TerminalSize } from '../core/daemon/terminal.ts'
import { Emulator, SCROLLBACK_MAX } from './emulator.ts'
import { areLines, FLOOD_CHARS_MIN, linesFrom, withoutScrolledAway } from './flood.ts'
import { isBetween, pictureOf, scrollsWhole } from './picture.ts'
import { paintFrom, withoutPaintedOver } from './repaint.ts'

/** After a part of a flood, so that the next is a long one: of those the least has to be read. Then it is looked again. */
const REST_MS = 100
/** So much is long enough. */
const RESTED_CHARS = 3 * 1024 * 1024
/** Below it no character is a mark that is put on the one before it. */
const FIRST_MARK = /[\u0300-\uffff]/
const TOO_MANY_MARKS = /(?:\p{M}|[\u200b-\u200f]){16,}/gu

export const makeScreen: MakeScreen = (size, answer) => new HeadlessScreen(size, answer)

class HeadlessScreen implements Screen {
  readonly #emulator: Emulator
  #waiting = ''
  /** All that was ever printed. */
  #chars = 0
  /** Who waits for what waits. */
  #printed: (() => void)[] = []
  #isBusy = false
  #isResting = false
  #isClosed = false
  /** It has gone on to the next sequence already, and that did not help. */
  #isStepping = false

  constructor(size: TerminalSize, answer: (data: string) => void) {
    this.#emulator = new Emulator(size, answer)
  }

  print(data: string): Promise<void> {
    return new Promise((resolve) => {
      this.#waiting += data
      this.#chars += data.length
      this.#printed.push(resolve)
      this.#goOn()
    })
  }

  #goOn(): void {
    if (this.#isBusy || this.#printed.length === 0) return
    if (!this.#isResting || this.#waiting.length >= RESTED_CHARS) this.#next()
  }

  /** For as long as the flood goes on; when it has ended, or stops for somebody who waits, nobody waits for long. */
  #rest(): void {
    const before = this.#chars
    this.#isResting = true
    setTimeout(() => {
      this.#isResting = false
      if (!this.#isClosed && this.#chars - before >= FLOOD_CHARS_MIN) this.#rest()
      else this.#goOn()
    }, REST_MS)
  }

  /** What came while it was busy is taken together. */
  #next(): void {
    const [first, rest] = this.#isClosed ? ['', ''] : this.#portions()
    const printed = rest === '' ? this.#printed.splice(0) : []
    if (rest === '' && this.#waiting.length >= FLOOD_CHARS_MIN && !this.#isResting) this.#rest()
    this.#waiting = rest
    void this.#write(bearable(first), printed)
  }

  async #write(data: string, printed: readonly (() => void)[]): Promise<void> {
    this.#isBusy = true
    await this.#emulator.write(data)
    this.#isBusy = false
    for (const resolve of printed) resolve()
    this.#goOn()
  }

  /** What to write now, and what to look at again after it: only from there on is it sure to be what it looks like. */
  #portions(): [first: string, rest: string] {
    const waiting = this.#waiting
    const { terminal } = this.#emulator
    if (waiting.length < FLOOD_CHARS_MIN) return [waiting, '']
    if (!isBetween(terminal)) return this.#toNextSequence(waiting)
    this.#isStepping = false
    const isInFront = terminal.buffer.active.type === 'alternate'
    const from = isInFront ? paintFrom(waiting) : linesFrom(waiting)
    if (waiting.length - from < FLOOD_CHARS_MIN) return [waiting, '']
    if (from > 0) return splitAt(waiting, from)
    return [isInFront ? repainted(waiting, terminal) : scrolled(waiting, terminal), '']
  }

  /** Where the one that it is in the middle of has ended, as a rule. */
  #toNextSequence(waiting: string): [first: string, rest: string] {
    const next = this.#isStepping ? 0 : Math.max(0, waiting.indexOf('\x1b', 1))
    this.#isStepping = !this.#isStepping
    return splitAt(waiting, next)
  }

  resize(size: TerminalSize): void {
    this.#emulator.resize(size)
  }

  picture(): string {
    return pictureOf(this.#emulator.terminal)
  }

  close(): void {
    this.#isClosed = true
    this.#waiting = ''
    this.#emulator.close()
    for (const resolve of this.#printed.splice(0)) resolve()
  }
}

/** A character with a million marks on it is kept as one: in memory for good, and in every picture. */
function bearable(data: string): string {
  return FIRST_MARK.test(data) ? data.replace(TOO_MANY_MARKS, '') : data
}

type Terminal = Emulator['terminal']

/** All of it, if that is nowhere in it. */
const splitAt = (text: string, at: number): [string, string] =>
  at === 0 ? [text, ''] : [text.slice(0, at), text.slice(at)]

const scrolled = (lines: string, terminal: Terminal): string =>
  scrollsWhole(terminal) ? withoutScrolledAway(lines, SCROLLBACK_MAX + 2 * terminal.rows + 1) : lines

function repainted(paint: string, terminal: Terminal): string {
  if (areLines(paint)) return scrolled(paint, terminal)
  const { insertMode, originMode } = terminal.modes
  const isPlain = scrollsWhole(terminal) && !insertMode && !originMode && terminal.options.convertEol !== true
  return isPlain ? withoutPaintedOver(paint, terminal) : paint
}
