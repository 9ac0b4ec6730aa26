/**
 * The terminal of a session that nobody sits at: it knows what a view would show, and answers what the session asks.
 *
 * What it is told is taken in small portions between everything else that this process does. It keeps a bounded part
 * of what has scrolled away, and never more of one character than a bounded number of marks on top of each other.
 */
import type { CreateScreen, Screen, TerminalSize } from '../../core/daemon/terminal.ts'
import { HardenedXterm, SCROLLBACK_MAX } from './hardened-xterm.ts'
import { isBetweenSequences, scrollsWholeScreen, serializeScreen } from './serialize-screen.ts'
import { paintEnd, paintStart, skipOverpainted } from './skip-overpainted.ts'
import {
  FLOOD_CHARS_MIN,
  isPlainLines,
  plainLinesEnd,
  plainLinesStart,
  skipScrolled,
} from './skip-scrolled.ts'

/** After a part of a flood, so that the next is a long one: of those the least has to be read. Then it is looked again. */
const FLOOD_WAIT_MS = 100
/** So much within that time is a flood, however well it is kept up with. */
const FLOOD_RATE_CHARS = 256 * 1024
/** So much of it is looked at; more in memory would outlive what is young there. */
const EXAMINED_CHARS = 768 * 1024
/** If only so much of that can still be seen, it waits for what comes after it, which most likely hides it, too. */
const VISIBLE_REST_CHARS_MAX = 512 * 1024
/** Otherwise so much is long enough. */
const FLOOD_BATCH_CHARS = 3 * 1024 * 1024
/** Below it no character is a mark that is put on the one before it. */
const FIRST_MARK = /[\u0300-\uffff]/
const TOO_MANY_MARKS = /(?:\p{M}|[\u200b-\u200f]){16,}/gu

export const makeScreen: CreateScreen = (size, answer) => new HeadlessScreen(size, answer)

class HeadlessScreen implements Screen {
  readonly #emulator: HardenedXterm
  #pending = ''
  /** Of what waits in a flood. */
  #batchChars = EXAMINED_CHARS
  /** All that was ever printed. */
  #printedChars = 0
  /** Who waits for what waits, and for how far. */
  #waiters: { readonly chars: number; readonly resolve: () => void }[] = []
  #isWriting = false
  #isCollecting = false
  #isClosed = false
  /** Some time ago, and what had been printed by then. */
  #rateStart = { at: 0, chars: 0 }
  /** To be had after what is being read. */
  #requestedSize: TerminalSize | undefined
  /** It has gone on to the next sequence already, and that did not help. */
  #hasSkippedSequence = false

  constructor(size: TerminalSize, answer: (data: string) => void) {
    this.#emulator = new HardenedXterm(size, answer)
  }

  write(data: string): Promise<void> {
    return new Promise((resolve) => {
      this.#measureRate()
      this.#pending += data
      this.#printedChars += data.length
      this.#waiters.push({ chars: this.#printedChars, resolve })
      this.#writeNext()
    })
  }

  #measureRate(): void {
    const at = performance.now()
    if (at - this.#rateStart.at > FLOOD_WAIT_MS) this.#rateStart = { at, chars: this.#printedChars }
  }

