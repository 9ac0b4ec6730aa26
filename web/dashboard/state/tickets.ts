/**
 * The eligible tickets that some page has asked for, and those that were pushed since: kept up to date by pushes from the
 * first question on.
 *
 * A push that arrives while an answer is on its way is newer than the answer.
 */
import { signal } from '@preact/signals'
import type { ChangesFrame } from '../../../protocol/dashboard.ts'
import type { Ticket } from '../../../protocol/run.ts'
import { watchFrames } from './live.ts'
import { hellos } from './records.ts'

export type Tickets = ReadonlyMap<string, Ticket>

/** By id. */
export const tickets = signal<Tickets>(new Map())
/** How many times eligible tickets have changed. */
export const ticketChanges = signal(0)

let isFollowed = false
/** The connection whose pushes have kept the tickets up to date. */
let followedSince = 0

/** Call it before the question. */
export function followTickets(): Tickets {
  if (!isFollowed) watchFrames(applyChange)
  isFollowed = true
  return tickets.peek()
}

/**
 * Adds tickets that a request has read.
 *
 * @param before the tickets when the request began
 */
export function addTickets(read: readonly Ticket[], before: Tickets): void {
  const now = tickets.peek()
  const isPushed = (id: string): boolean => now.get(id) !== before.get(id)
  // The tickets of an earlier connection may have changed since.
  const isSame = followedSince === hellos.peek()
  followedSince = hellos.peek()
  const kept = isSame ? now : new Map([...now].filter(([id]) => isPushed(id)))
  const added = read.filter(({ id }) => !isPushed(id)).map((ticket) => [ticket.id, ticket] as const)
  tickets.value = new Map([...kept, ...added])
}

function applyChange(frame: ChangesFrame): void {
  if (frame.type !== 'tickets-changed') return
  const changed = new Map(tickets.peek())
  for (const id of frame.removed) changed.delete(id)
  for (const ticket of frame.changed) changed.set(ticket.id, ticket)
  tickets.value = changed
  ticketChanges.value += 1
}
