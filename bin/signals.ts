/**
 * Being asked to stop, from the first moment on: a signal that comes while the host is still being built is kept
 * until there is something to stop. Asking again is impatience only after a while, because one Ctrl-C often arrives
 * twice (from the terminal, and from whoever forwards it).
 */
import type { Log } from '../core/ports.ts'
import { EXIT } from './exit.ts'

const REPEAT_AFTER_MS = 1_000

export class StopSignals {
  readonly #log: Log
  #received: { readonly signal: NodeJS.Signals; readonly at: number } | undefined
  #stop: ((reason: string) => void) | undefined
  #stopNow: (() => void) | undefined

  constructor(log: Log) {
    this.#log = log
    for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const)
      process.on(signal, () => this.#onSignal(signal))
  }

  /**
   * From now on there is something to stop; at once, when it was asked for already. `hurry`: what impatience asks for
   * first, where stopping may take its time.
   */
  onStop(stop: (reason: string) => void, hurry?: () => void): void {
    this.#stop = stop
    this.#stopNow = hurry
    if (this.#received !== undefined) stop(`got ${this.#received.signal}`)
  }

  #onSignal(signal: NodeJS.Signals): void {
    const now = performance.now()
    if (this.#received === undefined) {
      this.#received = { signal, at: now }
      this.#log.info({ signal }, 'stopping')
      this.#stop?.(`got ${signal}`)
    } else if (now - this.#received.at > REPEAT_AFTER_MS) {
      this.#log.warn({ signal }, 'asked again to stop: stopping now')
      this.#received = { signal, at: now }
      this.#stopAtOnce()
    }
  }

  #stopAtOnce(): void {
    const hurry = this.#stopNow
    if (hurry === undefined) process.exit(EXIT.broken)
    this.#stopNow = undefined
    hurry()
  }
}
