/** `switchyard costs`: what runs have cost, added up by day, repository, model or agent. */
import type { CostEntry } from '../../protocol/cost.ts'
import type { CostGroup } from '../../protocol/cost-groups.ts'
import type { ClientOptions, CommandContext } from '../client/run-command.ts'
import { unwrapOrExit } from '../exit.ts'
import { formatCost, formatTokens, tokensRead } from '../output/amounts.ts'
import type { TableColumn } from '../output/table.ts'
import { formatLocalDay, parseSince, type UtcOffset } from '../output/times.ts'
import { readSpentCosts, type SpentContext, type SpentCost } from './spent-costs.ts'

export interface CostsOptions extends ClientOptions {
  readonly by: CostGroup
  readonly since?: string | undefined
}

/** A row: the sum of all entries with the same key. */
export interface CostSum {
  readonly key: string
  readonly runs: number
  readonly inputTokens: number
  readonly outputTokens: number
  readonly cacheReadTokens: number
  readonly cacheWriteTokens: number
  /** Absent when no entry names an amount. */
  readonly costUsd?: number
  /** The part of `costUsd` that was computed, not billed. */
  readonly estimatedUsd?: number
}

/** The usage of one agent execution, or of one model in it. */
type CostPart = Pick<
  CostEntry,
  'inputTokens' | 'outputTokens' | 'cacheReadTokens' | 'cacheWriteTokens' | 'costUsd' | 'estimated'
> & { readonly key: string; readonly runId: string }

const TOTAL = 'total'
const USD_DIGITS = 9

export async function costs(context: CommandContext<CostsOptions>): Promise<void> {
  const { output, options, present } = context
  const { now, offset } = present()
  const since =
    options.since === undefined ? 0 : unwrapOrExit(parseSince(options.since, '--since', { now, offset }))
  const { sums, total, unpriced } = await readCosts(context, { by: options.by, since })
  const rows = sums.length > 1 && output.stdout.isTerminal ? [...sums, total] : sums
  output.list({
    records: rows,
    id: ({ key }) => key,
    columns: costColumns(options.by),
    json: { by: options.by, rows: sums, total },
    empty: 'No run has cost anything since then.',
  })
  if (unpriced.length > 0) output.note(describeUnpriced(unpriced))
}

interface Costs {
  readonly sums: readonly CostSum[]
  readonly total: CostSum
  /** Parts that name tokens only. */
  readonly unpriced: readonly CostPart[]
}

/** Adds up what was spent since an instant. */
export async function readCosts(
  context: SpentContext,
  { by, since }: { readonly by: CostGroup; readonly since: number },
): Promise<Costs> {
  const { offset } = context.present()
  const spent = await readSpentCosts(context, { since, areDaysAsked: by === 'day' })
  const parts = spent.flatMap((cost) => partsOf(cost, by, offset))
  return { sums: groupParts(parts), total: sumOf(TOTAL, parts), unpriced: parts.filter(isUnpriced) }
}

/** Names the row where all of them are in one. */
function describeUnpriced(parts: readonly CostPart[]): string {
  const count = new Set(parts.map(({ runId }) => runId)).size
  const [row, ...others] = new Set(parts.map(({ key }) => key))
  const runs = `${count} ${count === 1 ? 'run' : 'runs'}${others.length === 0 ? ` of ${row}` : ''}`
  return `(${runs} ${count === 1 ? 'reports tokens only and is' : 'report tokens only and are'} not in COST)`
}

/** Only a row for each model needs the parts of an entry. */
function partsOf(cost: SpentCost, by: CostGroup, offset: UtcOffset): CostPart[] {
  const { run, entry } = cost
  const { estimated, breakdown = [] } = entry
  const runId = run.id
  if (by !== 'model') return [{ ...entry, runId, key: keyOf(cost, by, offset) }]
  if (breakdown.length === 0) return [{ ...entry, runId, key: entry.model ?? '-' }]
  return breakdown.map((usage) => ({ ...usage, estimated, runId, key: usage.model }))
}

