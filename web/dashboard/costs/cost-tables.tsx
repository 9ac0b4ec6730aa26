/** The tables of costs: by group, by day, the dearest runs; and the bars of another group. */
import { type CostSum, NO_KEY } from '../../../client/cost-sums.ts'
import { formatMoney } from '../../../protocol/format.ts'
import { Glyph } from '../../elements/glyph.tsx'
import { Section } from '../../elements/page-head.tsx'
import { countOf, formatCount, formatShare, formatSum, formatTokens } from '../../text/amounts.ts'
import { longDay } from '../../text/days.ts'
import { ageOf, formatDuration } from '../../text/times.ts'
import { runAddress } from '../addresses.ts'
import type { CostReport, ReportGroup, ReportRow } from './cost-report.ts'

export const GROUP_NAMES: Readonly<Record<ReportGroup, string>> = {
  agent: 'Agent',
  model: 'Model',
  repo: 'Repository',
}
const BARS_MAX = 7

/** All tokens that a model read, from a cache or not. */
const tokensRead = ({ inputTokens, cacheReadTokens, cacheWriteTokens }: CostSum): number =>
  inputTokens + cacheReadTokens + cacheWriteTokens

const cacheShare = (sum: CostSum): string =>
  tokensRead(sum) === 0 ? '–' : formatShare(sum.cacheReadTokens / tokensRead(sum))

const estimateOf = ({ costUsd, estimatedUsd }: CostSum): string =>
  estimatedUsd === undefined || !costUsd ? '' : formatShare(estimatedUsd / costUsd)

export function GroupTable({ report, by }: { readonly report: CostReport; readonly by: ReportGroup }) {
  const { rows, total } = report
  return (
    <Section title={`By ${GROUP_NAMES[by].toLowerCase()}`} aside="Sorted by cost">
      <div class="card scrolled">
        <table class="rows cost-table">
          <thead>
            <tr>
              <th>{GROUP_NAMES[by]}</th>
              {by !== 'agent' && <th class="cost-wide">Agent</th>}
              <AmountHeads isPerRun />
              <th class="cost-wide">Share</th>
            </tr>
          </thead>
          <tbody>
            {rows.map((row) => (
              <GroupLine key={row.key} row={row} by={by} />
            ))}
          </tbody>
          <tfoot>
            <tr>
              <th scope="row">All</th>
              {by !== 'agent' && <td class="cost-wide" />}
              <Amounts sum={total} perRun={{ costUsd: report.perRunUsd }} />
              <td class="cost-wide" />
            </tr>
          </tfoot>
        </table>
      </div>
    </Section>
  )
}

function GroupLine({ row, by }: { readonly row: ReportRow; readonly by: ReportGroup }) {
  const { label, agents, share, perRunUsd, isMadeUp } = row
  return (
    <tr>
      <th scope="row" class={by === 'model' ? 'mono' : ''}>
        {by === 'repo' && row.key !== NO_KEY ? (
          <a href={`/runs?repo=${encodeURIComponent(row.key)}`}>{label}</a>
        ) : (
          label
        )}{' '}
        {isMadeUp && <span class="tag">made up</span>}
      </th>
      {by !== 'agent' && <td class="quiet cost-wide">{agents.join(', ')}</td>}
      <Amounts sum={row} perRun={{ costUsd: perRunUsd }} />
      <td class="nowrap cost-wide">
        {share === undefined ? (
          <span class="quiet">–</span>
        ) : (
          <>
            <ShareBar share={share} /> <span class="quiet">{formatShare(share)}</span>
          </>
        )}
      </td>
    </tr>
  )
}

const AmountHeads = ({ isPerRun = false }: { readonly isPerRun?: boolean }) => (
  <>
    <th class="number">Runs</th>
    <th class="number">Input</th>
    <th class="number cost-wide">From cache</th>
    <th class="number cost-wide">Output</th>
    {isPerRun && <th class="number cost-wide">Per run</th>}
    <th class="number">Cost</th>
    <th class="number cost-wide">Estimated</th>
  </>
)

