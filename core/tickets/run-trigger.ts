/**
 * What makes a ticket become a run by itself: it is eligible, and nothing was done about it since it came into its state.
 *
 * Trackers do not say since when, so the host remembers. A change that it sees counts from the moment it is seen, on
 * the host's own clock, the one that run ends are measured by. A ticket seen for the first time counts as always having been in
 * its state: on a fresh host with old runs, what was done stays done.
 *
 * What is not in a tracker's picture has not changed: a file being replaced is missing for a moment, and that moment
 * must not cost a second run.
 */
import type { Ticket } from '../../protocol/run.ts'
import { isSameName } from './names.ts'

/** In which state a ticket was last seen, since when, and whether it was eligible before the host moved it itself. */
export type TicketObservation = {
  readonly state: string
  readonly since: string
  readonly eligible?: true
  /** Where the host itself has put it. A person may put it there as well, and that is news. */
  readonly put?: string
}

/** The very same object when there is nothing new to remember. */
export function observeTicket(
  known: TicketObservation | undefined,
  ticket: Ticket,
  nowIso: string,
): TicketObservation {
  if (known === undefined) return { state: ticket.state, since: earlier(ticket.createdAt, nowIso) }
  if (isSameName(known.state, ticket.state)) return known
  const { put: _, ...rest } = known
  return { ...rest, state: ticket.state, since: nowIso }
}

/** What is seen to have changed has changed after every run that has ended, even if the wall clock was set back since. */
export function observedAfter(
  memory: TicketObservation,
  lastFinishedAt: string | undefined,
): TicketObservation {
  if (lastFinishedAt === undefined || lastFinishedAt < memory.since) return memory
  return { ...memory, since: new Date(Date.parse(lastFinishedAt) + 1).toISOString() }
}

/** The same the other way round, for a run that has just ended. The very same object when that is so anyway. */
export function observedBefore(memory: TicketObservation, finishedAt: string): TicketObservation {
  return memory.since <= finishedAt ? memory : { ...memory, since: finishedAt }
}

/** The very same object when that is known. */
export function observeEligibility(memory: TicketObservation, eligible: boolean): TicketObservation {
  if ((memory.eligible === true) === eligible) return memory
  const { eligible: _, ...rest } = memory
  return eligible ? { ...rest, eligible } : rest
}

/**
 * The host itself is about to move the ticket, or has. That is no news: without this, a run's end would move its
 * ticket to the review state, and where that is eligible too, the ticket would get run after run.
 */
export function recordHostMove(memory: TicketObservation, state: string): TicketObservation {
  return isSameName(memory.state, state) ? memory : { ...memory, state }
}

/** The very same object when that is known. */
export function recordHostState(memory: TicketObservation, state: string): TicketObservation {
  return memory.put === state ? memory : { ...memory, put: state }
}

export interface RunTriggerFacts {
  readonly eligible: boolean
  readonly memory: TicketObservation
  /** Of all its runs, the end that is latest; a cancelled or failed run has ended, too. */
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
