/**
 * Finds the tickets that a ticket waits for, and words the reason.
 *
 * A ticket waits for every other ticket in its `blockedBy` that the tracker knows and that is not closed. Tickets
 * that wait for each other in a cycle keep waiting, because only a person can decide which comes first; the reason
 * shows the cycle.
 */
import { BLOCKERS_WALKED_MAX } from '../../protocol/limits.ts'
import type { Ticket } from '../../protocol/run.ts'
import type { TrackedTicket } from '../ports.ts'
import { formatNames } from './names.ts'

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

/** Returns the open blockers, in the order in which the ticket names them. */
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
