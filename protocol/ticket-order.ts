/**
 * Orders tickets: the more urgent first, then the older, then the smaller id.
 *
 * The order is total, so the queue does not depend on the order of a tracker's listing. Texts are compared by code
 * units: all instants have one form, and a locale-dependent order would differ between machines.
 */
import type { Ticket } from './run.ts'

/** Returns 0 (urgent) to 3 (low), and 4 for tickets without a priority. */
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
