/**
 * What a ticket waits for, and how that is told.
 *
 * A ticket waits for every other ticket in its `blockedBy` that the tracker knows and that is not closed. Tickets that
 * wait for one another would wait for ever; they still wait, since nobody but a person can tell which of them comes
 * first, but the reason shows the circle.
 */

import { BLOCKERS_WALKED_MAX } from '../../protocol/limits.ts'
import type { Ticket } from '../../protocol/run.ts'
import type { TrackedTicket } from '../ports.ts'
import { formatNames } from './names.ts'

/** Every ticket of a tracker's picture, by id. */
export type TicketsById = ReadonlyMap<string, TrackedTicket>

/** The identifiers of those it waits for, in the order in which it names them. */
export function openBlockers(ticket: Ticket, byId: TicketsById): string[] {
  return blockersOf(ticket, byId).map(({ identifier }) => identifier)
}

/**
 * The circle of waiting that this ticket is in, or that one it waits for is in, from one ticket back to itself
 * (`A, B, A`); empty when there is none within the first `BLOCKERS_WALKED_MAX` tickets.
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
      return [...path.slice(repeatedAt).map((one) => one.ticket), next].map((one) => one.identifier)
    if (walked.has(next.id)) continue
    walked.add(next.id)
    path.push(stepTo(next, byId))
  }
  return []
}

/** The queue's reason, such as `waiting for ENG-1, ENG-2`. */
export function waitingReason(identifierCache: readonly string[], cycle: readonly string[] = []): string {
  const reason = `waiting for ${formatNames(identifierCache)}`
  if (cycle.length === 0) return reason
  const explanation = `it is a circle, in which each waits for the next: ${formatNames(cycle)}`
  return `${reason}; ${explanation}. Take one of them out of another's blockedBy`
}

// ---- one step ----------------------------------------------------------------------------------------------------

interface BlockerStep {
  readonly ticket: Ticket
  /** Not yet gone into; the last is next. */
  readonly waitsFor: Ticket[]
}

function stepTo(ticket: Ticket, byId: TicketsById): BlockerStep {
  return { ticket, waitsFor: blockersOf(ticket, byId).reverse() }
}

function blockersOf(ticket: Ticket, byId: TicketsById): Ticket[] {
  const found = new Map<string, Ticket>()
  for (const entry of new Set(ticket.blockedBy)) {
    const blocker = byId.get(entry) ?? byIdentifier(byId).get(entry)
    const holds = blocker !== undefined && !blocker.closed && blocker.ticket.id !== ticket.id
    if (holds) found.set(blocker.ticket.id, blocker.ticket)
  }
  return [...found.values()]
}

/** Made once for each picture, which never changes: many tickets are asked about, and each may lead to many more. */
const identifiers = new WeakMap<TicketsById, ReadonlyMap<string, TrackedTicket>>()

/** The first of each identifier. */
function byIdentifier(byId: TicketsById): ReadonlyMap<string, TrackedTicket> {
  const made = identifiers.get(byId)
  if (made !== undefined) return made
  const named = new Map<string, TrackedTicket>()
  for (const tracked of byId.values()) {
    const { identifier } = tracked.ticket
    if (!named.has(identifier)) named.set(identifier, tracked)
  }
  identifiers.set(byId, named)
  return named
}
