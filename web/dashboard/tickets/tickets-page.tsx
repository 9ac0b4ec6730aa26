/** The eligible tickets in the order in which they are taken, each with its run or the reason for having none. */
import { useComputed, useSignal } from '@preact/signals'
import { useRef } from 'preact/hooks'
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
import { pollSentence } from '../tracker-words.ts'
import { askForTicket } from './create-ticket.tsx'
import { NoTicketFits, NoTickets } from './no-tickets.tsx'
import { askForRun } from './run-ticket.tsx'
import { TicketFilters } from './ticket-filters.tsx'
import { TicketLine } from './ticket-line.tsx'
import { filterTickets, TICKET_FILTERS, type TicketRow, ticketRowsOf } from './ticket-rows.ts'

const NARROW = 720
/** A narrow row has three lines. */
const NARROW_ROW = 76

export function TicketsPage() {
  const rows = useComputed(() => ticketRowsOf(tickets.value, runs.value.values()))
  const { query } = address.value
  const filter = Object.fromEntries(
    TICKET_FILTERS.flatMap((name) => (query.has(name) ? [[name, query.get(name) ?? '']] : [])),
  )
  const shown = filterTickets(rows.value, filter)
  const chosen = useSignal<number | undefined>(undefined)
  const search = useRef<HTMLInputElement>(null)
  const isNarrow = useNarrow(NARROW)
  const at = chosen.value === undefined ? undefined : Math.min(chosen.value, shown.length - 1)
  const row = at === undefined ? undefined : shown[at]
  useActs([
    ...listActs(shown.length, at, (next) => {
      chosen.value = next
    }),
    ...rowActs(row),
    { id: 'create ticket', title: 'Create a ticket', group: 'Tickets', act: askForTicket },
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
        beside={isLoaded.value && pollSentence(config.value?.tracker.driver, tracker.value, now.value)}
        acts={
          <Button kind="primary" act={askForTicket}>
            Create ticket
          </Button>
        }
      />
      {!isLoaded.value && <Skeleton rows={10} />}
      {isLoaded.value && rows.value.length === 0 && <NoTickets />}
      {rows.value.length > 0 && <TicketFilters rows={rows.value} filter={filter} search={search} />}
      {rows.value.length > 0 && shown.length === 0 && <NoTicketFits count={rows.value.length} />}
      {shown.length > 0 && (
        <div class="card ticket-list">
          <TicketHeads />
          <VirtualRows
            class="ticket-rows"
            label={`${countOf(shown.length, 'ticket')}, in the order in which they are taken`}
            count={shown.length}
            height={isNarrow ? NARROW_ROW : rowHeight()}
            keyOf={(index) => shown[index]?.ticket.id ?? index}
            shown={at}
            row={(index) => {
              const entry = shown[index]
              return entry === undefined ? null : <TicketLine row={entry} isChosen={index === at} />
            }}
          />
        </div>
      )}
    </>
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
