/**
 * Orders tickets: the more urgent first, then the older, then the smaller id.
 *
 * The order is total, so the queue does not depend on the order of a tracker's listing. Texts are compared by code
 * units: all instants have one form, and a locale-dependent order would differ between machines.
 */
import type { Ticket } from '../../protocol/run.ts'

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

/**
 * Returns an ordered list with some items removed and others added. `ordered` is left as it is, and holds every removed
 * item.
 */
export function replaceInOrder<T>(
  ordered: readonly T[],
  { removed, added }: { readonly removed: readonly T[]; readonly added: readonly T[] },
  compare: (a: T, b: T) => number,
): readonly T[] {
  if ((removed.length + added.length) * FEW_OF > ordered.length) {
    const gone = new Set(removed)
    return [...ordered.filter((item) => !gone.has(item)), ...added].sort(compare)
  }
  const items = [...ordered]
  for (const item of removed) items.splice(placeOf(item, items, compare), 1)
  for (const item of added) items.splice(placeOf(item, items, compare), 0, item)
  return items
}

/** Few items, this often in the whole list, are cheaper to place one by one than by sorting. */
const FEW_OF = 16

/** Returns the index of the first item that does not come before this one. */
function placeOf<T>(item: T, ordered: readonly T[], compare: (a: T, b: T) => number): number {
  let from = 0
  let until = ordered.length
  while (from < until) {
    const middle = (from + until) >> 1
    if (compare(ordered[middle] as T, item) < 0) from = middle + 1
    else until = middle
  }
  return from
}

function compareTexts(a: string, b: string): number {
  if (a === b) return 0
  return a < b ? -1 : 1
}