  get #isFlooded(): boolean {
    return (
      this.#pending.length >= FLOOD_CHARS_MIN ||
      this.#printedChars - this.#rateStart.chars >= FLOOD_RATE_CHARS
    )
  }

  #writeNext(): void {
    if (this.#isWriting || this.#waiters.length === 0) return
    if (this.#isCollecting && this.#pending.length < this.#batchChars) return
    const [first, rest] = this.#isClosed ? ['', ''] : this.#nextPortion()
    if (this.#isCollecting && rest === '' && first.length <= VISIBLE_REST_CHARS_MAX) this.#keepRest(first)
    else if (this.#isCollecting && this.#batchChars < FLOOD_BATCH_CHARS) this.#batchChars = FLOOD_BATCH_CHARS
    else this.#startWriting(first, rest)
  }

  /** In place of all that waits. Whoever printed what is left out waits no longer: it shows nowhere. */
  #keepRest(end: string): void {
    this.#pending = end
    this.#batchChars = EXAMINED_CHARS
    const from = this.#printedChars - end.length
    const { length } = this.#waiters.filter(({ chars }) => chars <= from)
    for (const { resolve } of this.#waiters.splice(0, length)) resolve()
  }

  /** For as long as the flood goes on; when it has ended, or stops for somebody who waits, nobody waits for long. */
  #collect(): void {
    const before = this.#printedChars
    this.#isCollecting = true
    setTimeout(() => {
      this.#isCollecting = false
      if (!this.#isClosed && this.#printedChars - before >= FLOOD_CHARS_MIN) this.#collect()
      else this.#writeNext()
    }, FLOOD_WAIT_MS)
  }

  /** What came while it was busy is taken together. */
  #startWriting(first: string, rest: string): void {
    const waiters = rest === '' ? this.#waiters.splice(0) : []
    if (rest === '' && this.#isFlooded && !this.#isCollecting) this.#collect()
    this.#pending = rest
    this.#batchChars = EXAMINED_CHARS
    void this.#write(limitMarks(first), waiters)
  }

  async #write(data: string, waiters: readonly { readonly resolve: () => void }[]): Promise<void> {
    this.#isWriting = true
    await this.#emulator.write(data)
    this.#isWriting = false
    this.#applySize()
    for (const { resolve } of waiters) resolve()
    this.#writeNext()
  }

  /** What to write now, and what to look at again after it: only from there on is it sure to be what it looks like. */
  #nextPortion(): [first: string, rest: string] {
    const pending = this.#pending
    const { terminal } = this.#emulator
    if (pending.length < FLOOD_CHARS_MIN) return [pending, '']
    if (!isBetweenSequences(terminal)) return this.#toNextSequence(pending)
    this.#hasSkippedSequence = false
    const isAlternate = terminal.buffer.active.type === 'alternate'
    const from = isAlternate ? paintStart(pending) : plainLinesStart(pending)
    if (from > 0 && pending.length - from >= FLOOD_CHARS_MIN) return splitAt(pending, from)
    const until = from === 0 ? pending.length : isAlternate ? paintEnd(pending) : plainLinesEnd(pending)
    if (until < FLOOD_CHARS_MIN) return [pending, '']
    const flood = pending.slice(0, until)
    return [
      isAlternate ? skipOverpaintedCells(flood, terminal) : skipScrolledLines(flood, terminal),
      pending.slice(until),
    ]
  }

  /** Where the one that it is in the middle of has ended, as a rule. */
  #toNextSequence(pending: string): [first: string, rest: string] {
    const next = this.#hasSkippedSequence ? 0 : Math.max(0, pending.indexOf('\x1b', 1))
    this.#hasSkippedSequence = !this.#hasSkippedSequence
    return splitAt(pending, next)
  }

  /** What was printed before is read before: what of it may be left out was found for the size that it was. */
  resize(size: TerminalSize): void {
    this.#requestedSize = size
    if (this.#isWriting) return
    if (this.#pending === '') this.#applySize()
    else this.#startWriting(...this.#nextPortion())
  }

  #applySize(): void {
    if (this.#requestedSize !== undefined) this.#emulator.resize(this.#requestedSize)
    this.#requestedSize = undefined
  }

  serialize(): string {
    return serializeScreen(this.#emulator.terminal)
  }

  close(): void {
    this.#isClosed = true
    this.#pending = ''
    this.#requestedSize = undefined
    this.#emulator.close()
    for (const { resolve } of this.#waiters.splice(0)) resolve()
  }
}

/** A character with a million marks on it is kept as one: in memory for good, and in every picture. */
function limitMarks(data: string): string {
  return FIRST_MARK.test(data) ? data.replace(TOO_MANY_MARKS, '') : data
}

type XtermTerminal = HardenedXterm['terminal']

/** All of it, if that is nowhere in it. */
const splitAt = (text: string, at: number): [string, string] =>
  at === 0 ? [text, ''] : [text.slice(0, at), text.slice(at)]

const skipScrolledLines = (lines: string, terminal: XtermTerminal): string =>
  scrollsWholeScreen(terminal) ? skipScrolled(lines, SCROLLBACK_MAX + 2 * terminal.rows + 1) : lines

function skipOverpaintedCells(paint: string, terminal: XtermTerminal): string {
  if (isPlainLines(paint)) return skipScrolledLines(paint, terminal)
  const { insertMode, originMode } = terminal.modes
  const isPlain =
    scrollsWholeScreen(terminal) && !insertMode && !originMode && terminal.options.convertEol !== true
  return isPlain ? skipOverpainted(paint, terminal) : paint
}
