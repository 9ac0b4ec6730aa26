/**
 * Which ticket comes first: the more urgent, then the older, then the smaller id.
 *
 * A total order, so that the queue is the same whatever order a tracker tells its tickets in. Texts are compared by
 * their code units: instants are all of one form, and an order that depended on somebody's language would not be one.
 */
import type { Ticket } from '../../protocol/run.ts'

/** 1 (urgent) to 4 (low), and then those that nobody has given a priority. */
export function priorityRank(priority: Ticket['priority']): number {
  return priority === 0 ? 4 : priority - 1
}

export function compareTickets(a: Ticket, b: Ticket): number {
  return (
    priorityRank(a.priority) - priorityRank(b.priority) ||
    compareTexts(a.createdAt, b.createdAt) ||
    compareTexts(a.id, b.id)
  )
}

function compareTexts(a: string, b: string): number {
  if (a === b) return 0
  return a < b ? -1 : 1
}
