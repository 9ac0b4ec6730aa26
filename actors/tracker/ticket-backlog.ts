/**
 * TicketBacklog judges many tickets in slices, one in each turn of the event loop, so that a first listing of thousands
 * does not keep workers and people waiting.
 */
import type { Cancel, Clock } from '../../core/ports.ts'

export interface TicketBacklogPorts {
  readonly clock: Pick<Clock, 'after'>
  readonly judge: (ticketIds: readonly string[]) => void
}

/** Creating a run for each of these takes five milliseconds, and twenty in a host that has just started. */
export const TICKETS_JUDGED_PER_TURN = 25

export class TicketBacklog {
  readonly #ports: TicketBacklogPorts
  /** In the order in which they are judged. */
  #ids: readonly string[] = []
  #cancel: Cancel = () => {}
  #onEmpty: (() => void)[] = []

  constructor(ports: TicketBacklogPorts) {
    this.#ports = ports
  }

  get isEmpty(): boolean {
    return this.#ids.length === 0
  }

  /** Judges these tickets, from the next turn on, instead of those that are waiting. */
  replace(ticketIds: readonly string[]): void {
    this.#cancel()
    this.#ids = ticketIds
    this.#scheduleNext()
  }

  whenEmpty(): Promise<void> {
    return this.isEmpty ? Promise.resolve() : new Promise((resolve) => this.#onEmpty.push(resolve))
  }

  stop(): void {
    this.#cancel()
  }

  #scheduleNext(): void {
    if (!this.isEmpty) {
      this.#cancel = this.#ports.clock.after(0, () => this.#judgeNext())
      return
    }
    const waiting = this.#onEmpty
    this.#onEmpty = []
    for (const resolve of waiting) resolve()
  }

  #judgeNext(): void {
    const slice = this.#ids.slice(0, TICKETS_JUDGED_PER_TURN)
    this.#ids = this.#ids.slice(TICKETS_JUDGED_PER_TURN)
    this.#ports.judge(slice)
    this.#scheduleNext()
  }
}
