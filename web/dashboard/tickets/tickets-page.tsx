/** The eligible tickets in the order in which they are taken, each with its run or the reason for having none. */
import { computed, type ReadonlySignal, signal, useComputed, useSignal } from '@preact/signals'
import type { VNode } from 'preact'
import { useEffect, useMemo } from 'preact/hooks'
import { LIST_LIMIT_MAX } from '../../../protocol/limits.ts'
import type { Run, Ticket } from '../../../protocol/run.ts'
import type { TicketRun, TicketSummary } from '../../../protocol/ticket-query.ts'
import { type Act, useActs } from '../../elements/acts.ts'
import { Button } from '../../elements/button.tsx'
import { Glyph, glyphWord } from '../../elements/glyph.tsx'
import { Age, now } from '../../elements/moments.tsx'
import { PageHead } from '../../elements/page-head.tsx'
import { Failure, Skeleton } from '../../elements/placeholder.tsx'
import { rowHeight, useNarrow } from '../../elements/use-narrow.ts'
import { VirtualRows } from '../../elements/virtual-rows.tsx'
import { address, navigate } from '../../router.ts'
import { countOf } from '../../text/amounts.ts'
import { runAddress, ticketAddress } from '../addresses.ts'
import { Cure } from '../gates/gate-list.tsx'
import { stepActs } from '../list-filters.tsx'
import { hostWords, waitWords } from '../overview/queue-groups.ts'
import { askForRun } from '../runs/run-options.tsx'
import { type AskedList, type Keyed, useAskedList, useListed } from '../state/asked-list.ts'
import { totals } from '../state/current-totals.ts'
import { FOR_ROWS, host } from '../state/host.ts'
import { config, isLoaded, runs, tracker } from '../state/records.ts'
import { addTickets, followTickets, ticketChanges, tickets } from '../state/tickets.ts'
import { PRIORITY_NAMES, pollSentence } from '../tracker-words.ts'
import { askForTicket } from './create-ticket.tsx'
import { NoTicketFits, NoTickets, TicketFilters } from './ticket-filters.tsx'
import {
  type AskedTickets,
  askedTickets,
  type ListedTickets,
  type RowRun,
  rowRunOf,
  runsByTicket,
  type TicketRow,
  ticketRowsOf,
} from './ticket-rows.ts'

const GROUP = 'Tickets'
const NARROW = 720
/** A narrow row has three lines. */
const NARROW_ROW = 76

export function TicketsPage() {
  const list = useAskedTickets()
  const { asked, summary, count } = list
  const isRead = list.isListed && isLoaded.value
  const rows = isLoaded.value ? list.rows.value : NONE
  const chosen = useSignal<number | undefined>(undefined)
  const at = chosen.value === undefined ? undefined : Math.min(chosen.value, rows.length - 1)
  const hasNone = summary?.total === 0 && rows.length === 0
  useActs([
    ...listActs(rows.length, at, (next) => {
      chosen.value = next
    }),
    ...rowActs(at === undefined ? undefined : rows[at]),
    { id: 'create ticket', title: 'Create a ticket', group: GROUP, act: () => askForTicket() },
  ])
  return (
    <>
      <PageHead
        title="Tickets"
        beside={<LastPoll found={count === summary?.total ? undefined : count} />}
        acts={
          <Button kind="primary" act={() => askForTicket()}>
            Create ticket
          </Button>
        }
      />
      {!hasNone && <TicketFilters asked={asked} summary={summary} />}
      {list.error !== undefined && <Failure error={list.error} retry={list.retry} />}
      {!isRead && list.error === undefined && rows.length === 0 && <Skeleton rows={10} />}
      {isRead && hasNone && <NoTickets />}
      {isRead && !hasNone && rows.length === 0 && <NoTicketFits count={summary?.total} />}
      {rows.length > 0 && (
        <div class="card ticket-list" aria-busy={!isRead}>
          <TicketHeads />
          <TicketTable list={list} rows={rows} at={at} />
        </div>
      )}
    </>
  )
}

const NONE: readonly TicketRow[] = []

/** The only part of the page that changes every second. */
const LastPoll = ({ found }: { readonly found: number | undefined }) => (
  <>
    {found !== undefined && `${countOf(found, 'ticket')} found. `}
    {pollSentence(config.value?.tracker.driver, tracker.value, now.value)}
  </>
)

interface TicketTableProps {
  readonly list: AskedTicketList
  readonly rows: readonly TicketRow[]
  /** The chosen row. */
  readonly at: number | undefined
}

