/** The page of a ticket: its text, what is between it and a worker, and its runs. */

import { HostRefusal } from '../../../client/errors.ts'
import { explanationOf } from '../../../client/explanation.ts'
import type { Run, Ticket } from '../../../protocol/run.ts'
import { useActs } from '../../elements/acts.ts'
import { Button } from '../../elements/button.tsx'
import { PageHead, Section } from '../../elements/page-head.tsx'
import { Empty, Failure, Skeleton } from '../../elements/placeholder.tsx'
import { showError, showOutcome } from '../../elements/toasts.ts'
import { navigate } from '../../router.ts'
import { countOf } from '../../text/amounts.ts'
import { runAddress } from '../addresses.ts'
import { GateList } from '../gates/gate-list.tsx'
import { Markdown } from '../markdown/markdown.tsx'
import type { PageProps } from '../pages.ts'
import { host } from '../state/host.ts'
import { runs, tickets, tracker } from '../state/records.ts'
import { useTickets } from '../state/tickets.ts'
import { useRequest } from '../state/use-request.ts'
import { askForRun } from './run-ticket.tsx'
import { TicketFacts } from './ticket-facts.tsx'
import { situationOf } from './ticket-rows.ts'
import { TicketRuns } from './ticket-runs.tsx'

const NOT_FOUND = 404

export function TicketPage({ params: { id = '' } }: PageProps) {
  useTickets()
  const known = tickets.value?.find((ticket) => ticket.id === id || ticket.identifier === id)
  const live = [...runs.value.values()].filter(({ ticket }) => ticket.id === (known?.id ?? id))
  // A change of its runs, its text or its eligibility may change what the host says.
  const version = [
    ...live.map(({ status, queueReason }) => `${status} ${queueReason}`),
    known?.updatedAt,
    tracker.value.state,
  ]
  const explained = useRequest(`${id} ${version.join(' ')}`, (signal) =>
    host.explainTicket({ id }, { signal }),
  )
  const answer = explained.data
  const ticket = known ?? answer?.ticket ?? answer?.run?.ticket ?? live[0]?.ticket
  if (ticket === undefined) {
    if (explained.error === undefined) return <Skeleton rows={6} />
    if (explained.error instanceof HostRefusal && explained.error.status === NOT_FOUND)
      return <NoTicket id={id} />
    return <Failure error={explained.error} retry={explained.reload} />
  }
  return (
    <>
      <TicketHead ticket={ticket} runs={live} />
      <div class="with-aside">
        <div>
          {answer !== undefined && (
            <Section title={gatesTitle(answer.run)}>
              <p class="ticket-answer">{sentence(explanationOf(answer, ticket.identifier))}</p>
              {answer.gates.length > 0 && <GateList gates={answer.gates} />}
            </Section>
          )}
          <TicketRuns ticket={ticket} />
          <Section title="Description">
            <div class="card padded">
              {ticket.description.trim() === '' ? (
                <span class="quiet">The ticket has no description.</span>
              ) : (
                <Markdown text={ticket.description} />
              )}
            </div>
          </Section>
        </div>
        <TicketFacts ticket={ticket} />
      </div>
    </>
  )
}

function gatesTitle(run: Run | undefined): string {
  if (run === undefined) return 'Why it has no run'
  return situationOf(run) === 'none' ? 'Gates to another run' : 'Gates to a worker'
}

const sentence = (text: string): string => (/[.!?]$/.test(text) ? text : `${text}.`)

function TicketHead({ ticket, runs: own }: { readonly ticket: Ticket; readonly runs: readonly Run[] }) {
  const { identifier, title, state } = ticket
  const active = own.find((run) => situationOf(run) !== 'none')
  const unavailable =
    active === undefined ? undefined : `${identifier} has an active run, which is ${active.status}.`
  const copyLink = async () => {
    await navigator.clipboard.writeText(location.href)
    showOutcome('The link is copied.')
  }
  const group = `Actions on ${identifier}`
  useActs([
    {
      id: 'run ticket',
      title: `Start a run of ${identifier}`,
      group,
      keys: 'r',
      unavailable,
      act: () => askForRun(ticket),
    },
    {
      id: 'copy link',
      title: `Copy the link to ${identifier}`,
      group,
      keys: 'y',
      act: () => copyLink().catch(showError),
    },
    ...(active === undefined
      ? []
      : [{ id: 'open run', title: 'Open its run', group, act: () => navigate(runAddress(active.id)) }]),
    { id: 'back', title: 'Back to the tickets', group, keys: 'Escape', act: () => navigate('/tickets') },
  ])
  return (
    <PageHead
      title={`${identifier} ${title}`}
      beside={state}
      acts={
        <Button kind="primary" unavailable={unavailable} act={() => askForRun(ticket)}>
          Start run
        </Button>
      }
    />
  )
}

const NoTicket = ({ id }: { readonly id: string }) => (
  <>
    <PageHead title="No such ticket" />
    <Empty
      title={`No ticket is called ${id}`}
      button={
        <a class="button" href="/tickets">
          Show the eligible tickets
        </a>
      }
    >
      It is neither among the {countOf(tracker.value.seen ?? tickets.value?.length ?? 0, 'ticket')} of the
      last poll nor has it a run.
    </Empty>
  </>
)
