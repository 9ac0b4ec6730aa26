/** The four figures of the page of costs. */
import type { ComponentChildren } from 'preact'
import type { CostSum } from '../../../client/cost-sums.ts'
import type { SpentCost } from '../../../client/spent-costs.ts'
import { countOf, formatMoney, formatShare, formatSum } from '../../text/amounts.ts'
import { dayOfInstant } from '../../text/days.ts'
import { type CostReport, completedFigures, mergedFigures } from './cost-report.ts'

interface FiguresProps {
  readonly report: CostReport
  readonly spent: readonly SpentCost[]
  readonly today: CostSum
  readonly since: number
}

export function CostFigures({ report, spent, today, since }: FiguresProps) {
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
