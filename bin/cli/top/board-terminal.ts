/**
 * BoardTerminal holds the person's terminal while the board is drawn: raw keys, the alternate screen, no wrapping.
 *
 * `restore` gives all of it back, may be called again, and is called however the process ends. Only `kill -9` leaves no
 * time for that; then the command `reset` helps.
 */

import { type ChildProcess, spawn } from 'node:child_process'
import { constants } from 'node:os'
import type { ReadStream, WriteStream } from 'node:tty'
import type { ClientConnection } from '../../../client/connection.ts'
import type { Cancel, Clock } from '../../../core/ports/clock.ts'
import type { ClientOptions } from '../command/run-command.ts'

const ENTER = '\x1b[?1049h\x1b[?7l\x1b[?25l'
const LEAVE = '\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l'
/** A process that nothing may stop goes on after so long. */
const STOPPED_MS_MAX = 50

interface BoardTerminalOptions {
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

// ---- read keys -------------------------------------------------------------------------------------------------------

export type BoardKey =
  | 'up'
  | 'down'
  | 'enter'
  | 'escape'
  | 'interrupt'
  | 'suspend'
  /** A letter or a sign; other keys have no name. */
  | { readonly letter: string }

const NAMES: Readonly<Record<string, BoardKey>> = {
  '\x1b[A': 'up',
  '\x1bOA': 'up',
  '\x1b[B': 'down',
  '\x1bOB': 'down',
  '\r': 'enter',
  '\n': 'enter',
  '\x1b': 'escape',
  '\x03': 'interrupt',
  '\x1a': 'suspend',
}

/** A sequence of the terminal with its parameters, or one character. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: keys are control characters
const KEY = /\x1b\[[0-9;:?<=>]*[ -/]*[@-~]|\x1bO[ -~]|\x1b|./gsu

/** Turns what a terminal sends into names of keys. */
export function readKeys(text: string): BoardKey[] {
  return [...text.matchAll(KEY)].flatMap(([key]): BoardKey[] => {
    const name = NAMES[key]
    if (name !== undefined) return [name]
    return /^[ -~]$/.test(key) ? [{ letter: key }] : []
  })
}

// ---- frame timer -----------------------------------------------------------------------------------------------------

const FRAME_MS_MIN = 250
const SECOND_MS = 1_000

/** Draws at most four frames a second, however often somebody asks, and once for each second of the clock. */
export class FrameTimer {
  readonly #draw: () => void
  readonly #clock: Pick<Clock, 'now' | 'monotonic' | 'after'>
  #drawnAt = Number.NEGATIVE_INFINITY
  #cancelFrame: Cancel | undefined
  #cancelTick: Cancel | undefined

  constructor(draw: () => void, clock: Pick<Clock, 'now' | 'monotonic' | 'after'>) {
    this.#draw = draw
    this.#clock = clock
  }

  start(): void {
    if (this.#cancelTick === undefined) this.#tick()
  }

  /** Draws now, or as soon as the last frame is old enough. */
  request(): void {
    // Drawing begins with `start`.
    if (this.#cancelFrame !== undefined || this.#cancelTick === undefined) return
    const wait = this.#drawnAt + FRAME_MS_MIN - this.#clock.monotonic()
    if (wait <= 0) this.#drawNow()
    else this.#cancelFrame = this.#clock.after(wait, () => this.#drawNow())
  }

  stop(): void {
    this.#cancelFrame?.()
    this.#cancelFrame = undefined
    this.#cancelTick?.()
    this.#cancelTick = undefined
  }

  #drawNow(): void {
    this.#cancelFrame = undefined
    this.#drawnAt = this.#clock.monotonic()
    this.#draw()
  }

  #tick(): void {
    const rest = SECOND_MS - (this.#clock.now() % SECOND_MS)
    this.#cancelTick = this.#clock.after(rest, () => this.#tick())
    this.request()
  }
}

// ---- foreground command ----------------------------------------------------------------------------------------------

export interface ForegroundCommand {
  readonly child: ChildProcess
  /** The exit code; a signal counts as in shells. */
  readonly exit: Promise<number>
}

/** Shells add the number of the signal. */
const SIGNAL_EXIT_CODE_BASE = 128

/** @param words the command and its arguments */
export async function startForegroundCommand(
  connection: ClientConnection,
  { dataDir, color }: Pick<ClientOptions, 'dataDir' | 'color'>,
  words: readonly string[],
): Promise<ForegroundCommand> {
  const hasColor = words[0] !== 'attach' && color !== undefined
  const options = [
    ...(dataDir === undefined ? [] : ['--data-dir', dataDir]),
    ...(hasColor ? ['--color', color] : []),
  ]
  const args = [...process.execArgv, process.argv[1] ?? '', ...words, ...options]
  const env = { ...process.env, ...(await addressIn(connection)) }
  const child = spawn(process.execPath, args, { stdio: 'inherit', env })
  const exit = new Promise<number>((resolve, reject) => {
    child.on('error', reject)
    child.on('exit', (code, signal) =>
      resolve(code ?? SIGNAL_EXIT_CODE_BASE + constants.signals[signal ?? 'SIGTERM']),
    )
  })
  return { child, exit }
}

/** The token that this process has taken out of its environment; the other command takes it out of its own, too. */
async function addressIn(connection: ClientConnection): Promise<NodeJS.ProcessEnv> {
  const at = await Promise.resolve(connection.address()).catch(() => undefined)
  // A file with the token is named by a variable, which the other command inherits.
  if (at?.tokenFrom !== 'SWITCHYARD_TOKEN' || at.token === undefined) return {}
  return { SWITCHYARD_URL: at.url, SWITCHYARD_TOKEN: at.token }
}
