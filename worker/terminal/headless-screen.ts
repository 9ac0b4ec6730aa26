/**
 * The terminal of a session that nobody sits at: it knows what a view would show, and answers what the session asks.
 *
 * What it is told is taken in small portions between everything else that this process does. It keeps a bounded part
 * of what has scrolled away, and never more of one character than a bounded number of marks on top of each other.
 */
import type { CreateScreen, Screen, TerminalSize } from '../../core/daemon/terminal.ts'
import { Emulator, SCROLLBACK_MAX } from './hardened-xterm.ts'
import { isBetween, pictureOf, scrollsWhole } from './serialize-screen.ts'
import { paintFrom, paintUntil, withoutPaintedOver } from './skip-overpainted.ts'
import { areLines, FLOOD_CHARS_MIN, linesFrom, linesUntil, withoutScrolledAway } from './skip-scrolled.ts'

/** After a part of a flood, so that the next is a long one: of those the least has to be read. Then it is looked again. */
const REST_MS = 100
/** So much within that time is a flood, however well it is kept up with. */
const FLOODED_CHARS = 256 * 1024
/** So much of it is looked at; more in memory would outlive what is young there. */
const LOOKED_AT_CHARS = 768 * 1024
/** If only so much of that can still be seen, it waits for what comes after it, which most likely hides it, too. */
const KEPT_CHARS_MAX = 512 * 1024
/** Otherwise so much is long enough. */
const RESTED_CHARS = 3 * 1024 * 1024
/** Below it no character is a mark that is put on the one before it. */
const FIRST_MARK = /[\u0300-\uffff]/
const TOO_MANY_MARKS = /(?:\p{M}|[\u200b-\u200f]){16,}/gu

export const makeScreen: CreateScreen = (size, answer) => new HeadlessScreen(size, answer)

class HeadlessScreen implements Screen {
  readonly #emulator: Emulator
  #waiting = ''
  /** Of what waits in a flood. */
  #enough = LOOKED_AT_CHARS
  /** All that was ever printed. */
  #chars = 0
  /** Who waits for what waits, and for how far. */
  #printed: { readonly chars: number; readonly resolve: () => void }[] = []
  #isBusy = false
  #isResting = false
  #isClosed = false
  /** Some time ago, and what had been printed by then. */
  #since = { at: 0, chars: 0 }
  /** To be had after what is being read. */
  #size: TerminalSize | undefined
  /** It has gone on to the next sequence already, and that did not help. */
  #isStepping = false

  constructor(size: TerminalSize, answer: (data: string) => void) {
    this.#emulator = new Emulator(size, answer)
  }

  write(data: string): Promise<void> {
    return new Promise((resolve) => {
      this.#note()
      this.#waiting += data
      this.#chars += data.length
      this.#printed.push({ chars: this.#chars, resolve })
      this.#goOn()
    })
  }

  #note(): void {
    const at = performance.now()
    if (at - this.#since.at > REST_MS) this.#since = { at, chars: this.#chars }
  }

  get #isFlooded(): boolean {
    return this.#waiting.length >= FLOOD_CHARS_MIN || this.#chars - this.#since.chars >= FLOODED_CHARS
  }

  #goOn(): void {
    if (this.#isBusy || this.#printed.length === 0) return
    if (this.#isResting && this.#waiting.length < this.#enough) return
    const [first, rest] = this.#isClosed ? ['', ''] : this.#portions()
    if (this.#isResting && rest === '' && first.length <= KEPT_CHARS_MAX) this.#keep(first)
    else if (this.#isResting && this.#enough < RESTED_CHARS) this.#enough = RESTED_CHARS
    else this.#next(first, rest)
  }

  /** In place of all that waits. Whoever printed what is left out waits no longer: it shows nowhere. */
  #keep(end: string): void {
    this.#waiting = end
    this.#enough = LOOKED_AT_CHARS
    const from = this.#chars - end.length
    const { length } = this.#printed.filter(({ chars }) => chars <= from)
    for (const { resolve } of this.#printed.splice(0, length)) resolve()
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
  #next(first: string, rest: string): void {
    const printed = rest === '' ? this.#printed.splice(0) : []
    if (rest === '' && this.#isFlooded && !this.#isResting) this.#rest()
    this.#waiting = rest
    this.#enough = LOOKED_AT_CHARS
    void this.#write(bearable(first), printed)
  }

  async #write(data: string, printed: readonly { readonly resolve: () => void }[]): Promise<void> {
    this.#isBusy = true
    await this.#emulator.write(data)
    this.#isBusy = false
    this.#fit()
    for (const { resolve } of printed) resolve()
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
    if (from > 0 && waiting.length - from >= FLOOD_CHARS_MIN) return splitAt(waiting, from)
    const until = from === 0 ? waiting.length : isInFront ? paintUntil(waiting) : linesUntil(waiting)
    if (until < FLOOD_CHARS_MIN) return [waiting, '']
    const flood = waiting.slice(0, until)
    return [isInFront ? repainted(flood, terminal) : scrolled(flood, terminal), waiting.slice(until)]
  }

  /** Where the one that it is in the middle of has ended, as a rule. */
  #toNextSequence(waiting: string): [first: string, rest: string] {
    const next = this.#isStepping ? 0 : Math.max(0, waiting.indexOf('\x1b', 1))
    this.#isStepping = !this.#isStepping
    return splitAt(waiting, next)
  }

  /** What was printed before is read before: what of it may be left out was found for the size that it was. */
  resize(size: TerminalSize): void {
    this.#size = size
    if (this.#isBusy) return
    if (this.#waiting === '') this.#fit()
    else this.#next(...this.#portions())
  }

  #fit(): void {
    if (this.#size !== undefined) this.#emulator.resize(this.#size)
    this.#size = undefined
  }

  serialize(): string {
    return pictureOf(this.#emulator.terminal)
  }

  close(): void {
    this.#isClosed = true
    this.#waiting = ''
    this.#size = undefined
    this.#emulator.close()
    for (const { resolve } of this.#printed.splice(0)) resolve()
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
