/**
 * The person's own terminal, lent to a session and given back as it was, whatever happens.
 *
 * While it is lent, no key means anything to this machine: each goes to the session as it is. Whoever ends this process
 * (the person, a signal, a bug, the line), it is given back: its line discipline, and all that a program in the session
 * may have switched on, like mouse reports or another screen. Only `kill -9` leaves no time for it; then `reset` helps.
 */
import { spawnSync } from 'node:child_process'
import type { ReadStream, WriteStream } from 'node:tty'
import { TERMINAL_COLUMNS_MAX, TERMINAL_ROWS_MAX } from '../../protocol/limits.ts'
import type { WindowSize } from './input-sender.ts'

/**
 * Back to what a shell expects. The other screen is left with the cursor's place kept first, for where there was none
 * in use some terminals move the cursor all the same.
 */
const RESET_SEQUENCE = [
  '\x1b[?2026l', //     what is drawn shows at once
  '\x1b7\x1b[?1049l', // the ordinary screen
  '\x1b[?9l\x1b[?1000l\x1b[?1001l\x1b[?1002l\x1b[?1003l\x1b[?1005l\x1b[?1006l\x1b[?1015l\x1b[?1016l', // no mouse
  '\x1b[?1004l\x1b[?2004l\x1b[?2031l', // no reports of focus, pastes and colours
  '\x1b[=0u\x1b[>4;0m', // no other keyboard protocol
  '\x1b[?1l\x1b>', //   ordinary cursor keys and keypad
  '\x1b[?5l\x1b[?6l\x1b[?69l\x1b[r\x1b[?7h\x1b[4l\x1b[20l', // no margins; wrap, don't insert
  '\x1b]8;;\x1b\\\x1b(B\x1b)B\x0f\x1b[0m', // no link, plain letters and colours
  '\x1b[?25h\x1b[0 q', // a cursor
].join('')
/** On a line of its own below everything that is there. */
const CURSOR_BELOW = `\x1b[${TERMINAL_ROWS_MAX};1H\r\n`
const SAVE_TITLE = '\x1b[22;2t'
const RESTORE_TITLE = '\x1b[23;2t'
const STTY_MS_MAX = 1_000

export interface TerminalStreams {
  readonly input: ReadStream
  readonly output: WriteStream
}

export class LocalTerminal {
  readonly #streams: TerminalStreams
  #isTakenOver = false
  /** Something of the session was shown. */
  #hasOutput = false

  constructor(streams: TerminalStreams) {
    this.#streams = streams
    process.on('exit', () => this.restore())
  }

  /**
   * `title`: shown at the window's top meanwhile, where the terminal has one. Once more is right when this process was
   * stopped: its shell has set the terminal to its own liking since.
   */
  takeOver(title: string): void {
    const { input, output } = this.#streams
    if (this.#isTakenOver) input.setRawMode(false)
    else output.write(SAVE_TITLE)
    this.#isTakenOver = true
    this.#setRaw()
    output.write(`\x1b]2;${title}\x1b\\`)
  }

  draw(text: string): void {
    this.#hasOutput = true
    this.#streams.output.write(text)
  }

  /** A line of ours between what a session drew and what it will draw anew. */
  note(text: string): void {
    this.resetModes()
    this.#streams.output.write(`\x1b[2m${text}\x1b[0m\r\n`)
  }

  /** All that a program in the session may have switched on is off, and keys still mean nothing here. */
  resetModes(): void {
    if (this.#hasOutput) this.#streams.output.write(RESET_SEQUENCE + CURSOR_BELOW)
    this.#hasOutput = false
  }

  /** Twice is once. It may be gone already; that is no reason to fail. */
  restore(): void {
    if (!this.#isTakenOver) return
    this.#isTakenOver = false
    this.resetModes()
    this.#streams.output.write(RESTORE_TITLE)
    this.#streams.input.setRawMode(false)
  }

  size(): WindowSize {
    return windowSizeOf(this.#streams.output)
  }

  /**
   * Node leaves it to the system to begin each new line at its left edge. A session's own terminal has done that
   * already where it was wanted, and a program that moves straight down by one must not end up at the left.
   */
  #setRaw(): void {
    this.#streams.input.setRawMode(true)
    spawnSync('stty', ['-opost'], { stdio: ['inherit', 'ignore', 'ignore'], timeout: STTY_MS_MAX })
  }
}

/** What is no terminal is taken for an ordinary one. */
export function windowSizeOf({
  columns,
  rows,
}: {
  readonly columns?: number
  readonly rows?: number
}): WindowSize {
  return {
    cols: limited(columns, TERMINAL_COLUMNS_MAX) ?? 80,
    rows: limited(rows, TERMINAL_ROWS_MAX) ?? 24,
  }
}

/** A terminal that does not know its size says 0. */
const limited = (count: number | undefined, most: number): number | undefined =>
  count !== undefined && count >= 1 ? Math.min(count, most) : undefined
