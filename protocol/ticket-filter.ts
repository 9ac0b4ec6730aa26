/**
 * A filter decides which eligible tickets a list is about, and a sort in what order they stand.
 *
 * The host asks both about every ticket, and a page about each ticket that is pushed to it, so that both agree.
 */
import type { Run, RunStatus, Ticket } from './run.ts'
import { compareTickets } from './ticket-order.ts'
import { createWordSearch } from './word-search.ts'

/** `waits` and `blocked`: queued; `none`: without an unfinished run. */
export const TICKET_SITUATIONS = ['progress', 'waits', 'blocked', 'none'] as const
export type TicketSituation = (typeof TICKET_SITUATIONS)[number]

const IN_PROGRESS: readonly RunStatus[] = ['preparing', 'running', 'finalizing']
const BLOCKED = /^waiting for /

/** @param run the ticket's unfinished run, or its newest */
export function situationOf(run: Pick<Run, 'status' | 'queueReason'> | undefined): TicketSituation {
  if (run === undefined) return 'none'
  if (run.status === 'queued') return BLOCKED.test(run.queueReason ?? '') ? 'blocked' : 'waits'
  return IN_PROGRESS.includes(run.status) ? 'progress' : 'none'
}

/** Absent fields leave every ticket. */
export interface TicketFilter {
  /** Words, each of which the ticket's id, identifier or title has. */
  readonly q?: string | undefined
  readonly run?: TicketSituation | undefined
  readonly state?: string | undefined
  readonly label?: string | undefined
  readonly repo?: string | undefined
  readonly priority?: Ticket['priority'] | undefined
}

export function createTicketFilter(
  filter: TicketFilter,
): (ticket: Ticket, situation: () => TicketSituation) => boolean {
  const { run, state, label, repo, priority } = filter
  const hasWords = createWordSearch(filter.q)
  return (ticket, situation) =>
    (state === undefined || ticket.state === state) &&
    (label === undefined || ticket.labels.includes(label)) &&
    (repo === undefined || ticket.repo === repo) &&
    (priority === undefined || ticket.priority === priority) &&
    hasWords(`${ticket.id} ${ticket.identifier} ${ticket.title}`) &&
    (run === undefined || situation() === run)
}

/** `queue`: the order in which the tickets are taken. */
export const TICKET_SORTS = ['queue', 'newest', 'oldest', 'changed'] as const
export type TicketSort = (typeof TICKET_SORTS)[number]

const COMPARISONS: Readonly<Record<TicketSort, (a: Ticket, b: Ticket) => number>> = {
  queue: compareTickets,
  newest: (a, b) => compareInstants(b.createdAt, a.createdAt) || compareTickets(a, b),
  oldest: (a, b) => compareInstants(a.createdAt, b.createdAt) || compareTickets(a, b),
  changed: (a, b) => compareInstants(b.updatedAt, a.updatedAt) || compareTickets(a, b),
}

export const ticketComparison = (sort: TicketSort): ((a: Ticket, b: Ticket) => number) => COMPARISONS[sort]

/** All instants have one form. */
const compareInstants = (a: string, b: string): number => (a === b ? 0 : a < b ? -1 : 1)
