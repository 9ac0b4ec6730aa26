/**
 * The terminal of a session that nobody sits at: it knows what a view would show, and answers what the session asks.
 *
 * What it is told is taken in small portions between everything else that this process does. It keeps a bounded part
 * of what has scrolled away, and never more of one character than a bounded number of marks on top of each other.
 */
import type { MakeScreen, Screen, TerminalSize } from '../core/daemon/terminal.ts'
import { Emulator, SCROLLBACK_MAX } from './emulator.ts'
import { FLOOD_CHARS_MIN, linesFrom, withoutScrolledAway } from './flood.ts'
import { isAtRest, pictureOf } from './picture.ts'

/** After a part of a flood, so that the next is a long one: of those the least has to be read. */
const REST_MS = 50
/** So much is long enough. */
const RESTED_CHARS = 3 * 1024 * 1024
/** Below it no character is a mark that is put on the one before it. */
const FIRST_MARK = /[\u0300-\uffff]/
const TOO_MANY_MARKS = /(?:\p{M}|[\u200b-\u200f]){16,}/gu

export const makeScreen: MakeScreen = (size, answer) => new HeadlessScreen(size, answer)

class HeadlessScreen implements Screen {
  readonly #emulator: Emulator
  #waiting = ''
  /** Who waits for what waits. */
  #printed: (() => void)[] = []
  #isBusy = false
  #isResting = false
  #isClosed = false

  constructor(size: TerminalSize, answer: (data: string) => void) {
    this.#emulator = new Emulator(size, answer)
  }

  print(data: string): Promise<void> {
    return new Promise((resolve) => {
      this.#waiting += data
      this.#printed.push(resolve)
      this.#goOn()
    })
  }

  #goOn(): void {
    if (this.#isBusy || this.#printed.length === 0) return
    if (!this.#isResting || this.#waiting.length >= RESTED_CHARS) this.#next()
  }

  #rest(): void {
    if (this.#isResting) return
    this.#isResting = true
    const wake = () => {
      this.#isResting = false
      this.#goOn()
    }
    setTimeout(wake, REST_MS)
  }

  /** What came while it was busy is taken together. */
  #next(): void {
    const [first, rest] = this.#isClosed ? ['', ''] : this.#portions()
    const printed = rest === '' ? this.#printed.splice(0) : []
    if (rest === '' && this.#waiting.length >= FLOOD_CHARS_MIN) this.#rest()
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

  /** What to write now, and what to look at again after it: only from there on is it sure to be lines. */
  #portions(): [first: string, rest: string] {
    const waiting = this.#waiting
    if (waiting.length < FLOOD_CHARS_MIN) return [waiting, '']
    const from = linesFrom(waiting)
    if (waiting.length - from < FLOOD_CHARS_MIN) return [waiting, '']
    if (from > 0) return [waiting.slice(0, from), waiting.slice(from)]
    const { terminal } = this.#emulator
    if (!isAtRest(terminal)) return [waiting, '']
    return [withoutScrolledAway(waiting, SCROLLBACK_MAX + 2 * terminal.rows + 1), '']
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
