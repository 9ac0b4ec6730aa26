/** The eligible tickets as the address asks for them, each beside its run: the unfinished one, or the newest. */
import { changedNothing } from '../../../protocol/changed-nothing.ts'
import type { Run, RunStatus, Ticket } from '../../../protocol/run.ts'
import {
  createTicketFilter,
  situationOf,
  TICKET_SITUATIONS,
  TICKET_SORTS,
  type TicketSituation,
  type TicketSort,
  ticketComparison,
} from '../../../protocol/ticket-filter.ts'
import type { TicketRun, TicketSummaryQuery } from '../../../protocol/ticket-query.ts'

/** The part of a run that a row shows; of a run that has long ended the page knows no more. */
export interface RowRun {
  readonly id: string
  readonly status: RunStatus
  readonly unchanged: boolean
  /** Every unfinished run has it. */
  readonly whole: Run | undefined
}

export interface TicketRow {
  readonly ticket: Ticket
  readonly run: RowRun | undefined
  readonly situation: TicketSituation
}

/** As in the query of the address. */
export const TICKET_FILTERS = ['q', 'run', 'state', 'label', 'repo', 'priority'] as const
export type TicketFilterName = (typeof TICKET_FILTERS)[number]

export interface AskedTickets {
  /** The words of the address. */
  readonly words: Readonly<Partial<Record<TicketFilterName, string>>>
  readonly filter: TicketSummaryQuery
  readonly sort: TicketSort
}

export function askedTickets(query: URLSearchParams): AskedTickets {
  const words: AskedTickets['words'] = Object.fromEntries(
    TICKET_FILTERS.flatMap((name) => (query.get(name) ? [[name, query.get(name) ?? '']] : [])),
  )
  const { run, priority, ...others } = words
  const situation = TICKET_SITUATIONS.find((each) => each === run)
  const rank = PRIORITIES.find((each) => String(each) === priority)
  return {
    words,
    filter: {
      ...others,
      ...(situation === undefined ? {} : { run: situation }),
      ...(rank === undefined ? {} : { priority: rank }),
    },
    sort: TICKET_SORTS.find((sort) => sort === query.get('sort')) ?? 'queue',
  }
}

const PRIORITIES = [0, 1, 2, 3, 4] as const

/** The pages that the host has answered. */
export interface ListedTickets {
  /** The last ticket, as it was listed; known tickets up to it belong to the list. */
  readonly last: Ticket | undefined
  readonly isComplete: boolean
}

/** The known tickets that fit, down to the last one that the host has listed. */
export function ticketRowsOf(
  known: Iterable<Ticket>,
  { filter, sort }: AskedTickets,
  { last, isComplete }: ListedTickets,
  runOf: (ticketId: string) => RowRun | undefined,
): TicketRow[] {
  const fits = createTicketFilter(filter)
  const compare = ticketComparison(sort)
  const rows: TicketRow[] = []
  for (const ticket of known) {
    if (!isComplete && (last === undefined || compare(ticket, last) > 0)) continue
    const run = runOf(ticket.id)
    const situation = situationOf(run?.whole)
    if (fits(ticket, () => situation)) rows.push({ ticket, run, situation })
  }
  return rows.sort((a, b) => compare(a.ticket, b.ticket))
}

/** By ticket: its unfinished run, else its newest. */
export function runsByTicket(runs: Iterable<Run>): ReadonlyMap<string, Run> {
  const byTicket = new Map<string, Run>()
  for (const run of runs) {
    const known = byTicket.get(run.ticket.id)
    if (known === undefined || isRather(run, known)) byTicket.set(run.ticket.id, run)
  }
  return byTicket
}

function isRather(run: Run, known: Run): boolean {
  const isActive = situationOf(run) !== 'none'
  const isKnownActive = situationOf(known) !== 'none'
  return isActive === isKnownActive ? run.id > known.id : isActive
}

/** A pushed run is newer than one that was read, unless it is an older one that has ended. */
export function rowRunOf(pushed: Run | undefined, read: TicketRun | undefined): RowRun | undefined {
  if (
    pushed !== undefined &&
    (read === undefined || situationOf(pushed) !== 'none' || pushed.id >= read.runId)
  )
    return { id: pushed.id, status: pushed.status, unchanged: changedNothing(pushed), whole: pushed }
  if (read === undefined) return undefined
  return { id: read.runId, status: read.status, unchanged: read.unchanged === true, whole: undefined }
}
