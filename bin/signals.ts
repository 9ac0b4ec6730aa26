/**
 * Being asked to stop, from the first moment on: a signal that comes while the host is still being built is kept
 * until there is something to stop. Asking again is impatience only after a while, because one Ctrl-C often arrives
 * twice (from the terminal, and from whoever forwards it).
 */
import type { Log } from '../core/ports.ts'
import { EXIT } from './exit.ts'

const IMPATIENT_AFTER_MS = 1_000

export class StopSignals {
  readonly #log: Log
  #asked: { readonly signal: NodeJS.Signals; readonly at: number } | undefined
  #stop: ((reason: string) => void) | undefined
  #hurry: (() => void) | undefined

  constructor(log: Log) {
    this.#log = log
    for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const)
      process.on(signal, () => this.#heard(signal))
  }

  /**
   * From now on there is something to stop; at once, when it was asked for already. `hurry`: what impatience asks for
   * first, where stopping may take its time.
   */
  handTo(stop: (reason: string) => void, hurry?: () => void): void {
    this.#stop = stop
    this.#hurry = hurry
    if (this.#asked !== undefined) stop(`got ${this.#asked.signal}`)
  }

  #heard(signal: NodeJS.Signals): void {
    const now = performance.now()
    if (this.#asked === undefined) {
      this.#asked = { signal, at: now }
      this.#log.info({ signal }, 'stopping')
      this.#stop?.(`got ${signal}`)
    } else if (now - this.#asked.at > IMPATIENT_AFTER_MS) {
      this.#log.warn({ signal }, 'asked again to stop: stopping now')
      this.#asked = { signal, at: now }
      this.#hurryUp()
    }
  }

  #hurryUp(): void {
    const hurry = this.#hurry
    if (hurry === undefined) process.exit(EXIT.broken)
    this.#hurry = undefined
    hurry()
  }
}
