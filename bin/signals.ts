/**
 * Receives stop signals from the start of the process. A signal that arrives while the host is being built is kept until
 * there is something to stop. A repeated signal counts only after one second, because one Ctrl-C often arrives twice
 * (from the terminal, and from a process that forwards it).
 */
import type { Log } from '../core/ports.ts'
import { EXIT } from './exit.ts'

const REPEAT_AFTER_MS = 1_000

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
