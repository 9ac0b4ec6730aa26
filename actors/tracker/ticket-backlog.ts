/**
 * TicketBacklog handles many tickets in slices, one in each turn of the event loop, so that a listing with thousands of
 * changes does not keep workers and people waiting.
 */
import type { Cancel, Clock } from '../../core/ports/clock.ts'

/** Creating so many runs takes 5 ms, and 20 ms in a host that has just started. */
export const TICKETS_PER_TURN = 25

export class TicketBacklog {
  readonly #clock: Pick<Clock, 'after'>
  readonly #handle: (ticketIds: readonly string[]) => void
  /** In the order in which they are handled. */
  #ids: readonly string[] = []
  #cancel: Cancel = () => {}
  #onEmpty: (() => void)[] = []
  #isStopped = false

  constructor(clock: Pick<Clock, 'after'>, handle: (ticketIds: readonly string[]) => void) {
    this.#clock = clock
    this.#handle = handle
  }

  get isEmpty(): boolean {
    return this.#ids.length === 0
  }

  /** Handles these tickets, from the next turn on, instead of those that are waiting. */
  replace(ticketIds: readonly string[]): void {
    if (this.#isStopped) return
    this.#cancel()
    this.#ids = ticketIds
    this.#scheduleNext()
  }

  /** Handles these tickets after those that are waiting. */
  add(ticketIds: readonly string[]): void {
    this.replace([...this.#ids, ...ticketIds])
  }

  whenEmpty(): Promise<void> {
    return this.isEmpty ? Promise.resolve() : new Promise((resolve) => this.#onEmpty.push(resolve))
  }

  /** Waiting tickets are never handled, and no more are taken. */
  stop(): void {
    this.#isStopped = true
    this.#cancel()
  }

  #scheduleNext(): void {
    if (this.#isStopped) return
    if (!this.isEmpty) {
      this.#cancel = this.#clock.after(0, () => this.#handleNext())
      return
    }
    const waiting = this.#onEmpty
    this.#onEmpty = []
    for (const resolve of waiting) resolve()
  }

  #handleNext(): void {
    const slice = this.#ids.slice(0, TICKETS_PER_TURN)
    this.#ids = this.#ids.slice(TICKETS_PER_TURN)
    try {
      this.#handle(slice)
    } finally {
      this.#scheduleNext()
    }
  }
}