function TicketTable({ list: { asked, count, version, readMore }, rows, at }: TicketTableProps) {
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
      label={`${count === undefined ? 'Tickets' : countOf(count, 'ticket')}${asked.sort === 'queue' ? ', in the order in which they are taken' : ''}`}
      count={rows.length}
      total={count}
      height={isNarrow ? NARROW_ROW : rowHeight()}
      keyOf={(index) => rows[index]?.ticket.id ?? index}
      shown={at}
      row={(index) => {
        const row = rows[index]
        return row === undefined ? null : lineOf(row, index === at)
      }}
      version={version}
      onEnd={readMore}
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
  const moves = stepActs({ group: GROUP, noun: 'ticket', count, at, choose })
  const none = { id: 'no ticket', title: 'Choose no ticket', group: GROUP, keys: 'Escape' }
  return at === undefined ? moves : [...moves, { ...none, act: () => choose(undefined) }]
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

// ---- one line ------------------------------------------------------------------------------------------------------

const LABELS_MAX = 2

/** A ticket in the list. A ticket without a run asks the host for the reason once it stays in view. */
function TicketLine({ row, isChosen }: { readonly row: TicketRow; readonly isChosen: boolean }) {
  const { ticket, run, situation } = row
  const { id, identifier, title, state, priority, labels, createdAt } = ticket
  return (
    <div class={`ticket-line${isChosen ? ' chosen' : ''}`} role="presentation">
      <span class="ticket-glyph" role="cell">
        {run === undefined ? <span class="visually-hidden">No run</span> : <Glyph name={run.status} alone />}
      </span>
      <span class="ticket-id mono faint ellipsis" role="cell" title={identifier}>
        {identifier}
      </span>
      <span class="ticket-title ellipsis" role="cell">
        <a href={ticketAddress(id)} title={title} aria-current={isChosen ? 'true' : undefined}>
          {title}
        </a>
      </span>
      <span class="ticket-state quiet ellipsis" role="cell" title={state}>
        {state}
      </span>
      <span class={`ticket-priority ${priority === 1 ? 'tone-bad' : 'quiet'}`} role="cell">
        {priority === 0 ? <span class="faint">–</span> : PRIORITY_NAMES[priority]}
      </span>
      <span class="ticket-labels" role="cell" title={labels.join(', ')}>
        {labels.slice(0, LABELS_MAX).map((label) => (
          <span class="tag ellipsis" key={label}>
            {label}
          </span>
        ))}
        {labels.length > LABELS_MAX && <span class="faint">+{labels.length - LABELS_MAX}</span>}
      </span>
      <span class="ticket-run ellipsis" role="cell">
        {run?.whole === undefined || situation === 'none' ? (
          <WhyNoRun ticket={ticket} run={run} />
        ) : (
          <RunWords run={run.whole} />
        )}
      </span>
      <span class="ticket-age number faint" role="cell">
        <Age since={createdAt} />
      </span>
      {situation === 'none' && (
        <span class="ticket-acts" role="cell">
          <Button small label={`Start a run of ${identifier}`} act={() => askForRun(ticket)}>
            Start run
          </Button>
        </span>
      )}
    </div>
  )
}

function RunWords({ run }: { readonly run: Run }) {
  const { id, status } = run
  const words = status === 'queued' ? waitWords(run) : glyphWord(status)
  return (
    <a class={status === 'queued' ? 'quiet' : ''} href={runAddress(id)} title={run.queueReason ?? words}>
      {words}
    </a>
  )
}

/** A row that is only scrolled past asks nothing. */
const ASK_AFTER_MS = 300

interface WhyNoRunProps {
  readonly ticket: Ticket
  readonly run: RowRun | undefined
}

interface Why {
  readonly reason: string
  readonly cure: string | undefined
}

function WhyNoRun({ ticket, run }: WhyNoRunProps) {
  const why = useSignal<Why | undefined>(undefined)
  const { lastPollAt } = tracker.value
  useEffect(() => {
    const controller = new AbortController()
    const timer = setTimeout(() => {
      host.explainTicket({ id: ticket.id }, { signal: controller.signal }).then(
        ({ reason, gates, run: newest }) => {
          const gate = gates.find(({ status }) => status !== 'pass')
          const found = newest === undefined ? reason : undefined
          const text = found ?? gate?.message
          // The run itself stands before the reason.
          if (text !== undefined)
            why.value = {
              reason: hostWords(text.replace(/^run-[0-9a-f]{32} is \w+, and /, '')),
              cure: gate?.cure,
            }
        },
        // The row is shown without its reason, which the ticket's page tries again.
        () => {},
      )
    }, ASK_AFTER_MS)
    return () => {
      clearTimeout(timer)
      controller.abort()
    }
  }, [ticket.id, ticket.updatedAt, run?.id, lastPollAt === undefined])
  const words = why.value === undefined ? '' : why.value.reason
  return (
    <>
      {run !== undefined && (
        <>
          <a href={runAddress(run.id)}>{run.unchanged ? 'Changed nothing' : glyphWord(run.status)}</a>{' '}
        </>
      )}
      <span class="quiet" title={words}>
        {words}
      </span>{' '}
      {why.value?.cure !== undefined && <Cure cure={why.value.cure} />}
    </>
  )
}

// ---- the asked tickets ---------------------------------------------------------------------------------------------

const PAGE = 50

interface AskedTicketList extends AskedList<TicketSummary> {
  readonly asked: AskedTickets
  readonly rows: ReadonlySignal<readonly TicketRow[]>
}

interface ReadTickets extends ListedTickets {
  /** How many tickets the host has listed. */
  readonly length: number
}

/** Until the host answers, the known tickets that fit are shown. */
const NOT_LISTED: ListedTickets = { last: undefined, isComplete: true }

const answer = signal<Keyed<ReadTickets> | undefined>(undefined)
/** By ticket, what the host has answered; unfinished runs are among the records. */
const readRuns = signal<ReadonlyMap<string, TicketRun>>(new Map())
const recordedRuns = computed(() => runsByTicket(runs.value.values()))

/**
 * Reads the tickets that the address asks for: a page with its runs, the next one when somebody comes to its end, and
 * their summary. Tickets that are pushed meanwhile join by themselves: the list is derived from the known tickets.
 */
function useAskedTickets(): AskedTicketList {
  const asked = useComputed(() => askedTickets(address.value.query))
  const key = useComputed(() => JSON.stringify(asked.value))
  const listed = useListed(key, answer)
  const rows = useComputed(() =>
    answer.value === undefined
      ? []
      : ticketRowsOf(tickets.value.values(), asked.value, listed.value ?? NOT_LISTED, (id) =>
          rowRunOf(recordedRuns.value.get(id), readRuns.value.get(id)),
        ),
  )
  const { queued, inProgress, finishedToday } = totals.value
  const runsVersion = `${queued} ${inProgress} ${finishedToday}`
  // Runs that change let unknown tickets fit a filter of runs.
  const isOfRuns = asked.value.filter.run !== undefined
  const list = useAskedList<ReadTickets, TicketSummary>({
    key,
    answer,
    listed,
    rows,
    listVersion: isOfRuns ? runsVersion : '',
    summaryVersion: `${runsVersion} ${ticketChanges.value}`,
    isTyped: () => asked.peek().words.q !== undefined || isOfRuns,
    readFirst(signal) {
      const limit = Math.min(LIST_LIMIT_MAX, Math.max(PAGE, listed.peek()?.length ?? 0))
      return readPage(asked.peek(), { skip: 0, limit }, signal)
    },
    async readNext(known) {
      const page = await readPage(asked.peek(), { skip: rows.peek().length, limit: PAGE })
      return { ...page, last: page.last ?? known.last, length: known.length + page.length }
    },
    mayReadNext: ({ isComplete }) => !isComplete,
    readSummary: (signal) => host.summarizeTickets(asked.peek().filter, { signal }),
  })
  return { ...list, asked: asked.value, rows }
}

async function readPage(
  { filter, sort }: AskedTickets,
  place: { readonly skip: number; readonly limit: number },
  signal?: AbortSignal,
): Promise<ReadTickets> {
  const before = followTickets()
  const query = { ...filter, ...(sort === 'queue' ? {} : { sort }), ...place }
  const options = signal === undefined ? {} : { signal }
  const [page, theirRuns] = await Promise.all([
    host.listTickets({ ...FOR_ROWS, ...query }, options),
    host.listTicketRuns(query, options),
  ])
  if (signal?.aborted !== true) {
    readRuns.value = new Map([...readRuns.value, ...theirRuns.map((run) => [run.ticketId, run] as const)])
    addTickets(page, before)
  }
  return { last: page.at(-1), isComplete: page.length < place.limit, length: page.length }
}
