/** How this process ends: by a stop signal, with its parent, with an exit code and a reason, or by a bug. */
import type { Log } from '../../core/ports/log.ts'
import { EXIT } from './exit.ts'

const REPEAT_AFTER_MS = 1_000

/**
 * Receives stop signals from the start of the process. A signal that arrives while the host is being built is kept
 * until there is something to stop. A repeated signal counts only after one second, because one Ctrl-C often arrives
 * twice (from the terminal, and from a process that forwards it).
 */
export class StopSignals {
  readonly #log: Log
  readonly #onFirst: () => void
  #received: { readonly signal: NodeJS.Signals; readonly at: number } | undefined
  #stop: ((reason: string) => void) | undefined
  #stopNow: (() => void) | undefined

  /** @param onFirst called as soon as the first signal arrives */
  constructor(log: Log, onFirst: () => void = () => {}) {
    this.#log = log
    this.#onFirst = onFirst
    for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const)
      process.on(signal, () => this.#onSignal(signal))
  }

  /**
   * Sets the function that stops the process; it is called at once when a signal has arrived already.
   *
   * @param stopNow called on a repeated signal, when stopping may take long; without it a repeated signal exits
   */
  onStop(stop: (reason: string) => void, stopNow?: () => void): void {
    this.#stop = stop
    this.#stopNow = stopNow
    if (this.#received !== undefined) stop(`got ${this.#received.signal}`)
  }

  #onSignal(signal: NodeJS.Signals): void {
    const now = performance.now()
    if (this.#received === undefined) {
      this.#received = { signal, at: now }
      this.#log.info({ signal }, 'stopping')
      this.#onFirst()
      this.#stop?.(`got ${signal}`)
    } else if (now - this.#received.at > REPEAT_AFTER_MS) {
      this.#log.warn({ signal }, 'repeated stop signal: stopping immediately')
      this.#received = { signal, at: now }
      this.#stopAtOnce()
    }
  }

  #stopAtOnce(): void {
    const stopNow = this.#stopNow
    if (stopNow === undefined) process.exit(EXIT.broken)
    this.#stopNow = undefined
    stopNow()
  }
}

/** Calls `end` when standard input is closed, that is when the parent process has ended. */
export function onStdinClosed(end: () => void): void {
  process.stdin.on('error', () => {})
  process.stdin.once('close', end)
  process.stdin.resume()
}

/** Says why the process ends, to the log and, after a failure, on standard error too. */
export function endProcess(log: Log, exitCode: number, reason: string, details: object = {}): never {
  if (exitCode === EXIT.done) log.info({ reason }, 'stopped')
  else {
    log.error({ exitCode, ...details, reason }, 'stopped')
    process.stderr.write(`switchyard: ${reason}\n`)
  }
  process.exit(exitCode)
}

/**
 * Ends the process on an unexpected error. The data on disk is consistent at any time, so a restart is the safest
 * recovery.
 */
export function installCrashHandler(log: Log): void {
  const die = (error: unknown) => {
    log.error(
      { err: error },
      'unexpected error; the process ends, and recovers from disk when it is restarted',
    )
    process.exit(EXIT.broken)
  }
  process.on('uncaughtException', die)
  process.on('unhandledRejection', die)
  // A closed reader of our output is no reason to end.
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {})
}
