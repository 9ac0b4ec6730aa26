/**
 * Finds the tickets that a ticket waits for, words the reason, and finds what waits for a ticket.
 *
 * A ticket waits for every other ticket in its `blockedBy` that the tracker knows and that is not closed. Tickets
 * that wait for each other in a cycle keep waiting, because only a person can decide which comes first; the reason
 * shows the cycle.
 */
import type { Ticket } from '../../protocol/run.ts'
import type { TrackedTicket } from '../ports/tracker.ts'
import { formatNames } from './names.ts'

/** Tickets visited to detect a blocker cycle; the check runs for thousands of waiting tickets in a row. */
export const BLOCKERS_WALKED_MAX = 100

/** Every ticket of the latest tracker listing, by id. The code that changes one calls `forgetIdentifiers` afterwards. */
export type TicketsById = ReadonlyMap<string, TrackedTicket>

/** Returns the identifiers of the open blockers, in the order in which the ticket names them. */
export function openBlockers(ticket: Ticket, byId: TicketsById): string[] {
  return blockersOf(ticket, byId).map(({ identifier }) => identifier)
}

/**
 * Returns the cycle that this ticket or one of its blockers is in, from one ticket back to itself (`A, B, A`). Empty
 * when there is no cycle within the first `BLOCKERS_WALKED_MAX` tickets.
 */
export function waitingCycle(ticket: Ticket, byId: TicketsById): string[] {
  const path: BlockerStep[] = [stepTo(ticket, byId)]
  const walked = new Set([ticket.id])
  for (let step = path.at(-1); step !== undefined && walked.size <= BLOCKERS_WALKED_MAX; step = path.at(-1)) {
    const next = step.waitsFor.pop()
    if (next === undefined) {
      path.pop()
      continue
    }
    const repeatedAt = path.findIndex((earlier) => earlier.ticket.id === next.id)
    if (repeatedAt >= 0)
      return [...path.slice(repeatedAt).map((step) => step.ticket), next].map((ticket) => ticket.identifier)
    if (walked.has(next.id)) continue
    walked.add(next.id)
    path.push(stepTo(next, byId))
  }
  return []
}

/** Words the queue reason, such as `waiting for ENG-1, ENG-2`. */
export function waitingReason(identifierCache: readonly string[], cycle: readonly string[] = []): string {
  const reason = `waiting for ${formatNames(identifierCache)}`
  if (cycle.length === 0) return reason
  const explanation = `it is a circle, in which each waits for the next: ${formatNames(cycle)}`
  return `${reason}; ${explanation}. Take one of them out of another's blockedBy`
}

/** Words the queue reason while the tracker has not listed its tickets, so that nobody knows which blockers are closed. */
export const unlistedReason = (names: readonly string[]): string =>
  `waiting for the tracker, which says whether ${formatNames(names)} ${names.length === 1 ? 'is' : 'are'} done`

// ---- one step ----------------------------------------------------------------------------------------------------

interface BlockerStep {
  readonly ticket: Ticket
  /** Blockers that are not visited yet; the last one is next. */
  readonly waitsFor: Ticket[]
}

function stepTo(ticket: Ticket, byId: TicketsById): BlockerStep {
  return { ticket, waitsFor: blockersOf(ticket, byId).reverse() }
}

/** Returns the tickets of the open blockers, as `openBlockers` returns their identifiers. */
export function blockersOf(ticket: Ticket, byId: TicketsById): Ticket[] {
  const found = new Map<string, Ticket>()
  for (const entry of new Set(ticket.blockedBy)) {
    const blocker = findTicket(entry, byId)
    const holds = blocker !== undefined && !blocker.closed && blocker.ticket.id !== ticket.id
    if (holds) found.set(blocker.ticket.id, blocker.ticket)
  }
  return [...found.values()]
}

/** Finds a listed ticket by its id or, if there is none, by its identifier. */
export const findTicket = (name: string, byId: TicketsById): TrackedTicket | undefined =>
  byId.get(name) ?? byIdentifier(byId).get(name)

/** Computed once per listing, because many tickets are checked and each may lead to many more. */
const identifiers = new WeakMap<TicketsById, ReadonlyMap<string, TrackedTicket>>()

export const forgetIdentifiers = (byId: TicketsById): void => void identifiers.delete(byId)

/** Maps each identifier to the ticket that has it; of several, to the one with the smallest id, in whatever order they are listed. */
function byIdentifier(byId: TicketsById): ReadonlyMap<string, TrackedTicket> {
  const made = identifiers.get(byId)
  if (made !== undefined) return made
  const named = new Map<string, TrackedTicket>()
  for (const tracked of byId.values()) {
    const { id, identifier } = tracked.ticket
    const known = named.get(identifier)
    if (known === undefined || id < known.ticket.id) named.set(identifier, tracked)
  }
  identifiers.set(byId, named)
  return named
}

// ---- what waits for a ticket -------------------------------------------------------------------------------------

const NONE: readonly string[] = []

/**
 * Finds what waits for a ticket, without a search through everything that might.
 *
 * Each entry names the tickets that it waits for as `blockedBy` does, by id or by identifier.
 */
export class BlockerIndex {
  readonly #namesOf = new Map<string, readonly string[]>()
  readonly #waiting = new Map<string, Set<string>>()

  /** Replaces the names that the entry waits for. */
  set(key: string, names: readonly string[]): void {
    const before = this.#namesOf.get(key) ?? NONE
    if (
      before === names ||
      (before.length === names.length && before.every((name, at) => name === names[at]))
    )
      return
    this.delete(key)
    if (names.length === 0) return
    this.#namesOf.set(key, names)
    for (const name of names) {
      const waiting = this.#waiting.get(name)
      if (waiting === undefined) this.#waiting.set(name, new Set([key]))
      else waiting.add(key)
    }
  }

  delete(key: string): void {
    for (const name of this.#namesOf.get(key) ?? NONE) {
      const waiting = this.#waiting.get(name)
      waiting?.delete(key)
      if (waiting?.size === 0) this.#waiting.delete(name)
    }
    this.#namesOf.delete(key)
  }

  /** The keys of the entries that wait for a ticket of this name. */
  waitingFor(name: string): Iterable<string> {
    return this.#waiting.get(name) ?? NONE
  }
}

/**
 * Returns the names of the changed tickets, and of those that wait for one of them, directly or through others: a cycle
 * is shown to everything that waits behind it.
 *
 * @param index the tickets of the listing by their ids
 */
export function findAffectedNames(
  changed: Iterable<TrackedTicket>,
  listed: TicketsById,
  index: BlockerIndex,
): ReadonlySet<string> {
  const names = new Set<string>()
  for (const { ticket } of changed) names.add(ticket.id).add(ticket.identifier)
  // A set that grows while it is iterated is iterated to its new end.
  for (const name of names)
    for (const id of index.waitingFor(name)) {
      const waiting = listed.get(id)
      if (waiting !== undefined) names.add(id).add(waiting.ticket.identifier)
    }
  return names
}
