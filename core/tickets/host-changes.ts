/**
 * HostChanges remembers what the host itself has changed in the tracker, while a listing may not show it.
 *
 * A listing may lack every move that was answered, and every ticket that was created, since its poll began. Besides, some
 * trackers show a move late. Without this memory a ticket listed where it was would count as moved by somebody else.
 */
import type { Ticket } from '../../protocol/run.ts'
import type { TrackedTicket } from '../ports/tracker.ts'
import { isSameName } from './names.ts'

/** How long a tracker may still show a ticket's old state after a move. */
export const TICKET_MOVE_VISIBLE_MS_MAX = 120_000

export class HostChanges {
  /** Changes since the newest poll began. */
  #sincePoll = { moved: new Set<string>(), created: new Map<string, TrackedTicket>() }
  /** Changes since the poll of the current listing began, which stays in use while the next poll is under way. */
  #sinceListing = this.#sincePoll
  /** By ticket: the states that the host moved it out of, and until when the tracker may still show one of them. */
  readonly #statesLeft = new Map<string, { readonly states: readonly string[]; readonly until: number }>()

  beginPoll(): void {
    this.#sincePoll = { moved: new Set(), created: new Map() }
  }

  /** The newest poll brought these tickets. Returns them, with those that were created meanwhile. */
  completeListing(tickets: readonly TrackedTicket[]): readonly TrackedTicket[] {
    this.#sinceListing = this.#sincePoll
    const listed = new Set(this.#sincePoll.created.size === 0 ? [] : tickets.map(({ ticket }) => ticket.id))
    const missing = [...this.#sincePoll.created.values()].filter(({ ticket }) => !listed.has(ticket.id))
    return missing.length === 0 ? tickets : [...missing, ...tickets]
  }

  addCreated(tracked: TrackedTicket): void {
    this.#sincePoll.created.set(tracked.ticket.id, tracked)
  }

  /** Another tracker knows nothing of the tickets that were created in the earlier one. */
  forgetCreated(): void {
    this.#sincePoll.created.clear()
  }

  /** The tracker has made or refused a move of this ticket. */
  addAnswered(ticketId: string): void {
    this.#sincePoll.moved.add(ticketId)
    this.#sinceListing.moved.add(ticketId)
  }

  /**
   * The tracker has moved the ticket.
   *
   * @param left the states that it has left: when two moves follow each other quickly, the first may not show yet either
   */
  addMove(ticketId: string, left: readonly string[], state: string, now: number): void {
    for (const [id, { until }] of this.#statesLeft) if (until <= now) this.#statesLeft.delete(id)
    const all = new Set([...(this.#statesLeft.get(ticketId)?.states ?? []), ...left])
    const states = [...all].filter((name) => !isSameName(name, state))
    this.#statesLeft.set(ticketId, { states, until: now + TICKET_MOVE_VISIBLE_MS_MAX })
  }

  /** Whether the ticket was moved recently: its listed state may be outdated. */
  isRecent(ticketId: string): boolean {
    return this.#sinceListing.moved.has(ticketId) || this.#statesLeft.has(ticketId)
  }

  /** Whether the ticket's listed state may be older than a move. A state that it has not left ends the doubt. */
  isOutdated({ id, state }: Ticket, now: number): boolean {
    if (this.#sinceListing.moved.has(id)) return true
    const left = this.#statesLeft.get(id)
    if (left === undefined) return false
    if (now < left.until && left.states.some((name) => isSameName(name, state))) return true
    this.#statesLeft.delete(id)
    return false
  }
}