interface AmountsProps {
  readonly sum: CostSum
  /** Absent where no column has it. */
  readonly perRun?: { readonly costUsd: number | undefined }
}

function Amounts({ sum, perRun }: AmountsProps) {
  const estimated = sum.estimatedUsd !== undefined && sum.estimatedUsd === sum.costUsd
  return (
    <>
      <td class="number">{formatCount(sum.runs)}</td>
      <td class="number nowrap">{formatTokens(tokensRead(sum))}</td>
      <td class="number cost-wide">{cacheShare(sum)}</td>
      <td class="number nowrap cost-wide">{formatTokens(sum.outputTokens)}</td>
      {perRun !== undefined && (
        <td class="number cost-wide">
          {formatMoney(perRun.costUsd === undefined ? undefined : { costUsd: perRun.costUsd, estimated })}
        </td>
      )}
      <td class="number cost">{formatSum(sum)}</td>
      <td class="number quiet cost-wide">{estimateOf(sum)}</td>
    </>
  )
}

const ShareBar = ({ share }: { readonly share: number }) => (
  <svg class="share-bar" viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true">
    <rect class="rest" width="100" height="6" rx="1" />
    <rect class="part" width={Math.max(1, 100 * share)} height="6" rx="1" />
  </svg>
)

/** Another group beside the chart; its bars are relative to the largest. */
export function GroupBars({ report, by }: { readonly report: CostReport; readonly by: ReportGroup }) {
  const rows = report.rows.filter(({ costUsd }) => costUsd !== undefined)
  const most = rows[0]?.costUsd ?? 0
  const shown = rows.slice(0, BARS_MAX)
  return (
    <section class="card padded cost-bars" aria-label={`By ${GROUP_NAMES[by].toLowerCase()}`}>
      <header class="chart-head">
        <h2>By {GROUP_NAMES[by].toLowerCase()}</h2>
        <span class="faint">{report.days.length} days</span>
      </header>
      <ul>
        {shown.map((row) => (
          <li key={row.key}>
            <span class="ellipsis" title={row.label}>
              {row.label}
            </span>
            <span class="number">{formatSum(row)}</span>
            <ShareBar share={most === 0 ? 0 : (row.costUsd ?? 0) / most} />
          </li>
        ))}
      </ul>
      {rows.length > shown.length && <p class="quiet">{rows.length - shown.length} more</p>}
    </section>
  )
}

/** The table of the chart, newest day first. */
export function DayTable({ report: { byDay } }: { readonly report: CostReport }) {
  return (
    <Section title="By day" aside="Costs count on the day on which they were spent">
      <div class="card scrolled">
        <table class="rows cost-table">
          <thead>
            <tr>
              <th>Day</th>
              <AmountHeads />
            </tr>
          </thead>
          <tbody>
            {byDay.toReversed().map((sum) => (
              <tr key={sum.key} class={sum.runs === 0 ? 'faint' : ''}>
                <th scope="row">{longDay(sum.key)}</th>
                <Amounts sum={sum} />
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Section>
  )
}

export function DearestRuns({ report: { dearest, days } }: { readonly report: CostReport }) {
  if (dearest.length === 0) return null
  return (
    <Section title="Most expensive runs" count={countOf(days.length, 'day')}>
      <div class="card">
        <table class="rows dearest">
          <tbody>
            {dearest.map(({ run, sum }) => (
              <tr key={run.id}>
                <td>
                  <Glyph name={run.status} alone />
                </td>
                <td class="mono faint nowrap">{run.ticket.identifier}</td>
                <td class="ellipsis said">
                  <a class="row-link" href={runAddress(run.id)} title={run.ticket.title}>
                    {run.ticket.title}
                  </a>
                </td>
                <td class="quiet nowrap wide-cell">{run.ticket.repo}</td>
                <td class="number quiet nowrap">
                  {run.startedAt === undefined || run.finishedAt === undefined
                    ? ''
                    : formatDuration(ageOf(run.startedAt, Date.parse(run.finishedAt)))}
                </td>
                <td class="number cost">
                  {formatMoney({ ...sum, estimated: sum.estimatedUsd !== undefined })}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Section>
  )
}
