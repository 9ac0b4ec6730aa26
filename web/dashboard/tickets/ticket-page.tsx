/** The page of a ticket: its text, what is between it and a worker, and its runs. */

import { type ReadonlySignal, useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { productName } from '../../../client/agent-names.ts'
import { explanationOf } from '../../../client/explanation.ts'
import { changedNothing, UNCHANGED_WORDS } from '../../../protocol/changed-nothing.ts'
import { formatMoney } from '../../../protocol/format.ts'
import type { Run, Ticket } from '../../../protocol/run.ts'
import { situationOf } from '../../../protocol/ticket-filter.ts'
import { useActs } from '../../elements/acts.ts'
import { Button } from '../../elements/button.tsx'
import { Fact } from '../../elements/fact.tsx'
import { Glyph, glyphWord, Icon } from '../../elements/glyph.tsx'
import { Moment, Span } from '../../elements/moments.tsx'
import { PageHead, Section } from '../../elements/page-head.tsx'
import { Failure, isNotFound, NotFound, Skeleton } from '../../elements/placeholder.tsx'
import { showError, showOutcome } from '../../elements/toasts.ts'
import { navigate } from '../../router.ts'
import { countOf } from '../../text/amounts.ts'
import { decodeOrKeep } from '../../text/decode.ts'
import { withPeriod } from '../../text/sentences.ts'
import { runAddress, ticketAddress } from '../addresses.ts'
import { GateList } from '../gates/gate-list.tsx'
import { Markdown } from '../markdown/markdown.tsx'
import { waitWords } from '../overview/queue-groups.ts'
import type { PageProps } from '../pages.ts'
import { askForRun } from '../runs/run-options.tsx'
import { FOR_ROWS, host } from '../state/host.ts'
import { watchFrames } from '../state/live.ts'
import { runs, tracker } from '../state/records.ts'
import { tickets } from '../state/tickets.ts'
import { type Request, useRequest } from '../state/use-request.ts'
import { PRIORITY_NAMES } from '../tracker-words.ts'

export function TicketPage({ params: { id = '' } }: PageProps) {
  const known = tickets.value.get(id)
  const ticketId = useSignal(id)
  const live = [...runs.value.values()].filter(({ ticket }) => ticket.id === (known?.id ?? id))
  // A change of its runs, its text or its eligibility may change what the host says.
  const version = [
    ...live.map(({ status, queueReason }) => `${status} ${queueReason}`),
    useChangesOf(ticketId),
    tracker.value.state,
  ]
  const explained = useRequest(`${id} ${version.join(' ')}`, (signal) =>
    host.explainTicket({ id }, { signal }),
  )
  const answer = explained.data
  ticketId.value = answer?.ticket?.id ?? id
  const ticket = answer?.ticket ?? known ?? answer?.run?.ticket ?? live[0]?.ticket
  // The tickets of lists have no descriptions.
  const description = (answer?.ticket ?? answer?.run?.ticket)?.description
  if (ticket === undefined) {
    if (explained.error === undefined) return <Skeleton rows={6} />
    if (isNotFound(explained.error)) return <NoTicket id={id} />
    return <Failure error={explained.error} retry={explained.reload} />
  }
  return (
    <>
      <TicketHead ticket={ticket} runs={live} />
      <div class="with-aside">
        <div>
          {answer !== undefined && (
            <Section title={gatesTitle(answer.run)}>
              <p class="ticket-answer">{withPeriod(explanationOf(answer, ticket.identifier, productName))}</p>
              {answer.gates.length > 0 && <GateList gates={answer.gates} />}
            </Section>
          )}
          <TicketRuns ticket={ticket} />
          <Section title="Description">
            <div class="card padded">
              {description === undefined ? (
                <NotRead {...explained} />
              ) : description.trim() === '' ? (
                <span class="quiet">The ticket has no description.</span>
              ) : (
                <Markdown text={description} />
              )}
            </div>
          </Section>
        </div>
        <TicketFacts ticket={ticket} />
      </div>
    </>
  )
}

const NotRead = ({ error, reload }: Pick<Request<unknown>, 'error' | 'reload'>) =>
  error === undefined ? <Skeleton rows={3} /> : <Failure error={error} retry={reload} />

/** How often the ticket has changed, become eligible, or ceased to be. */
function useChangesOf(ticketId: ReadonlySignal<string>): number {
  const changes = useSignal(0)
  useEffect(
    () =>
      watchFrames((frame) => {
        if (frame.type !== 'tickets-changed') return
        const id = ticketId.peek()
        if (frame.removed.includes(id) || frame.changed.some((ticket) => ticket.id === id)) changes.value += 1
      }),
    [],
  )
  return changes.value
}

function gatesTitle(run: Run | undefined): string {
  if (run === undefined) return 'Why it has no run'
  return situationOf(run) === 'none' ? 'Gates to another run' : 'Gates to a worker'
}

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
  <NotFound
    noun="ticket"
    title={`No ticket is called ${id}`}
    link={{ to: '/tickets', text: 'Show the eligible tickets' }}
  >
    It is neither among the {countOf(tracker.value.seen ?? 0, 'ticket')} of the last poll nor has it a run.
  </NotFound>
)

