/** Derives everything that the page of costs shows from what was spent: figures, stacks of days, rows, dear runs. */
import { productName } from '../../../client/agent-names.ts'
import type { SpentCost } from '../../../client/cost-sums.ts'
import {
  type CostPart,
  type CostSum,
  groupParts,
  isUnpriced,
  NO_KEY,
  partsOf,
  sumOf,
} from '../../../client/cost-sums.ts'
import type { CostGroup } from '../../../protocol/cost-groups.ts'
import type { Run } from '../../../protocol/run.ts'
import { dayOfInstant, midnightBefore } from '../../text/days.ts'

export type ReportGroup = Exclude<CostGroup, 'day'>

export interface ReportRow extends CostSum {
  readonly label: string
  /** The agents that the row's costs are of. */
  readonly agents: readonly string[]
  /** The part of the whole, where both amounts are known. */
  readonly share?: number
  /** The dollars of a run, among those with an amount. */
  readonly perRunUsd?: number
  /** All amounts are made up by the scripted agent. */
  readonly isMadeUp: boolean
}

export interface ChartSeries {
  readonly key: string
  readonly label: string
  readonly isEstimated: boolean
  /** Dollars of each day, in the order of the days. */
  readonly amounts: readonly number[]
}

export interface CostReport {
  /** The local days of the range, oldest first. */
  readonly days: readonly string[]
  readonly series: readonly ChartSeries[]
  readonly byDay: readonly CostSum[]
  readonly rows: readonly ReportRow[]
  readonly total: CostSum
  /** The dollars of a run, among those with an amount. */
  readonly perRunUsd: number | undefined
  readonly dearest: readonly { readonly run: Run; readonly sum: CostSum }[]
  /** Runs that report tokens only. */
  readonly unpricedRuns: number
  readonly madeUpUsd: number
}

/** More series become one. */
const SERIES_MAX = 4
const OTHER = 'Other'
const DEAREST_MAX = 5

/** @param spent since the beginning of the first day */
export function reportOf(spent: readonly SpentCost[], by: ReportGroup, days: readonly string[]): CostReport {
  const parts = spent.flatMap((cost) => partsOf(cost, by, dayOfInstant))
  const total = sumOf('total', parts)
  const rows = groupParts(parts)
    .map((sum) =>
      rowOf(
        sum,
        parts.filter(({ key }) => key === sum.key),
        by,
        total,
      ),
    )
    .sort(byCost)
  const sums = new Map(groupParts(parts.map(onItsDay)).map((sum) => [sum.key, sum]))
  return {
    days,
    series: seriesOf(parts, rows, days),
    byDay: days.map((day) => sums.get(day) ?? sumOf(day, [])),
    rows,
    total,
    perRunUsd: perRunOf(parts),
    dearest: dearestOf(parts),
    unpricedRuns: new Set(parts.filter(isUnpriced).map(({ run }) => run.id)).size,
    madeUpUsd: sumOf('', parts.filter(isMadeUp)).costUsd ?? 0,
  }
}

/** The local days up to today, oldest first. */
export const daysUntil = (now: number, count: number): string[] =>
  Array.from({ length: count }, (_, at) => dayOfInstant(midnightBefore(now, count - 1 - at)))

const onItsDay = (part: CostPart): CostPart => ({ ...part, key: dayOfInstant(part.at) })
const isMadeUp = ({ source }: CostPart): boolean => source === 'example'
const byCost = (a: CostSum, b: CostSum): number =>
  (b.costUsd ?? -1) - (a.costUsd ?? -1) || (a.key < b.key ? -1 : 1)

function rowOf(sum: CostSum, parts: readonly CostPart[], by: ReportGroup, total: CostSum): ReportRow {
  const { costUsd } = sum
  const perRunUsd = perRunOf(parts)
  return {
    ...sum,
    label: labelOf(sum.key, by),
    agents: [...new Set(parts.map(({ provider }) => productName(provider)))].sort(),
    isMadeUp: parts.length > 0 && parts.every(isMadeUp),
    ...(costUsd === undefined || !total.costUsd ? {} : { share: costUsd / total.costUsd }),
    ...(perRunUsd === undefined ? {} : { perRunUsd }),
  }
}

function perRunOf(parts: readonly CostPart[]): number | undefined {
  const { costUsd, runs } = sumOf(
    '',
    parts.filter((part) => !isUnpriced(part)),
  )
  return costUsd === undefined ? undefined : costUsd / runs
}

const UNKNOWN: Readonly<Record<ReportGroup, string>> = {
  agent: 'Unknown agent',
  model: 'Unknown model',
  repo: 'No repository',
}
const labelOf = (key: string, by: ReportGroup): string =>
  key === NO_KEY || key === '' ? UNKNOWN[by] : by === 'agent' ? productName(key) : key

