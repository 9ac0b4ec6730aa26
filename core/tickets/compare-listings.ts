/**
 * Compares two listings of the tracker, ticket by ticket.
 *
 * A ticket that reads as before keeps its earlier object, so the next comparison of it is by identity. The order of a
 * listing does not matter.
 */
import type { Ticket } from '../../protocol/run.ts'
import type { TrackedTicket } from '../ports.ts'
import type { TicketsById } from './blockers.ts'

export interface ListingComparison {
  /** The later listing; the earlier one itself when nothing has changed. */
  readonly listed: TicketsById
  /** Ids of the tickets that appeared, changed or left. */
  readonly changed: ReadonlySet<string>
}

export function compareListings(before: TicketsById, tickets: Iterable<TrackedTicket>): ListingComparison {
  const listed = new Map<string, TrackedTicket>()
  const changed = new Set<string>()
  for (const tracked of tickets) {
    const { id } = tracked.ticket
    const known = before.get(id)
    const kept = known === undefined ? tracked : keepEqualParts(known, tracked)
    listed.set(id, kept)
    // A listing that names a ticket twice counts with the last entry.
    if (kept === known) changed.delete(id)
    else changed.add(id)
  }
  for (const id of before.keys()) if (!listed.has(id)) changed.add(id)
  return { listed: changed.size === 0 ? before : listed, changed }
}

/** Returns the known object when both read the same. */
function keepEqualParts(known: TrackedTicket, tracked: TrackedTicket): TrackedTicket {
  if (known === tracked) return known
  const ticket = isSameTicket(known.ticket, tracked.ticket) ? known.ticket : tracked.ticket
  const isSame =
    ticket === known.ticket &&
    known.closed === tracked.closed &&
    areSameTexts(known.aliases?.assignee, tracked.aliases?.assignee) &&
    areSameTexts(known.aliases?.project, tracked.aliases?.project)
  return isSame ? known : { ...tracked, ticket }
}

function isSameTicket(a: Ticket, b: Ticket): boolean {
  if (a === b) return true
  const { labels, blockedBy, ...texts } = a
  const names = Object.keys(texts) as (keyof typeof texts)[]
  return (
    Object.keys(a).length === Object.keys(b).length &&
    names.every((name) => a[name] === b[name]) &&
    areSameTexts(labels, b.labels) &&
    areSameTexts(blockedBy, b.blockedBy)
  )
}

function areSameTexts(a: readonly string[] | undefined, b: readonly string[] | undefined): boolean {
  if (a === b) return true
  return a?.length === b?.length && a?.every((text, at) => text === b?.[at]) === true
}
