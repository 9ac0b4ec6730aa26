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
import { sameName } from './names.ts'

/** In which state a ticket was last seen, since when, and whether it was eligible before the host moved it itself. */
export type TicketMemory = {
  readonly state: string
  readonly since: string
  readonly eligible?: true
  /** Where the host itself has put it. A person may put it there as well, and that is news. */
  readonly put?: string
}

/** The very same object when there is nothing new to remember. */
export function seen(memory: TicketMemory | undefined, ticket: Ticket, nowIso: string): TicketMemory {
  if (memory === undefined) return { state: ticket.state, since: earlier(ticket.createdAt, nowIso) }
  if (sameName(memory.state, ticket.state)) return memory
  const { put: _, ...rest } = memory
  return { ...rest, state: ticket.state, since: nowIso }
}

/** What is seen to have changed has changed after every run that has ended, even if the wall clock was set back since. */
export function seenAfter(memory: TicketMemory, lastFinishedAt: string | undefined): TicketMemory {
  if (lastFinishedAt === undefined || lastFinishedAt < memory.since) return memory
  return { ...memory, since: new Date(Date.parse(lastFinishedAt) + 1).toISOString() }
}

/** The same the other way round, for a run that has just ended. The very same object when that is so anyway. */
export function seenBefore(memory: TicketMemory, finishedAt: string): TicketMemory {
  return memory.since <= finishedAt ? memory : { ...memory, since: finishedAt }
}

/** The very same object when that is known. */
export function seenEligible(memory: TicketMemory, eligible: boolean): TicketMemory {
  if ((memory.eligible === true) === eligible) return memory
  const { eligible: _, ...rest } = memory
  return eligible ? { ...rest, eligible } : rest
}

/**
 * The host itself is about to move the ticket, or has. That is no news: without this, a run's end would move its
 * ticket to the review state, and where that is eligible too, the ticket would get run after run.
 */
export function movedByHost(memory: TicketMemory, state: string): TicketMemory {
  return sameName(memory.state, state) ? memory : { ...memory, state }
}

/** The very same object when that is known. */
export function putByHost(memory: TicketMemory, state: string): TicketMemory {
  return memory.put === state ? memory : { ...memory, put: state }
}

export interface RunWish {
  readonly eligible: boolean
  readonly memory: TicketMemory
  /** Of all its runs, the end that is latest; a cancelled or failed run has ended, too. */
  readonly lastFinishedAt?: string | undefined
  readonly hasActiveRun: boolean
}

export function wantsRun({ eligible, memory, lastFinishedAt, hasActiveRun }: RunWish): boolean {
  if (!eligible || hasActiveRun) return false
  return lastFinishedAt === undefined || lastFinishedAt < memory.since
}

function earlier(a: string, b: string): string {
  return a < b ? a : b
}
