/** The runs of a ticket, newest first. */
import type { Run, Ticket } from '../../../protocol/run.ts'
import { Glyph, glyphWord } from '../../elements/glyph.tsx'
import { Moment, Span } from '../../elements/moments.tsx'
import { Section } from '../../elements/page-head.tsx'
import { Failure } from '../../elements/placeholder.tsx'
import { formatMoney } from '../../text/amounts.ts'
import { runAddress } from '../addresses.ts'
import { waitWords } from '../overview/queue-groups.ts'
import { host } from '../state/host.ts'
import { runs } from '../state/records.ts'
import { useRequest } from '../state/use-request.ts'

const RUNS_MAX = 100

export function TicketRuns({ ticket }: { readonly ticket: Ticket }) {
  const live = [...runs.value.values()].filter((run) => run.ticket.id === ticket.id)
  const read = useRequest(`${ticket.identifier} ${live.length}`, (signal) =>
    host.listRuns({ ticket: ticket.identifier, limit: RUNS_MAX }, { signal }),
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
                <th>Took</th>
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

function RunLine({ run }: { readonly run: Run }) {
  const { id, status, createdAt, startedAt, finishedAt, error, result, costTotals } = run
  const words = status === 'queued' ? waitWords(run) : (error ?? result?.summary)
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
      <td class="nowrap">{startedAt === undefined ? '–' : <Span from={startedAt} to={finishedAt} />}</td>
      <td class="ellipsis said quiet" title={words}>
        {words ?? ''}
      </td>
      <td class="number">{formatMoney(costTotals)}</td>
    </tr>
  )
}
