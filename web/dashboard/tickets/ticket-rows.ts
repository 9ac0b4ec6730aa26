/** The eligible tickets beside their newest runs, and which of them the filters of the address leave. */
import { hasEnded } from '../../../client/run-events.ts'
import type { Run, Ticket } from '../../../protocol/run.ts'
import { matchWords } from '../shell/match-words.ts'

/** `waits` and `blocked`: queued; `none`: without a run that is known, or with one that has ended. */
export type TicketSituation = 'progress' | 'waits' | 'blocked' | 'none'

export interface TicketRow {
  readonly ticket: Ticket
  /** The newest run. */
  readonly run: Run | undefined
  readonly situation: TicketSituation
}

const BLOCKED = /^waiting for /

export function ticketRowsOf(tickets: readonly Ticket[], runs: Iterable<Run>): TicketRow[] {
  const newest = new Map<string, Run>()
  for (const run of runs) {
    const known = newest.get(run.ticket.id)
    if (known === undefined || known.createdAt < run.createdAt) newest.set(run.ticket.id, run)
  }
  return tickets.map((ticket) => {
    const run = newest.get(ticket.id)
    return { ticket, run, situation: situationOf(run) }
  })
}

export function situationOf(run: Run | undefined): TicketSituation {
  if (run === undefined || hasEnded(run)) return 'none'
  if (run.status !== 'queued') return 'progress'
  return BLOCKED.test(run.queueReason ?? '') ? 'blocked' : 'waits'
}

/** The filters as they stand in the query of the address; absent ones leave every ticket. */
export interface TicketFilter {
  readonly q?: string
  readonly run?: string
  readonly state?: string
  readonly label?: string
  readonly repo?: string
  readonly priority?: string
}

export const TICKET_FILTERS = ['q', 'run', 'state', 'label', 'repo', 'priority'] as const

export function filterTickets(rows: readonly TicketRow[], filter: TicketFilter): readonly TicketRow[] {
  const { q = '', run, state, label, repo, priority } = filter
  if (TICKET_FILTERS.every((name) => (filter[name] ?? '') === '')) return rows
  return rows.filter(
    ({ ticket, situation }) =>
      (run === undefined || situation === run) &&
      (state === undefined || ticket.state === state) &&
      (label === undefined || ticket.labels.includes(label)) &&
      (repo === undefined || ticket.repo === repo) &&
      (priority === undefined || String(ticket.priority) === priority) &&
      (q === '' || matchWords(`${ticket.identifier} ${ticket.title}`, q) !== undefined),
  )
}

/** How many tickets are in each situation. */
export function countSituations(rows: readonly TicketRow[]): Readonly<Record<TicketSituation, number>> {
  const counts = { progress: 0, waits: 0, blocked: 0, none: 0 }
  for (const { situation } of rows) counts[situation] += 1
  return counts
}

/** The values that a filter can have, in the order of the alphabet. */
export const valuesOf = (
  rows: readonly TicketRow[],
  read: (ticket: Ticket) => readonly (string | undefined)[],
): string[] =>
  [...new Set(rows.flatMap(({ ticket }) => read(ticket)))].filter((value) => value !== undefined).toSorted()
