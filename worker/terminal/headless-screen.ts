/**
 * The headless terminal of a session: it tracks what a view would show, and answers the session's terminal queries.
 *
 * Output is parsed in small portions between the other work of this process. In a flood, output that can never be
 * visible is skipped. The scrollback and the combining marks per character are bounded.
 */
import type { CreateScreen, Screen, TerminalSize } from '../../core/daemon/terminal.ts'
import { HardenedXterm, SCROLLBACK_MAX } from './hardened-xterm.ts'
import { isBetweenSequences, scrollsWholeScreen, serializeScreen } from './serialize-screen.ts'
import {
  FLOOD_CHARS_MIN,
  isPlainLines,
  paintEnd,
  paintStart,
  plainLinesEnd,
  plainLinesStart,
  skipOverpainted,
  skipScrolled,
} from './skip-overpainted.ts'

/** In a flood, output is collected this long, because more can be skipped of a long part. */
const FLOOD_WAIT_MS = 100
/** This much output within FLOOD_WAIT_MS counts as a flood, even if the parser keeps up. */
const FLOOD_RATE_CHARS = 256 * 1024
/** Collected output is examined from this size on; larger texts would survive into the old generation of the heap. */
const EXAMINED_CHARS = 768 * 1024
/** When no more than this may be visible, it waits for further output, which most likely hides it too. */
const VISIBLE_REST_CHARS_MAX = 512 * 1024
/** Otherwise output is collected up to this size. */
const FLOOD_BATCH_CHARS = 3 * 1024 * 1024
/** The first code point that may be a combining mark. */
const FIRST_MARK = /[\u0300-\uffff]/
const TOO_MANY_MARKS = /(?:\p{M}|[\u200b-\u200f]){16,}/gu

export const makeScreen: CreateScreen = (size, answer) => new HeadlessScreen(size, answer)

class HeadlessScreen implements Screen {
  readonly #emulator: HardenedXterm
  #pending = ''
  /** The size at which collected output of a flood is processed. */
  #batchChars = EXAMINED_CHARS
  /** Total number of characters ever printed. */
  #printedChars = 0
  /** The pending promises of `write`, each with the total count up to which it waits. */
  #waiters: { readonly chars: number; readonly resolve: () => void }[] = []
  #isWriting = false
  #isCollecting = false
  #isClosed = false
  /** Start of the current rate measurement, and the total printed by then. */
  #rateStart = { at: 0, chars: 0 }
  /** A size to apply after the current write. */
  #requestedSize: TerminalSize | undefined
  /** Skipping to the next escape sequence was tried once, without success. */
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

  /** Replaces the pending output by its visible end, and resolves the promises of the skipped output. */
  #keepRest(end: string): void {
    this.#pending = end
    this.#batchChars = EXAMINED_CHARS
    const from = this.#printedChars - end.length
    const { length } = this.#waiters.filter(({ chars }) => chars <= from)
    for (const { resolve } of this.#waiters.splice(0, length)) resolve()
  }

  /**
   * Collects output while the flood continues. When it stops, pending output is written after at most FLOOD_WAIT_MS.
   */
  #collect(): void {
    const before = this.#printedChars
    this.#isCollecting = true
    setTimeout(() => {
      this.#isCollecting = false
      if (!this.#isClosed && this.#printedChars - before >= FLOOD_CHARS_MIN) this.#collect()
      else this.#writeNext()
    }, FLOOD_WAIT_MS)
  }

  /** Writes all output that arrived during the last write together. */
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

  /**
   * Splits the pending output into the part to write now and the part to examine again afterwards: only after the first
   * is parsed, the state is known from which the rest starts.
   */
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

  /** Inside an escape sequence, first write up to the next one, where the current one has usually ended. */
  #toNextSequence(pending: string): [first: string, rest: string] {
    const next = this.#hasSkippedSequence ? 0 : Math.max(0, pending.indexOf('\x1b', 1))
    this.#hasSkippedSequence = !this.#hasSkippedSequence
    return splitAt(pending, next)
  }

  /** Output printed before the resize is parsed first, because skipping was decided for the old size. */
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

/**
 * The emulator keeps a character with all its marks, so a million marks would stay in memory and every serialization.
 */
function limitMarks(data: string): string {
  return FIRST_MARK.test(data) ? data.replace(TOO_MANY_MARKS, '') : data
}

type XtermTerminal = HardenedXterm['terminal']

/** Position 0 means not found: the whole text becomes the first part. */
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
