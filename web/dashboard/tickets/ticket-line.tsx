/** A ticket in the list. A ticket without a run asks the host for the reason once it stays in view. */
import { useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { hasEnded } from '../../../client/run-events.ts'
import type { Run, Ticket } from '../../../protocol/run.ts'
import { Button } from '../../elements/button.tsx'
import { Glyph, glyphWord } from '../../elements/glyph.tsx'
import { Age } from '../../elements/moments.tsx'
import { runAddress, ticketAddress } from '../addresses.ts'
import { Cure } from '../gates/gate-list.tsx'
import { waitWords } from '../overview/queue-groups.ts'
import { host } from '../state/host.ts'
import { tracker } from '../state/records.ts'
import { PRIORITY_NAMES } from './priority-names.ts'
import { askForRun } from './run-ticket.tsx'
import type { TicketRow } from './ticket-rows.ts'

const LABELS_MAX = 2

export function TicketLine({ row, isChosen }: { readonly row: TicketRow; readonly isChosen: boolean }) {
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
        {run === undefined || hasEnded(run) ? <WhyNoRun ticket={ticket} run={run} /> : <RunWords run={run} />}
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
  readonly run: Run | undefined
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
            why.value = { reason: text.replace(/^run-[0-9a-f]{32} is \w+, and /, ''), cure: gate?.cure }
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
          <a href={runAddress(run.id)}>{glyphWord(run.status)}</a>{' '}
        </>
      )}
      <span class="quiet" title={words}>
        {words}
      </span>{' '}
      {why.value?.cure !== undefined && <Cure cure={why.value.cure} />}
    </>
  )
}
