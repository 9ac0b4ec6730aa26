/**
 * TicketListing holds the tickets of the tracker's last listing, and which of them are eligible, in the order of the
 * queue.
 *
 * One changed ticket costs one ticket: eligibility is judged, and the order mended, for the changed tickets only.
 */
import type { Ticket } from '../../protocol/run.ts'
import { compareTickets } from '../../protocol/ticket-order.ts'
import type { TrackedTicket } from '../ports/tracker.ts'
import {
  BlockerIndex,
  findAffectedNames,
  findTicket,
  forgetIdentifiers,
  type TicketsById,
} from './blockers.ts'
import { compareListings, type ListingComparison } from './compare-listings.ts'
import { type EligibilityRules, isEligible } from './eligibility.ts'

export interface ListingChange {
  /** Ids of the tickets that appeared, changed or left. */
  readonly changed: ReadonlySet<string>
  /** Ids and identifiers of these tickets, and of those that wait for one of them. */
  readonly affectedNames: ReadonlySet<string>
  /** The list of eligible tickets has changed. */
  readonly isEligibleChanged: boolean
  /** How many new or changed tickets were left out. */
  readonly leftOut: number
}

export class TicketListing {
  /** As the tracker listed them. */
  #tickets: readonly TrackedTicket[] = []
  readonly #byId = new Map<string, TrackedTicket>()
  #eligible: readonly Ticket[] = []
  readonly #eligibleById = new Map<string, Ticket>()
  readonly #blockers = new BlockerIndex()
  readonly #mayList: (tracked: TrackedTicket) => boolean

  /** @param mayList whether a new or changed ticket can be listed at all */
  constructor(mayList: (tracked: TrackedTicket) => boolean = () => true) {
    this.#mayList = mayList
  }

  get tickets(): readonly TrackedTicket[] {
    return this.#tickets
  }

  get byId(): TicketsById {
    return this.#byId
  }

  /** The eligible tickets in the order in which runs are queued. */
  get eligible(): readonly Ticket[] {
    return this.#eligible
  }

  isEligible(ticketId: string): boolean {
    return this.#eligibleById.has(ticketId)
  }

  find(name: string): Ticket | undefined {
    return findTicket(name, this.#byId)?.ticket
  }

  /** Replaces the listing. `tickets` names each ticket once. */
  replace(tickets: readonly TrackedTicket[], rules: EligibilityRules): ListingChange {
    const comparison = compareListings(this.#tickets, tickets, this.#byId)
    this.#tickets = tickets
    const listable = comparison.changed.filter(this.#mayList)
    const versions = this.#apply({ ...comparison, changed: listable })
    const changed = new Set(versions.map(({ ticket }) => ticket.id))
    return {
      changed,
      affectedNames: findAffectedNames(versions, this.#byId, this.#blockers),
      isEligibleChanged: this.#judge(changed, rules),
      leftOut: comparison.changed.length - listable.length,
    }
  }

  /** Judges every ticket by new rules. Returns whether the list of eligible tickets has changed. */
  applyRules(rules: EligibilityRules): boolean {
    return this.#judge(this.#byId.keys(), rules)
  }

  /** Returns the earlier and the later versions of the tickets. */
  #apply({ changed, left }: ListingComparison): readonly TrackedTicket[] {
    const earlier = changed.flatMap(({ ticket }) => this.#byId.get(ticket.id) ?? [])
    for (const { ticket } of left) {
      this.#byId.delete(ticket.id)
      this.#blockers.delete(ticket.id)
    }
    for (const tracked of changed) {
      const { id, blockedBy } = tracked.ticket
      this.#byId.set(id, tracked)
      this.#blockers.set(id, blockedBy)
    }
    if (changed.length + left.length > 0) forgetIdentifiers(this.#byId)
    return [...earlier, ...left, ...changed]
  }

  #judge(ids: Iterable<string>, rules: EligibilityRules): boolean {
    const removed: Ticket[] = []
    const added: Ticket[] = []
    for (const id of ids) {
      const before = this.#eligibleById.get(id)
      const tracked = this.#byId.get(id)
      const now = tracked !== undefined && isEligible(tracked, rules) ? tracked.ticket : undefined
      if (now === before) continue
      if (before !== undefined) removed.push(before)
      if (now === undefined) this.#eligibleById.delete(id)
      else {
        added.push(now)
        this.#eligibleById.set(id, now)
      }
    }
    if (removed.length + added.length === 0) return false
    this.#eligible = replaceInOrder(this.#eligible, { removed, added }, compareTickets)
    return true
  }
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
