/**
 * BoardTerminal holds the person's terminal while the board is drawn: raw keys, the alternate screen, no wrapping.
 *
 * `restore` gives all of it back, may be called again, and is called however the process ends. Only `kill -9` leaves no
 * time for that; then the command `reset` helps.
 */
import type { ReadStream, WriteStream } from 'node:tty'

const ENTER = '\x1b[?1049h\x1b[?7l\x1b[?25l'
const LEAVE = '\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l'
/** A process that nothing may stop goes on after so long. */
const STOPPED_MS_MAX = 50

export interface BoardTerminalOptions {
  readonly input: ReadStream
  readonly output: WriteStream
  readonly onKeys: (text: string) => void
  /** The terminal is taken over again after the process was stopped: draw everything. */
  readonly onContinue: () => void
  /** The terminal is gone. */
  readonly onGone: () => void
}

export class BoardTerminal {
  readonly #options: BoardTerminalOptions
  #hasBoard = false
  #isRaw = false
  /** Another program has the terminal. */
  #isLent = false
  #isClosed = false
  readonly #onStop = () => this.suspend(process.pid)
  readonly #onContinued = () => this.#afterContinued()
  readonly #onExit = () => this.restore()

  constructor(options: BoardTerminalOptions) {
    this.#options = options
    options.input.on('data', (bytes: Buffer) => {
      if (this.#isRaw) options.onKeys(bytes.toString())
    })
    options.input.on('close', options.onGone)
    options.input.pause()
    process.on('exit', this.#onExit)
    process.on('SIGTSTP', this.#onStop)
    process.on('SIGCONT', this.#onContinued)
  }

  close(): void {
    this.#isClosed = true
    this.restore()
    process.off('SIGTSTP', this.#onStop)
    process.off('SIGCONT', this.#onContinued)
  }

  /** Keys, and the screen of the board. */
  takeOver(): void {
    this.takeKeys()
    if (!this.#hasBoard) this.#options.output.write(ENTER)
    this.#hasBoard = true
  }

  /** Keys alone: what another program has printed stays visible. */
  takeKeys(): void {
    this.#isLent = false
    this.#options.input.setRawMode(true)
    this.#isRaw = true
    this.#options.input.resume()
  }

  /** Gives the terminal to another program. */
  lend(): void {
    this.restore()
    this.#isLent = true
  }

  /** Draws on the screen of the board: nothing while the shell or another program has the terminal. */
  draw(text: string): void {
    if (this.#hasBoard) this.write(text)
  }

  write(text: string): void {
    if (text !== '') this.#options.output.write(text)
  }

  restore(): void {
    if (this.#hasBoard) this.#options.output.write(LEAVE)
    this.#hasBoard = false
    if (this.#isRaw) this.#options.input.setRawMode(false)
    this.#isRaw = false
    // A flowing input would take the other program's keys, and keep this process alive.
    this.#options.input.pause()
  }

  /** Stops this process (0: its whole group, as Ctrl-Z does) until the shell continues it. */
  suspend(target: number): void {
    const [hadBoard, isLent] = [this.#hasBoard, this.#isLent]
    this.restore()
    // Without a listener the signal does what it does to every program: nothing where no shell could continue it.
    process.off('SIGTSTP', this.#onStop)
    process.kill(target, 'SIGTSTP')
    setTimeout(() => {
      if (this.#isClosed) return
      process.on('SIGTSTP', this.#onStop)
      if (!isLent) this.#retake(hadBoard)
    }, STOPPED_MS_MAX)
  }

  /** The shell has changed the terminal, also when a signal stopped this process that it could not see. */
  #afterContinued(): void {
    if (!this.#isRaw) return
    const hadBoard = this.#hasBoard
    this.#hasBoard = false
    this.#options.input.setRawMode(false)
    this.#retake(hadBoard)
  }

  #retake(hadBoard: boolean): void {
    if (hadBoard) this.takeOver()
    else this.takeKeys()
    this.#options.onContinue()
  }
}