/** Billed amounts of the largest groups first, then estimated ones, so that hatching lies on top. */
function seriesOf(
  parts: readonly CostPart[],
  rows: readonly ReportRow[],
  days: readonly string[],
): ChartSeries[] {
  const priced = rows.filter(({ costUsd }) => costUsd !== undefined && costUsd > 0)
  const own = new Map(
    priced
      .slice(0, priced.length > SERIES_MAX ? SERIES_MAX - 1 : SERIES_MAX)
      .map((row) => [row.key, row.label]),
  )
  const column = new Map(days.map((day, at) => [day, at]))
  const amounts = new Map<string, number[]>()
  for (const part of parts) {
    const at = column.get(dayOfInstant(part.at))
    if (at === undefined || part.costUsd === undefined) continue
    const key = `${part.estimated ? '~' : ' '}${own.has(part.key) ? part.key : OTHER}`
    const row = amounts.get(key) ?? days.map(() => 0)
    row[at] = (row[at] ?? 0) + part.costUsd
    amounts.set(key, row)
  }
  const keys = [...own.keys(), OTHER]
  return [false, true].flatMap((isEstimated) =>
    keys.flatMap((key) => {
      const found = amounts.get(`${isEstimated ? '~' : ' '}${key}`)
      if (found === undefined) return []
      return [{ key, label: own.get(key) ?? OTHER, isEstimated, amounts: found }]
    }),
  )
}

function dearestOf(parts: readonly CostPart[]): CostReport['dearest'] {
  const byRun = new Map<string, CostPart[]>()
  for (const part of parts) {
    const members = byRun.get(part.run.id)
    if (members === undefined) byRun.set(part.run.id, [part])
    else members.push(part)
  }
  return [...byRun.values()]
    .flatMap((members) => {
      const run = members[0]?.run
      const sum = sumOf(run?.id ?? '', members)
      return run === undefined || sum.costUsd === undefined ? [] : [{ run, sum }]
    })
    .sort((a, b) => byCost(a.sum, b.sum))
    .slice(0, DEAREST_MAX)
}

// ---- figures -------------------------------------------------------------------------------------------------------

/** The cost of a completed run: of all its executions, whenever they were. 95% of the runs cost at most `highUsd`. */
export function completedFigures(spent: readonly SpentCost[], since: number) {
  const known = runsOf(spent).filter(
    ({ status, finishedAt, costTotals }) =>
      status === 'completed' &&
      finishedAt !== undefined &&
      Date.parse(finishedAt) >= since &&
      costTotals?.costUsd !== undefined,
  )
  const amounts = known.map(({ costTotals }) => costTotals?.costUsd ?? 0).sort((a, b) => a - b)
  const hasEstimates = known.some(({ costTotals }) => costTotals?.estimated === true)
  if (amounts.length === 0) return { completed: 0, hasEstimates }
  return {
    completed: amounts.length,
    medianUsd: quantile(amounts, 0.5),
    highUsd: quantile(amounts, 0.95),
    hasEstimates,
  }
}

/** Between two amounts it lies on the line through them. */
function quantile(sorted: readonly number[], share: number): number {
  const at = share * (sorted.length - 1)
  const [low = 0, high = low] = [sorted[Math.floor(at)], sorted[Math.ceil(at)]]
  return low + (high - low) * (at - Math.floor(at))
}

/** The cost of a merged pull request: all runs of its ticket in the range, the failed ones included. */
export function mergedFigures(spent: readonly SpentCost[]) {
  const pulls = new Set<string>()
  const ticketIds = new Set<string>()
  for (const { ticket, prState, pull, prUrl, id } of runsOf(spent)) {
    if (prState !== 'merged') continue
    pulls.add(pull === undefined ? (prUrl ?? id) : `${pull.remote}#${pull.number}`)
    ticketIds.add(ticket.id)
  }
  const parts = spent
    .filter(({ run }) => ticketIds.has(run.ticket.id))
    .flatMap((cost) => partsOf(cost, 'agent', dayOfInstant))
  const { costUsd, estimatedUsd } = sumOf('', parts)
  const hasEstimates = estimatedUsd !== undefined
  if (pulls.size === 0 || costUsd === undefined) return { merged: pulls.size, hasEstimates }
  return { merged: pulls.size, averageUsd: costUsd / pulls.size, hasEstimates }
}

const runsOf = (spent: readonly SpentCost[]): Run[] => [
  ...new Map(spent.map(({ run }) => [run.id, run])).values(),
]

const FIGURES = [
  'runs',
  'inputTokens',
  'outputTokens',
  'cacheReadTokens',
  'cacheWriteTokens',
  'costUsd',
  'estimatedUsd',
] as const
const SEPARATOR = '\u0000'

/** The costs of a range as a table of comma-separated values: a line for each day and group. */
export function costCsv(spent: readonly SpentCost[], by: ReportGroup): string {
  const parts = spent
    .flatMap((cost) => partsOf(cost, by, dayOfInstant))
    .map((part) => ({ ...part, key: `${dayOfInstant(part.at)}${SEPARATOR}${part.key}` }))
  const lines = groupParts(parts).map((sum) => {
    const [day = '', key = ''] = sum.key.split(SEPARATOR)
    return [day, key, ...FIGURES.map((figure) => String(sum[figure] ?? ''))]
  })
  return [['day', by, ...FIGURES], ...lines].map((cells) => `${cells.map(cellOf).join(',')}\r\n`).join('')
}

/** A spreadsheet would compute a text that begins like a formula, and names come from trackers and agents. */
function cellOf(text: string): string {
  const safe = /^[=+\-@\t\r]/.test(text) && text !== '-' ? `'${text}` : text
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe
}

/** Dollars in a chart: `$0`, `$40`, `$1.5 k`, `$0.25`. */
export function shortUsd(usd: number): string {
  if (usd >= 1_000) return `$${Number((usd / 1_000).toFixed(1))} k`
  if (Number.isInteger(usd)) return `$${usd}`
  return `$${usd < 0.01 ? Number(usd.toFixed(4)) : usd.toFixed(2)}`
}
