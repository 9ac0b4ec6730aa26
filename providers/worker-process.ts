/**
 * createProcessDriver runs `switchyard worker` as a child process, and stops it with SIGTERM, which drains it.
 *
 * The child's standard input is a pipe: when the supervisor dies, the worker finishes its runs and ends, so that the
 * next supervisor can start one. The child is a process group of its own, so Ctrl-C reaches the supervisor alone.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { isNativeError } from 'node:util/types'
import { describeExit } from '../core/fleet/local-worker-exit.ts'
import type { DriverResult, WorkerDriver } from '../core/fleet/supervision-ports.ts'
import { workerEnvironment } from './worker-environment.ts'

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
      return { is: 'failed', reason: isNativeError(error) ? error.message : String(error) }
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
