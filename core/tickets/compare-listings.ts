/**
 * Compares two listings of the tracker, ticket by ticket.
 *
 * A ticket that reads as before keeps its earlier object. A tracker that does the same, and keeps the order, has only the
 * part compared that differs.
 */
import type { Ticket } from '../../protocol/run.ts'
import type { TrackedTicket } from '../ports/tracker.ts'
import type { TicketsById } from './blockers.ts'

export interface ListingComparison {
  /** The tickets that appeared or changed, as they are now. */
  readonly changed: readonly TrackedTicket[]
  /** The tickets that left, as they were. */
  readonly left: readonly TrackedTicket[]
}

/** @param byId the tickets of the earlier listing; an object may be an older one that reads the same */
export function compareListings(
  before: readonly TrackedTicket[],
  after: readonly TrackedTicket[],
  byId: TicketsById,
): ListingComparison {
  const { start, beforeEnd, afterEnd } = findDifference(before, after)
  const missing = new Set<string>()
  for (let at = start; at < beforeEnd; at++) missing.add(idAt(before, at))
  const changed: TrackedTicket[] = []
  for (let at = start; at < afterEnd; at++) {
    const tracked = after[at] as TrackedTicket
    const { id } = tracked.ticket
    const known = byId.get(id)
    const kept = known === undefined ? tracked : keepKnownTicket(known, tracked)
    missing.delete(id)
    if (kept !== known) changed.push(kept)
  }
  return { changed, left: [...missing].flatMap((id) => byId.get(id) ?? []) }
}

const idAt = (tickets: readonly TrackedTicket[], at: number): string => tickets[at]?.ticket.id ?? ''

/** Finds the part between the first and the last object that differ. */
function findDifference(before: readonly TrackedTicket[], after: readonly TrackedTicket[]) {
  const shorter = Math.min(before.length, after.length)
  let start = 0
  while (start < shorter && before[start] === after[start]) start += 1
  let [beforeEnd, afterEnd] = [before.length, after.length]
  while (Math.min(beforeEnd, afterEnd) > start && before[beforeEnd - 1] === after[afterEnd - 1]) {
    beforeEnd -= 1
    afterEnd -= 1
  }
  return { start, beforeEnd, afterEnd }
}

/** Returns the known ticket when both read the same. Otherwise it keeps at least the part that people see. */
export function keepKnownTicket(known: TrackedTicket, tracked: TrackedTicket): TrackedTicket {
  if (known === tracked) return known
  const ticket = isSameTicket(known.ticket, tracked.ticket) ? known.ticket : tracked.ticket
  const isSame =
    ticket === known.ticket &&
    known.closed === tracked.closed &&
    areSameTexts(known.aliases?.assignee, tracked.aliases?.assignee) &&
    areSameTexts(known.aliases?.project, tracked.aliases?.project)
  return isSame ? known : { ...tracked, ticket }
}

type TicketList = 'labels' | 'blockedBy'

/** The compiler names a field that is missing here. */
const OTHER_FIELDS: Readonly<Record<Exclude<keyof Ticket, TicketList | 'edited'>, true>> = {
  id: true,
  identifier: true,
  title: true,
  description: true,
  url: true,
  state: true,
  priority: true,
  assignee: true,
  project: true,
  branchName: true,
  repo: true,
  createdAt: true,
  updatedAt: true,
}
const FIELD_NAMES = Object.keys(OTHER_FIELDS) as (keyof typeof OTHER_FIELDS)[]

export function isSameTicket(a: Ticket, b: Ticket): boolean {
  if (a === b) return true
  for (const name of FIELD_NAMES) if (a[name] !== b[name]) return false
  if (a.edited?.at !== b.edited?.at || a.edited?.by !== b.edited?.by) return false
  return areSameTexts(a.labels, b.labels) && areSameTexts(a.blockedBy, b.blockedBy)
}

function areSameTexts(a: readonly string[] | undefined, b: readonly string[] | undefined): boolean {
  if (a === b) return true
  return a?.length === b?.length && a?.every((text, at) => text === b?.[at]) === true
}
