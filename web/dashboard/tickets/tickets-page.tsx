/** The eligible tickets in the order in which they are taken, each with its run or the reason for having none. */
import { useComputed, useSignal } from '@preact/signals'
import type { VNode } from 'preact'
import { useMemo, useRef } from 'preact/hooks'
import { type Act, useActs } from '../../elements/acts.ts'
import { Button } from '../../elements/button.tsx'
import { now } from '../../elements/moments.tsx'
import { PageHead } from '../../elements/page-head.tsx'
import { Skeleton } from '../../elements/placeholder.tsx'
import { rowHeight } from '../../elements/row-height.ts'
import { useNarrow } from '../../elements/use-narrow.ts'
import { VirtualRows } from '../../elements/virtual-rows.tsx'
import { address, navigate } from '../../router.ts'
import { countOf } from '../../text/amounts.ts'
import { ticketAddress } from '../addresses.ts'
import { config, isLoaded, runs, tickets, tracker } from '../state/records.ts'
import { useTickets } from '../state/tickets.ts'
import { pollSentence } from '../tracker-words.ts'
import { askForTicket } from './create-ticket.tsx'
import { NoTicketFits, NoTickets } from './no-tickets.tsx'
import { askForRun } from './run-ticket.tsx'
import { TicketFilters } from './ticket-filters.tsx'
import { TicketLine } from './ticket-line.tsx'
import {
  filterTickets,
  TICKET_FILTERS,
  type TicketFilter,
  type TicketRow,
  ticketRowsOf,
} from './ticket-rows.ts'

const NARROW = 720
/** A narrow row has three lines. */
const NARROW_ROW = 76

export function TicketsPage() {
  useTickets()
  const isRead = tickets.value !== undefined && isLoaded.value
  const rows = useComputed(() => ticketRowsOf(tickets.value ?? [], runs.value.values()))
  const filter = useComputed(() => filterOf(address.value.query))
  const shown = useComputed(() => filterTickets(rows.value, filter.value))
  const chosen = useSignal<number | undefined>(undefined)
  const search = useRef<HTMLInputElement>(null)
  const count = shown.value.length
  const at = chosen.value === undefined ? undefined : Math.min(chosen.value, count - 1)
  useActs([
    ...listActs(count, at, (next) => {
      chosen.value = next
    }),
    ...rowActs(at === undefined ? undefined : shown.value[at]),
    { id: 'create ticket', title: 'Create a ticket', group: 'Tickets', act: () => askForTicket() },
    {
      id: 'filter tickets',
      title: 'Search the tickets',
      group: 'Tickets',
      keys: '/',
      act: () => search.current?.focus(),
    },
  ])
  return (
    <>
      <PageHead
        title="Tickets"
        beside={isRead && <LastPoll />}
        acts={
          <Button kind="primary" act={() => askForTicket()}>
            Create ticket
          </Button>
        }
      />
      {!isRead && <Skeleton rows={10} />}
      {isRead && rows.value.length === 0 && <NoTickets />}
      {isRead && rows.value.length > 0 && <TicketFilters rows={rows} filter={filter.value} search={search} />}
      {isRead && rows.value.length > 0 && count === 0 && <NoTicketFits count={rows.value.length} />}
      {isRead && count > 0 && (
        <div class="card ticket-list">
          <TicketHeads />
          <TicketTable rows={shown.value} at={at} />
        </div>
      )}
    </>
  )
}

/** The filters that the query of the address holds. */
const filterOf = (query: URLSearchParams): TicketFilter =>
  Object.fromEntries(
    TICKET_FILTERS.flatMap((name) => (query.has(name) ? [[name, query.get(name) ?? '']] : [])),
  )

/** The only part of the page that changes every second. */
const LastPoll = () => <>{pollSentence(config.value?.tracker.driver, tracker.value, now.value)}</>

interface TicketTableProps {
  readonly rows: readonly TicketRow[]
  /** The chosen row. */
  readonly at: number | undefined
}

function TicketTable({ rows, at }: TicketTableProps) {
  const isNarrow = useNarrow(NARROW)
  // A line that is drawn the same again is not compared part by part, so that scrolling stays quick.
  const lines = useMemo(() => new WeakMap<TicketRow, VNode>(), [])
  function lineOf(row: TicketRow, isChosen: boolean): VNode {
    if (isChosen) return <TicketLine row={row} isChosen />
    const line = lines.get(row) ?? <TicketLine row={row} isChosen={false} />
    lines.set(row, line)
    return line
  }
  return (
    <VirtualRows
      class="ticket-rows"
      offsetName="tickets"
      label={`${countOf(rows.length, 'ticket')}, in the order in which they are taken`}
      count={rows.length}
      height={isNarrow ? NARROW_ROW : rowHeight()}
      keyOf={(index) => rows[index]?.ticket.id ?? index}
      shown={at}
      row={(index) => {
        const row = rows[index]
        return row === undefined ? null : lineOf(row, index === at)
      }}
    />
  )
}

/** The rows are a table for themselves, since only some of them are in the document. */
const TicketHeads = () => (
  <div class="ticket-line ticket-heads" aria-hidden="true">
    <span />
    <span>Ticket</span>
    <span>Title</span>
    <span>State</span>
    <span>Priority</span>
    <span>Labels</span>
    <span>Run, or why there is none</span>
    <span class="number">Age</span>
  </div>
)

function listActs(count: number, at: number | undefined, choose: (next: number | undefined) => void): Act[] {
  const group = 'Tickets'
  const step = (by: number) => choose(Math.max(0, Math.min(count - 1, at === undefined ? 0 : at + by)))
  return [
    { id: 'next ticket', title: 'Next ticket', group, keys: 'j', act: () => step(1) },
    { id: 'previous ticket', title: 'Previous ticket', group, keys: 'k', act: () => step(-1) },
    ...(at === undefined
      ? []
      : [
          { id: 'no ticket', title: 'Choose no ticket', group, keys: 'Escape', act: () => choose(undefined) },
        ]),
  ]
}

function rowActs(row: TicketRow | undefined): Act[] {
  if (row === undefined) return []
  const { ticket, situation } = row
  const group = `Actions on ${ticket.identifier}`
  return [
    {
      id: 'open ticket',
      title: `Open ${ticket.identifier}`,
      group,
      keys: 'Enter',
      act: () => navigate(ticketAddress(ticket.id)),
    },
    {
      id: 'run ticket',
      title: `Start a run of ${ticket.identifier}`,
      group,
      keys: 'r',
      unavailable: situation === 'none' ? undefined : 'It has an active run.',
      act: () => askForRun(ticket),
    },
  ]
}
