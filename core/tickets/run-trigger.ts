/**
 * Decides whether a ticket becomes a run by itself: it is eligible, and no run has ended since it entered its state.
 *
 * Trackers do not report since when, so the host remembers it. A change counts from the moment the host sees it, on
 * the host's clock, which also measures run ends. A ticket seen for the first time counts as always having been in
 * its state, so on a fresh host with old runs finished work is not repeated. A ticket missing from a listing has not
 * changed: a file that is being replaced is absent for a moment.
 */
import type { Ticket } from '../../protocol/run.ts'
import { isSameName } from './names.ts'

/** The last observed state of a ticket, since when, and whether the ticket was eligible before the host moved it. */
export type TicketObservation = {
  readonly state: string
  readonly since: string
  readonly eligible?: true
  /** The state that the host set. A person may set the same state later, which counts as a change. */
  readonly put?: string
  /** The state from which an unfinished run took the ticket; absent once somebody else has moved the ticket. */
  readonly origin?: string
}

/** Returns the same object when nothing has changed. */
export function observeTicket(
  known: TicketObservation | undefined,
  ticket: Ticket,
  nowIso: string,
): TicketObservation {
  if (known === undefined) return { state: ticket.state, since: earlier(ticket.createdAt, nowIso) }
  if (isSameName(known.state, ticket.state)) return known
  const { put: _, origin: __, ...rest } = known
  return { ...rest, state: ticket.state, since: nowIso }
}

/**
 * A change that the host sees now happened after every run that has ended, even if the wall clock was set back since.
 */
export function observedAfter(
  memory: TicketObservation,
  lastFinishedAt: string | undefined,
): TicketObservation {
  if (lastFinishedAt === undefined || lastFinishedAt < memory.since) return memory
  return { ...memory, since: new Date(Date.parse(lastFinishedAt) + 1).toISOString() }
}

/**
 * A run that has just ended ended after the last observed change. Returns the same object when the times agree
 * already.
 */
export function observedBefore(memory: TicketObservation, finishedAt: string): TicketObservation {
  return memory.since <= finishedAt ? memory : { ...memory, since: finishedAt }
}

/** Returns the same object when the value is unchanged. */
export function observeEligibility(memory: TicketObservation, eligible: boolean): TicketObservation {
  if ((memory.eligible === true) === eligible) return memory
  const { eligible: _, ...rest } = memory
  return eligible ? { ...rest, eligible } : rest
}

/**
 * Records that the host moves, or has moved, the ticket; such a move is no new change. Otherwise a run's end would
 * move its ticket to the review state, and where that state is eligible too, the ticket would run again and again.
 */
export function recordHostMove(memory: TicketObservation, state: string): TicketObservation {
  return isSameName(memory.state, state) ? memory : { ...memory, state }
}

/** Returns the same object when the value is unchanged. */
export function recordHostState(memory: TicketObservation, state: string): TicketObservation {
  return memory.put === state ? memory : { ...memory, put: state }
}

export interface RunTriggerFacts {
  readonly eligible: boolean
  readonly memory: TicketObservation
  /** The latest end of all runs of the ticket; failed and cancelled runs count too. */
  readonly lastFinishedAt?: string | undefined
  readonly hasActiveRun: boolean
}

export function shouldStartRun({ eligible, memory, lastFinishedAt, hasActiveRun }: RunTriggerFacts): boolean {
  if (!eligible || hasActiveRun) return false
  return lastFinishedAt === undefined || lastFinishedAt < memory.since
}

function earlier(a: string, b: string): string {
  return a < b ? a : b
}
