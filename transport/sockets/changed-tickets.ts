/**
 * `ChangedTickets` compares each list of eligible tickets with the one before, for sockets that are sent what changed.
 *
 * A ticket that nobody edited has the same values in both lists, which may be in another object.
 */
import type { TicketsChangedPush } from '../../protocol/dashboard.ts'
import type { Ticket } from '../../protocol/run.ts'

export class ChangedTickets {
  #known: ReadonlyMap<string, Ticket>

  constructor(tickets: readonly Ticket[]) {
    this.#known = byId(tickets)
  }

  /** Undefined when nothing changed. */
  compare(tickets: readonly Ticket[]): TicketsChangedPush | undefined {
    const before = this.#known
    const known = byId(tickets)
    this.#known = known
    const changed = tickets.filter((ticket) => !isSame(ticket, before.get(ticket.id)))
    const removed = [...before.keys()].filter((id) => !known.has(id))
    if (changed.length + removed.length === 0) return undefined
    return { type: 'tickets-changed', changed, removed }
  }
}

const isSame = (ticket: Ticket, before: Ticket | undefined): boolean =>
  before !== undefined &&
  (ticket === before ||
    ([...Object.keys(ticket), ...Object.keys(before)] as (keyof Ticket)[]).every(
      (key) => ticket[key] === before[key],
    ))

const byId = (tickets: readonly Ticket[]): Map<string, Ticket> =>
  new Map(tickets.map((ticket) => [ticket.id, ticket]))
