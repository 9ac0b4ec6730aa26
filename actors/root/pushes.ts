/**
 * Whoever wants to hear what the dashboards hear. One that throws keeps nobody else from hearing it.
 */
import type { Cancel, Log } from '../../core/ports.ts'
import type { DashboardPush } from '../../protocol/dashboard.ts'

export class Pushes {
  readonly #log: Log
  readonly #listeners = new Set<(push: DashboardPush) => void>()

  constructor(log: Log) {
    this.#log = log
  }

  listen(listener: (push: DashboardPush) => void): Cancel {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  send(push: DashboardPush): void {
    for (const listener of this.#listeners) {
      try {
        listener(push)
      } catch (error) {
        this.#log.error({ err: error, push: push.type }, 'a push could not be delivered')
      }
    }
  }
}
