/** The costs of the last days: figures, a chart by day, and tables by group, by day and of the dearest runs. */
import { useMemo } from 'preact/hooks'
import type { SpentCost } from '../../../client/spent-costs.ts'
import { Button } from '../../elements/button.tsx'
import { now } from '../../elements/moments.tsx'
import { PageHead } from '../../elements/page-head.tsx'
import { Empty, Failure, Skeleton } from '../../elements/placeholder.tsx'
import { Segments } from '../../elements/segments.tsx'
import { address, changeQuery } from '../../router.ts'
import { countOf, formatShare, formatUsd } from '../../text/amounts.ts'
import { midnightBefore, rangeOfDays } from '../../text/days.ts'
import { sumOfToday, useSpentSince } from '../state/spent.ts'
import { useAllRuns } from './all-runs.ts'
import { CostChart } from './cost-chart.tsx'
import { costCsv } from './cost-csv.ts'
import { CostFigures } from './cost-figures.tsx'
import { type CostReport, daysUntil, type ReportGroup, reportOf } from './cost-report.ts'
import { DayTable, DearestRuns, GroupBars, GroupTable } from './cost-tables.tsx'

const RANGES = ['7', '14', '30', '90'] as const
type Range = (typeof RANGES)[number]
const GROUPS: readonly (readonly [ReportGroup, string])[] = [
  ['agent', 'Agent'],
  ['model', 'Model'],
  ['repo', 'Repository'],
]
const RANGE_DEFAULT: Range = '14'
const GROUP_DEFAULT: ReportGroup = 'agent'

export function CostsPage() {
  const { query } = address.value
  const range = RANGES.find((known) => known === query.get('days')) ?? RANGE_DEFAULT
  const by = GROUPS.find(([known]) => known === query.get('by'))?.[0] ?? GROUP_DEFAULT
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
              options={GROUPS}
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
        <CostChart report={report} title={`By day and ${GROUP_WORDS[by]}`} />
        <GroupBars report={besideReport} by={beside} />
      </div>
      <Remarks report={report} />
      <GroupTable report={report} by={by} />
      <DayTable report={report} />
      <DearestRuns report={report} />
    </>
  )
}

const GROUP_WORDS: Readonly<Record<ReportGroup, string>> = {
  agent: 'agent',
  model: 'model',
  repo: 'repository',
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
