/**
 * createProcessDriver runs `switchyard worker` as a child process, and stops it with SIGTERM, which drains it.
 *
 * The child's standard input is a pipe: when the supervisor dies, the worker finishes its runs and ends, so that the
 * next supervisor can start one. The child is a process group of its own, so Ctrl-C reaches the supervisor alone.
 */

import { type ChildProcess, spawn } from 'node:child_process'
import { isAbsolute } from 'node:path'
import { describeExit } from '../core/fleet/local-worker.ts'
import type { DriverResult, WorkerDriver } from '../core/fleet/supervision.ts'
import type { Clock } from '../core/ports/clock.ts'
import type { Log } from '../core/ports/log.ts'
import { toSingleLine, truncate } from '../core/safe-text.ts'
import { messageOf } from '../protocol/message-of.ts'
import { type ProgramEnvironment, programOnPath, startProgram } from './run-program.ts'

export interface ProcessDriverOptions {
  /** The command line of this program: node, its options, the script. */
  readonly program: readonly string[]
  /** The options of `switchyard worker`. */
  readonly args: readonly string[]
  readonly environment: Readonly<Record<string, string | undefined>>
}

/** Exit codes of a worker that ends again at every start, until a person changes something. */
const FINAL_CODES: ReadonlySet<number> = new Set([2, 65, 69, 76, 77, 78])

export function createProcessDriver(options: ProcessDriverOptions): WorkerDriver {
  return new WorkerProcessDriver(options)
}

class WorkerProcessDriver implements WorkerDriver {
  readonly ownsWorker = true
  onEnded: (result: DriverResult) => void = () => {}
  readonly #options: ProcessDriverOptions
  #child: ChildProcess | undefined
  #ended: Promise<void> = Promise.resolve()
  #isStopping = false

  constructor(options: ProcessDriverOptions) {
    this.#options = options
  }

  async start(): Promise<DriverResult> {
    if (this.#child !== undefined) return { is: 'done' }
    const { program, args, environment } = this.#options
    const [node = '', ...rest] = [...program, 'worker', ...args, '--drain-with-stdin']
    try {
      const child = spawn(node, rest, {
        stdio: ['pipe', 'inherit', 'inherit'],
        detached: true,
        env: workerEnvironment(environment),
      })
      await new Promise((resolve, reject) => child.once('spawn', resolve).once('error', reject))
      // Writing to a worker that has ended is expected.
      child.stdin?.on('error', () => {})
      this.#watch(child)
      return { is: 'done' }
    } catch (error) {
      return { is: 'failed', reason: messageOf(error) }
    }
  }

  async stop(): Promise<DriverResult> {
    this.#isStopping = true
    this.#child?.kill('SIGTERM')
    await this.#ended
    this.#isStopping = false
    return { is: 'done' }
  }

  stopNow(): void {
    this.#child?.kill('SIGTERM')
  }

  #watch(child: ChildProcess): void {
    this.#child = child
    this.#ended = new Promise((resolve) => {
      child.once('exit', (code, signal) => {
        this.#child = undefined
        if (!this.#isStopping) this.onEnded(resultOf(code, signal))
        resolve()
      })
    })
  }
}

function resultOf(code: number | null, signal: NodeJS.Signals | null): DriverResult {
  const reason = describeExit({
    ...(code === null ? {} : { code }),
    ...(signal === null ? {} : { signal }),
  })
  const isFinal = code !== null && FINAL_CODES.has(code)
  return { is: 'failed', reason: `the worker ended: ${reason}`, ...(isFinal ? { exitCode: code } : {}) }
}

// ---- the environment of a worker -----------------------------------------------------------------------------------

type Environment = Readonly<Record<string, string | undefined>>

/**
 * Variables that a worker does not inherit: this program's own settings, except the sandbox folder of this machine, and
 * all keys and tokens. A worker receives the credentials that it needs with each job.
 */
const REMOVED_VARIABLES = /^SWITCHYARD_(?!SANDBOX_DIR$)|_(TOKEN|API_?KEY|SECRET|PASSWORD)$/i

/** `workerEnvironment` selects the variables that a worker inherits from the program that starts it. */
export const workerEnvironment = (environment: Environment): Record<string, string | undefined> =>
  Object.fromEntries(Object.entries(environment).filter(([name]) => !REMOVED_VARIABLES.test(name)))

// ---- a driver that is a command ------------------------------------------------------------------------------------

interface CommandDriverOptions {
  /** Absent: something else starts the worker, such as the boot of its machine. */
  readonly startCommand?: readonly string[]
  readonly stopCommand: readonly string[]
  readonly msMax: number
  readonly folder: string
  readonly environment: ProgramEnvironment
  readonly clock: Pick<Clock, 'after'>
  readonly log: Log
}

const OUTPUT_CHARS_MAX = 300

/**
 * createCommandDriver starts and stops a worker by two commands of the operator, without a shell.
 *
 * A command that exits with 0 has done its work: after the stop the worker has ended, after the start it runs or will.
 * The time of each is limited. Its process group ends with it, so a command must not leave the worker behind as a child.
 */
export function createCommandDriver(options: CommandDriverOptions): WorkerDriver {
  const { startCommand, stopCommand } = options
  return {
    ownsWorker: false,
    start: async () => (startCommand === undefined ? { is: 'done' } : await runWords(options, startCommand)),
    stop: async () => await runWords(options, stopCommand),
  }
}

async function runWords(
  { msMax, folder, environment, clock, log }: CommandDriverOptions,
  words: readonly string[],
): Promise<DriverResult> {
  const [name = '', ...args] = words
  const program = isAbsolute(name) ? name : await programOnPath(name, environment.PATH)
  if (program === undefined) return { is: 'failed', reason: `${name} is not on the PATH` }
  const result = await startProgram({ program, args, folder, environment, msMax }, clock).ended
  if (result.is === 'late') return { is: 'failed', reason: `${name} took longer than ${msMax / 1_000} s` }
  if (result.is === 'unstartable')
    return { is: 'failed', reason: `${name} can't be started: ${result.reason}` }
  const output = truncate(toSingleLine(`${result.err} ${result.out}`).trim(), OUTPUT_CHARS_MAX)
  if (result.code === 0) {
    log.debug({ program, output }, 'the command has ended')
    return { is: 'done' }
  }
  const how = result.code === undefined ? 'was ended by a signal' : `ended with exit code ${result.code}`
  return { is: 'failed', reason: `${name} ${how}${output === '' ? '' : `: ${output}`}` }
}
