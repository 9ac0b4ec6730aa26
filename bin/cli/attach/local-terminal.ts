/**
 * Takes over the person's terminal for a session, and restores it whatever happens.
 *
 * While it is taken over, every key goes to the session unchanged. However this process ends (the person, a signal, a
 * bug, a lost connection), the line discipline and the modes that the session's programs switched on (mouse reports,
 * the alternate screen) are restored. Only `kill -9` leaves no time for that; then the command `reset` helps.
 */
import { spawnSync } from 'node:child_process'
import type { ReadStream, WriteStream } from 'node:tty'
import type { WindowSize } from '../../../client/input-sender.ts'
import { TERMINAL_COLUMNS_MAX, TERMINAL_ROWS_MAX } from '../../../protocol/limits.ts'
import { EXIT, EXIT_OF_SIGNAL } from '../../process/exit.ts'
import { LogRedactor } from '../../process/log-redaction.ts'

/**
 * Restores the modes that a shell expects. The cursor is saved before leaving the alternate screen, because some
 * terminals move it even when that screen was not in use.
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
/** Moves to a new line below everything on the screen. */
const CURSOR_BELOW = `\x1b[${TERMINAL_ROWS_MAX};1H\r\n`
const SAVE_TITLE = '\x1b[22;2t'
const RESTORE_TITLE = '\x1b[23;2t'
const STTY_MS_MAX = 1_000

interface TerminalStreams {
  readonly input: ReadStream
  readonly output: WriteStream
}

export class LocalTerminal {
  readonly #streams: TerminalStreams
  #isTakenOver = false
  /** The session has drawn something. */
  #hasOutput = false

  constructor(streams: TerminalStreams) {
    this.#streams = streams
    process.on('exit', () => this.restore())
  }

  /**
   * Calling it again is right after this process was suspended, because the shell has changed the terminal meanwhile.
   *
   * @param title the window title meanwhile
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

  /** Prints a message of this program between the session's old and new output. */
  note(text: string): void {
    this.resetModes()
    this.#streams.output.write(`\x1b[2m${text}\x1b[0m\r\n`)
  }

  /** Resets the modes that the session's programs may have switched on; keys still go to the session. */
  resetModes(): void {
    if (this.#hasOutput) this.#streams.output.write(RESET_SEQUENCE + CURSOR_BELOW)
    this.#hasOutput = false
  }

  /** Restores the terminal; calling it again does nothing. */
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
   * Node's raw mode keeps the translation of line feed to carriage return and line feed. The session's own terminal
   * has translated already, and a program that moves straight down must not end up at the left edge.
   */
  #setRaw(): void {
    this.#streams.input.setRawMode(true)
    spawnSync('stty', ['-opost'], { stdio: ['inherit', 'ignore', 'ignore'], timeout: STTY_MS_MAX })
  }
}

/** The window size; 80 × 24 for an output that is no terminal. */
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

/** A terminal that does not know its size reports 0. */
const limited = (count: number | undefined, most: number): number | undefined =>
  count !== undefined && count >= 1 ? Math.min(count, most) : undefined

// ---- signals and bugs ----------------------------------------------------------------------------------------------

/** The signals that a terminal sends for keys, to every program in the foreground. */
const KEY_SIGNALS: readonly string[] = ['SIGINT', 'SIGQUIT']

/**
 * Restores the terminal when the process is suspended; takes it over again and calls the listeners when it continues.
 */
export function handleSuspension(
  terminal: LocalTerminal,
  title: string,
  listeners: Iterable<() => void>,
): void {
  process.on('SIGTSTP', () => {
    terminal.restore()
    process.kill(process.pid, 'SIGSTOP')
  })
  process.on('SIGCONT', () => {
    terminal.takeOver(title)
    for (const listener of [...listeners]) listener()
  })
}

/**
 * Calls `restore` before this process ends because of a signal or a bug.
 *
 * @param isForChild a child in the foreground handles the keys of the terminal, and this process goes on
 */
export function handleProcessEnd(restore: () => void, isForChild: () => boolean = () => false): void {
  for (const [signal, code] of Object.entries(EXIT_OF_SIGNAL))
    process.on(signal, () => {
      if (KEY_SIGNALS.includes(signal) && isForChild()) return
      restore()
      process.exit(code)
    })
  const die = (error: unknown) => {
    restore()
    const text = error instanceof Error ? (error.stack ?? error.message) : String(error)
    process.stderr.write(`switchyard: ${new LogRedactor().redact(text)}\n`)
    process.exit(EXIT.broken)
  }
  process.on('uncaughtException', die)
  process.on('unhandledRejection', die)
  // Ignore write errors of a terminal that is gone.
  for (const stream of [process.stdin, process.stdout, process.stderr]) stream.on('error', () => {})
}
