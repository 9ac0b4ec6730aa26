/**
 * Sends every push to all listeners, which the dashboard sockets are. A listener that throws does not keep the others
 * from receiving the push.
 */
import type { Cancel, Log } from '../../core/ports.ts'
import type { DashboardPush } from '../../protocol/dashboard.ts'
import { BUG_MESSAGES } from '../runtime/bug-messages.ts'

export class DashboardBroadcast {
  readonly #log: Log
  readonly #listeners = new Set<(push: DashboardPush, text?: string) => void>()

  constructor(log: Log) {
    this.#log = log
  }

  listen(listener: (push: DashboardPush, text?: string) => void): Cancel {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  /** Whether there is any use in making a push. */
  get hasListeners(): boolean {
    return this.#listeners.size > 0
  }

  /** `text`: the push as JSON, when it is at hand. */
  send(push: DashboardPush, text?: string): void {
    for (const listener of this.#listeners) {
      try {
        listener(push, text)
      } catch (error) {
        this.#log.error({ err: error, push: push.type }, BUG_MESSAGES.pushFailed)
      }
    }
  }
}