// ---- facts ---------------------------------------------------------------------------------------------------------

const PAGE = /^https?:/

/** The facts of a ticket beside its text. */
function TicketFacts({ ticket }: { readonly ticket: Ticket }) {
  const { state, priority, repo, labels, assignee, project, branchName, blockedBy } = ticket
  return (
    <aside class="card padded ticket-facts" aria-label={`Facts about ${ticket.identifier}`}>
      <dl class="facts">
        <Fact name="State">{state}</Fact>
        <Fact name="Priority">{PRIORITY_NAMES[priority]}</Fact>
        <Fact name="Repository">{repo ?? <span class="quiet">by its project and labels</span>}</Fact>
        <Fact name="Labels">
          {labels.length === 0 ? (
            'none'
          ) : (
            <span class="tags">
              {labels.map((label) => (
                <a class="tag" key={label} href={`/tickets?label=${encodeURIComponent(label)}`}>
                  {label}
                </a>
              ))}
            </span>
          )}
        </Fact>
        <Fact name="Project">{project ?? 'none'}</Fact>
        <Fact name="Assignee">{assignee ?? 'nobody'}</Fact>
        {branchName !== undefined && (
          <Fact name="Branch">
            <code>{branchName}</code>
          </Fact>
        )}
        {blockedBy.length > 0 && (
          <Fact name="Blocked by">
            {blockedBy.map((id) => (
              <Blocker key={id} id={id} />
            ))}
          </Fact>
        )}
        <Fact name="Created">
          <Moment at={ticket.createdAt} />
        </Fact>
        <Fact name="Changed">
          <Moment at={ticket.updatedAt} />
        </Fact>
      </dl>
      <Origin url={ticket.url} />
    </aside>
  )
}

function Blocker({ id }: { readonly id: string }) {
  const ticket = useRequest(id, (signal) => host.explainTicket({ id }, { signal })).data?.ticket
  return (
    <div>
      <a href={ticketAddress(id)} title={ticket?.title}>
        {ticket?.identifier ?? id}
      </a>{' '}
      {ticket !== undefined && <span class="quiet">{ticket.state}</span>}
    </div>
  )
}

/** A page opens no files of the machine, so the path of a file is text. */
function Origin({ url }: Pick<Ticket, 'url'>) {
  if (url === '') return null
  if (PAGE.test(url))
    return (
      <a href={url} target="_blank" rel="noopener noreferrer">
        Open in the tracker <Icon name="external" />
      </a>
    )
  return <code class="faint origin">{decodeOrKeep(url.replace(/^file:\/\//, ''))}</code>
}

// ---- runs ----------------------------------------------------------------------------------------------------------

const RUNS_MAX = 100

/** The runs of a ticket, newest first. */
function TicketRuns({ ticket }: { readonly ticket: Ticket }) {
  const live = [...runs.value.values()].filter((run) => run.ticket.id === ticket.id)
  const read = useRequest(`${ticket.identifier} ${live.length}`, (signal) =>
    host.listRuns({ ...FOR_ROWS, ticket: ticket.identifier, limit: RUNS_MAX }, { signal }),
  )
  // Pushed runs are newer than those that were read.
  const byId = new Map([...(read.data ?? []), ...live].map((run) => [run.id, run]))
  const shown = [...byId.values()].toSorted((a, b) => b.createdAt.localeCompare(a.createdAt))
  if (shown.length === 0 && read.error === undefined) return null
  return (
    <Section title="Runs" count={shown.length}>
      {read.error !== undefined && <Failure error={read.error} retry={read.reload} />}
      {shown.length > 0 && (
        <div class="card scrolled">
          <table class="rows">
            <thead>
              <tr>
                <th>State</th>
                <th>Began</th>
                <th class="run-took">Took</th>
                <th>Outcome</th>
                <th class="number">Cost</th>
              </tr>
            </thead>
            <tbody>
              {shown.map((run) => (
                <RunLine key={run.id} run={run} />
              ))}
            </tbody>
          </table>
        </div>
      )}
    </Section>
  )
}

function resultWords(run: Run): string | undefined {
  const summary = run.result?.summary
  if (!changedNothing(run)) return summary
  return summary === undefined ? UNCHANGED_WORDS : `${UNCHANGED_WORDS}: ${summary}`
}

function RunLine({ run }: { readonly run: Run }) {
  const { id, status, createdAt, startedAt, finishedAt, error, costTotals } = run
  const words = status === 'queued' ? waitWords(run) : (error ?? resultWords(run))
  return (
    <tr>
      <td class="nowrap">
        <a href={runAddress(id)}>
          <Glyph name={status} /> {glyphWord(status)}
        </a>
      </td>
      <td class="nowrap">
        <Moment at={startedAt ?? createdAt} />
      </td>
      <td class="nowrap run-took">
        {startedAt === undefined ? '–' : <Span from={startedAt} to={finishedAt} />}
      </td>
      <td class="ellipsis said quiet" title={words}>
        {words ?? ''}
      </td>
      <td class="number">{formatMoney(costTotals)}</td>
    </tr>
  )
}