function keyOf({ run, entry, at }: SpentCost, by: Exclude<CostGroup, 'model'>, offset: UtcOffset): string {
  if (by === 'day') return formatLocalDay(at, offset)
  return by === 'agent' ? entry.provider : (run.ticket.repo ?? run.pull?.remote ?? '-')
}

const isUnpriced = ({ costUsd }: CostPart): boolean => costUsd === undefined

function groupParts(parts: readonly CostPart[]): CostSum[] {
  const keys = [...new Set(parts.map(({ key }) => key))]
  const sums = keys.map((key) => sumOf(key, partsWith(parts, key)))
  return sums.sort((a, b) => (a.key < b.key ? -1 : 1))
}

const partsWith = (parts: readonly CostPart[], key: string): CostPart[] =>
  parts.filter((part) => part.key === key)

type TokenCount = 'inputTokens' | 'outputTokens' | 'cacheReadTokens' | 'cacheWriteTokens'

function sumOf(key: string, parts: readonly CostPart[]): CostSum {
  const tokens = (name: TokenCount) => parts.reduce((sum, part) => sum + part[name], 0)
  const priced = parts.filter((part) => !isUnpriced(part))
  const estimated = priced.filter((part) => part.estimated)
  return {
    key,
    runs: new Set(parts.map(({ runId }) => runId)).size,
    inputTokens: tokens('inputTokens'),
    outputTokens: tokens('outputTokens'),
    cacheReadTokens: tokens('cacheReadTokens'),
    cacheWriteTokens: tokens('cacheWriteTokens'),
    ...(priced.length === 0 ? {} : { costUsd: dollarsOf(priced) }),
    ...(estimated.length === 0 ? {} : { estimatedUsd: dollarsOf(estimated) }),
  }
}

/** Sums of binary fractions have digits behind the last one that means something. */
const dollarsOf = (parts: readonly CostPart[]): number =>
  Number(parts.reduce((sum, { costUsd = 0 }) => sum + costUsd, 0).toFixed(USD_DIGITS))

function costColumns(by: CostGroup): TableColumn<CostSum>[] {
  return [
    { heading: by.toUpperCase(), cell: ({ key }) => key, shrinksTo: 10, shrinks: 'middle' },
    { heading: 'RUNS', cell: ({ runs }) => String(runs), align: 'right' },
    {
      heading: 'TOKENS IN',
      cell: (sum) => formatTokens(tokensRead(costOf(sum))),
      plain: (sum) => String(tokensRead(costOf(sum))),
      align: 'right',
      givesWay: 2,
    },
    {
      heading: 'TOKENS OUT',
      cell: ({ outputTokens }) => formatTokens(outputTokens),
      plain: ({ outputTokens }) => String(outputTokens),
      align: 'right',
      givesWay: 1,
    },
    { heading: 'COST', cell: formatSum, plain: ({ costUsd }) => String(costUsd ?? '-'), align: 'right' },
    {
      heading: 'ESTIMATED',
      cell: ({ estimatedUsd }) =>
        estimatedUsd === undefined
          ? '-'
          : formatCost({ ...NO_TOKENS, costUsd: estimatedUsd, estimated: false }),
      plain: ({ estimatedUsd }) => String(estimatedUsd ?? '-'),
      align: 'right',
    },
  ]
}

const NO_TOKENS = { inputTokens: 0, outputTokens: 0, cacheReadTokens: 0, cacheWriteTokens: 0 }

const costOf = (sum: CostSum) => ({ ...sum, estimated: sum.estimatedUsd !== undefined })

/** The tokens stand beside the amount, so an unknown amount is `-`. */
const formatSum = (sum: CostSum): string => (sum.costUsd === undefined ? '-' : formatCost(costOf(sum)))
