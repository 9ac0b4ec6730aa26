/** The costs of the last days: figures, a chart by day, and tables by group, by day and of the dearest runs. */

import { useSignal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import { useEffect, useMemo, useRef } from 'preact/hooks'
import type { CostSum, SpentCost } from '../../../client/cost-sums.ts'
import { formatMoney, formatUsd } from '../../../protocol/format.ts'
import { Button } from '../../elements/button.tsx'
import { Segments } from '../../elements/field.tsx'
import { now } from '../../elements/moments.tsx'
import { PageHead } from '../../elements/page-head.tsx'
import { Empty, Failure, Skeleton } from '../../elements/placeholder.tsx'
import { address, changeQuery } from '../../router.ts'
import { countOf, formatShare, formatSum } from '../../text/amounts.ts'
import { dayOfInstant, longDay, midnightBefore, rangeOfDays } from '../../text/days.ts'
import { FOR_ROWS, host } from '../state/host.ts'
import { preferences } from '../state/preferences.ts'
import { addRuns } from '../state/read-missing-runs.ts'
import { sumOfToday, useSpentSince } from '../state/spent.ts'
import { type Request, useRequest } from '../state/use-request.ts'
import type { CostChartDrawing } from './chart-drawing.ts'
import {
  type ChartSeries,
  type CostReport,
  completedFigures,
  costCsv,
  daysUntil,
  mergedFigures,
  type ReportGroup,
  reportOf,
} from './cost-report.ts'
import { DayTable, DearestRuns, GROUP_NAMES, GroupBars, GroupTable } from './cost-tables.tsx'

const RANGES = ['7', '14', '30', '90'] as const
type Range = (typeof RANGES)[number]
const GROUPS = ['agent', 'model', 'repo'] as const
const RANGE_DEFAULT: Range = '14'
const GROUP_DEFAULT: ReportGroup = 'agent'

export function CostsPage() {
  const { query } = address.value
  const range = RANGES.find((known) => known === query.get('days')) ?? RANGE_DEFAULT
  const by = GROUPS.find((known) => known === query.get('by')) ?? GROUP_DEFAULT
  const since = midnightBefore(now.value, Number(range) - 1)
  const all = useAllRuns()
  const spent = useSpentSince(all.data && since)
  const days = useMemo(() => daysUntil(now.value, Number(range)), [since, range])
  const report = useMemo(() => spent && reportOf(spent, by, days), [spent, by, days])
  const [first = '', last = ''] = [days[0], days.at(-1)]
  return (
    <>
      <PageHead
        title="Costs"
        beside={rangeOfDays(first, last)}
        acts={
          <>
            <Segments
              label="Range"
              value={range}
              options={RANGES.map((count) => [count, `${count} days`] as const)}
              choose={(days) => changeQuery({ days: days === RANGE_DEFAULT ? undefined : days })}
            />
            <Segments
              label="Grouped by"
              value={by}
              options={GROUPS.map((group) => [group, GROUP_NAMES[group]] as const)}
              choose={(group) => changeQuery({ by: group === GROUP_DEFAULT ? undefined : group })}
            />
            <Button
              unavailable={spent === undefined ? 'The costs are being read.' : undefined}
              act={() => saveCsv(costCsv(spent ?? [], by), `costs-${first}-${last}-by-${by}.csv`)}
            >
              Export CSV
            </Button>
          </>
        }
      />
      {all.error !== undefined && <Failure error={all.error} retry={all.reload} />}
      {report === undefined || spent === undefined ? (
        all.error === undefined && <Skeleton rows={8} />
      ) : (
        <Report report={report} spent={spent} by={by} since={since} />
      )}
    </>
  )
}

interface ReportProps {
  readonly report: CostReport
  readonly spent: readonly SpentCost[]
  readonly by: ReportGroup
  readonly since: number
}

function Report({ report, spent, by, since }: ReportProps) {
  const today = useMemo(() => sumOfToday(spent), [spent])
  const beside: ReportGroup = by === 'repo' ? 'agent' : 'repo'
  const besideReport = useMemo(() => reportOf(spent, beside, report.days), [spent, beside, report])
  if (report.total.runs === 0) return <NothingSpent days={report.days.length} />
  return (
    <>
      <CostFigures report={report} spent={spent} today={today} since={since} />
      <div class="cost-columns">
        <CostChart report={report} title={`By day and ${GROUP_NAMES[by].toLowerCase()}`} />
        <GroupBars report={besideReport} by={beside} />
      </div>
      <Remarks report={report} />
      <GroupTable report={report} by={by} />
      <DayTable report={report} />
      <DearestRuns report={report} />
    </>
  )
}

/** Sentences about what the amounts leave out, and what of them nobody has paid. */
function Remarks({ report: { unpricedRuns, madeUpUsd, total } }: { readonly report: CostReport }) {
  // Made-up amounts count as estimates too, and no table of prices made them.
  const estimated = (total.estimatedUsd ?? 0) - madeUpUsd
  const remarks = [
    unpricedRuns === 0
      ? ''
      : `${countOf(unpricedRuns, 'run reports', 'runs report')} tokens only and ${unpricedRuns === 1 ? 'is' : 'are'} not in the amounts.`,
    madeUpUsd === 0 ? '' : `${formatUsd(madeUpUsd)} is made up by the scripted agent, which asks no model.`,
    estimated <= 0 || !total.costUsd
      ? ''
      : `${formatShare(estimated / total.costUsd)} of the sum is estimated from a table of prices (hatched, and marked with ~).`,
  ].filter(Boolean)
  return remarks.length === 0 ? null : <p class="cost-remarks quiet">{remarks.join(' ')}</p>
}

const NothingSpent = ({ days }: { readonly days: number }) => (
  <Empty title={`No run has cost anything in the last ${days} days`}>
    Costs appear as soon as an agent reports its tokens.
  </Empty>
)

function saveCsv(text: string, name: string): void {
  const url = URL.createObjectURL(new Blob([text], { type: 'text/csv' }))
  const link = document.createElement('a')
  link.href = url
  link.download = name
  link.click()
  URL.revokeObjectURL(url)
}

// ---- figures -------------------------------------------------------------------------------------------------------

interface FiguresProps {
  readonly report: CostReport
  readonly spent: readonly SpentCost[]
  readonly today: CostSum
  readonly since: number
}

/** The four figures of the page of costs. */
function CostFigures({ report, spent, today, since }: FiguresProps) {
  const { total, days } = report
  const completed = completedFigures(spent, since)
  const merged = mergedFigures(spent)
  return (
    <dl class="card cost-figures">
      <Figure name="Today" amount={formatSum(today)}>
        {today.runs === 0 ? 'no run yet' : describeSum(today, isMadeUp(spent, days.at(-1)))}
      </Figure>
      <Figure name={`${days.length} days`} amount={formatSum(total)}>
        {describeSum(total, isMadeUp(spent))}
      </Figure>
      <Figure name="A completed run" amount={money(completed.medianUsd, completed.hasEstimates)}>
        {completed.highUsd === undefined
          ? 'no completed run with an amount'
          : `median; 95% are under ${money(completed.highUsd, completed.hasEstimates)}`}
      </Figure>
      <Figure name="A merged pull request" amount={money(merged.averageUsd, merged.hasEstimates)}>
        {merged.merged === 0
          ? 'none was merged'
          : `average of ${merged.merged}; reruns and follow-ups included`}
      </Figure>
    </dl>
  )
}

interface CostFigureProps {
  readonly name: string
  readonly amount: string
  readonly children: ComponentChildren
}

const Figure = ({ name, amount, children }: CostFigureProps) => (
  <div>
    <dt>{name}</dt>
    <dd class="figure">{amount}</dd>
    <dd class="quiet">{children}</dd>
  </div>
)

const money = (costUsd: number | undefined, estimated: boolean): string =>
  formatMoney(costUsd === undefined ? undefined : { costUsd, estimated })

/** @param day only the costs of that day */
const isMadeUp = (spent: readonly SpentCost[], day?: string): boolean =>
  spent.every(
    ({ entry, at }) => entry.source === 'example' || (day !== undefined && dayOfInstant(at) !== day),
  )

function describeSum({ runs, costUsd, estimatedUsd }: CostSum, madeUp: boolean): string {
  if (madeUp) return `${countOf(runs, 'run')}, made up`
  const share =
    estimatedUsd === undefined || !costUsd ? '' : `, ${formatShare(estimatedUsd / costUsd)} estimated`
  return `${countOf(runs, 'run')}${share}`
}

// ---- all runs ------------------------------------------------------------------------------------------------------

const PAGE = 500

/**
 * Has its data once all runs of the host are among the records: an old run may have cost something of late.
 */
function useAllRuns(): Request<true> {
  const isRead = useRef(false)
  return useRequest('all runs', async (signal) => {
    if (!isRead.current) await readAll(signal)
    isRead.current = true
    return true as const
  })
}

async function readAll(signal: AbortSignal): Promise<void> {
  let before: string | undefined
  for (;;) {
    const place = before === undefined ? {} : { before }
    const page = await host.listRuns({ ...FOR_ROWS, limit: PAGE, ...place }, { signal })
    signal.throwIfAborted()
    addRuns(page)
    before = page.at(-1)?.id
    if (page.length < PAGE) return
  }
}

// ---- the chart -----------------------------------------------------------------------------------------------------

/** The costs of each day as stacked bars. The drawing is loaded when it is first shown; its table stands below it. */
function CostChart({ report, title }: { readonly report: CostReport; readonly title: string }) {
  const frame = useRef<HTMLDivElement>(null)
  const drawing = useRef<CostChartDrawing | undefined>(undefined)
  const pointed = useSignal<number | undefined>(undefined)
  const error = useSignal<string | undefined>(undefined)
  const newest = useRef(report)
  newest.current = report
  useEffect(() => {
    let isShown = true
    import('./chart-drawing.ts').then(
      ({ CostChartDrawing: Drawing }) => {
        if (!isShown || frame.current === null) return
        drawing.current = new Drawing(frame.current, newest.current, (day) => {
          pointed.value = day
        })
      },
      () => {
        error.value = 'The chart could not be loaded. The table below has the same figures.'
      },
    )
    return () => {
      isShown = false
      drawing.current?.close()
      drawing.current = undefined
    }
  }, [])
  useEffect(() => drawing.current?.show(report), [report])
  const { theme } = preferences.value
  useEffect(() => drawing.current?.redraw(), [theme])
  return (
    <figure class="card cost-chart">
      <figcaption class="chart-head">
        <h2>{title}</h2>
        <Legend series={report.series} />
      </figcaption>
      {error.value !== undefined && <p class="quiet">{error.value}</p>}
      <div ref={frame} class="chart-frame" role="img" aria-label={describeChart(report)} />
      <Readout report={report} day={pointed.value} />
    </figure>
  )
}

/** Swatches have the patterns of the bars. */
function Legend({ series }: { readonly series: readonly ChartSeries[] }) {
  const keys = [...new Set(series.map(({ key }) => key))]
  return (
    <ul class="legend">
      {series.map(({ key, label, isEstimated }) => (
        <li key={`${key} ${isEstimated}`}>
          <svg class={`swatch series-${keys.indexOf(key)}`} viewBox="0 0 12 12" aria-hidden="true">
            {isEstimated ? (
              <>
                <rect x="0.75" y="0.75" width="10.5" height="10.5" rx="2" fill="none" stroke="currentColor" />
                <path d="M1 7L7 1M2.5 11L11 2.5M7.5 11L11 7.5" stroke="currentColor" stroke-width="1.4" />
              </>
            ) : (
              <rect width="12" height="12" rx="2" fill="currentColor" />
            )}
          </svg>
          {label}
          {isEstimated && ', estimated'}
        </li>
      ))}
    </ul>
  )
}

/** The figures of the day under the pointer, or nothing: the table has them for everyone else. */
function Readout({ report, day }: { readonly report: CostReport; readonly day: number | undefined }) {
  const name = day === undefined ? undefined : report.days[day]
  if (day === undefined || name === undefined) return <p class="readout" aria-hidden="true" />
  const parts = report.series.flatMap(({ label, isEstimated, amounts }) => {
    const amount = amounts[day] ?? 0
    return amount === 0 ? [] : [`${label} ${isEstimated ? '~' : ''}${formatUsd(amount)}`]
  })
  return (
    <p class="readout" aria-hidden="true">
      <strong>{longDay(name)}</strong> {parts.length === 0 ? 'nothing' : parts.join(', ')}
    </p>
  )
}

function describeChart({ days, byDay, total }: CostReport): string {
  const [first, last] = [days[0], days.at(-1)]
  if (first === undefined || last === undefined) return 'No days'
  const highest = byDay.reduce((a, b) => ((b.costUsd ?? 0) > (a.costUsd ?? 0) ? b : a))
  const sum = total.costUsd === undefined ? 'nothing with an amount' : formatUsd(total.costUsd)
  return `Bars of ${days.length} days, ${sum} in all; the highest is ${longDay(highest.key)} with ${formatUsd(highest.costUsd ?? 0)}. The table by day has all of them.`
}
