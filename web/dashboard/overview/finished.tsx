/** Runs that have ended lately, the newest first, with what came of them. */
import { hasEnded } from '../../../client/run-events.ts'
import type { Run } from '../../../protocol/run.ts'
import type { StateGlyph } from '../../elements/glyph.tsx'
import { Age, Span } from '../../elements/moments.tsx'
import { Section } from '../../elements/page-head.tsx'
import { formatMoney } from '../../text/amounts.ts'
import { runAddress } from '../addresses.ts'
import { RunOutcome } from '../runs/run-outcome.tsx'
import { countOfToday, totals } from '../state/current-totals.ts'
import { runs } from '../state/records.ts'
import { chosenClass } from './chosen-run.ts'
import type { LeavingRuns } from './leaving.ts'
import { RowGlyph } from './row-glyph.tsx'

const SHOWN = 12
const endOf = (run: Run): string => run.finishedAt ?? run.createdAt

export function RecentlyFinished({ leaving }: { readonly leaving: LeavingRuns }) {
  const ended = [...runs.value.values()]
    .filter((run) => hasEnded(run) && !leaving.ids.value.has(run.id))
    .sort((a, b) => (endOf(a) > endOf(b) ? -1 : 1))
    .slice(0, SHOWN)
  if (ended.length === 0) return null
  return (
    <Section
      title="Recently finished"
      count={`${countOfToday(totals.value.finishedToday)} today`}
      aside={<a href="/runs?status=completed,failed,cancelled">All finished runs</a>}
    >
      <table class="card rows finished-rows" aria-label="Recently finished">
        <tbody>
          {ended.map((run) => (
            <FinishedRow key={run.id} run={run} />
          ))}
        </tbody>
      </table>
    </Section>
  )
}

function FinishedRow({ run }: { readonly run: Run }) {
  const { ticket, status } = run
  return (
    <tr data-run={run.id} class={chosenClass(run.id)}>
      <td class="glyph-cell">
        {/* The statuses of ended runs are glyphs of the same name. */}
        <RowGlyph run={run} name={status as StateGlyph} />
      </td>
      <td class="mono faint id-cell">{ticket.identifier}</td>
      <td class="row-title">
        <a class="row-link" href={runAddress(run.id)} title={ticket.title}>
          {ticket.title}
        </a>
      </td>
      <td class="outcome-cell">
        <RunOutcome run={run} />
      </td>
      <td class="wide-cell quiet">{ticket.repo}</td>
      <td class="wide-cell number quiet">
        <Span from={run.startedAt} to={run.finishedAt} />
      </td>
      <td class="number">{formatMoney(run.costTotals)}</td>
      <td class="number age-cell faint">
        <Age since={endOf(run)} />
      </td>
    </tr>
  )
}
