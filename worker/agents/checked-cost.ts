/**
 * `checkedCost` joins the cost that an agent stated with the usage that passed through the worker.
 *
 * The larger figures of each model count: an agent that was killed or lied states too little, and the worker sees no
 * fee that a vendor charges beside tokens. A sum that the worker computed is an estimate.
 */
import { UNKNOWN_MODEL } from '../../core/run/cost.ts'
import { withSource } from '../../core/run/cost-source.ts'
import { sumRows } from '../../core/run/model-usage.ts'
import { bareName } from '../../core/run/price.ts'
import type { AgentProvider } from '../../protocol/agents/registry.ts'
import type { CostEntry, CostModelUsage } from '../../protocol/cost.ts'
import { costEntryOf } from './cost.ts'

export function checkedCost(
  provider: AgentProvider,
  stated: CostEntry | undefined,
  passed: readonly CostModelUsage[],
): CostEntry | undefined {
  if (passed.length === 0) return stated
  if (stated === undefined) return withSource(costEntryOf(provider, passed, true))
  const rows = joinRows(rowsOf(stated), passed)
  const joined = costEntryOf(provider, rows, stated.estimated || isDearer(sumRows('', rows), stated))
  return withSource({ ...joined, label: stated.label })
}

function rowsOf({
  breakdown,
  model = UNKNOWN_MODEL,
  costUsd,
  ...entry
}: CostEntry): readonly CostModelUsage[] {
  if (breakdown !== undefined && breakdown.length > 0) return breakdown
  const { inputTokens, outputTokens, cacheReadTokens, cacheWriteTokens } = entry
  const tokens = { inputTokens, outputTokens, cacheReadTokens, cacheWriteTokens }
  return [{ model, ...tokens, ...(costUsd === undefined ? {} : { costUsd }) }]
}

function joinRows(stated: readonly CostModelUsage[], passed: readonly CostModelUsage[]): CostModelUsage[] {
  const statedBy = groupByName(stated)
  const passedBy = groupByName(passed)
  const both = [...passedBy].flatMap(([name, ofVendor]) => {
    const ofAgent = statedBy.get(name)
    return ofAgent === undefined ? [] : [largest(sumOf(ofAgent), sumOf(ofVendor))]
  })
  const onlyStated = [...statedBy].filter(([name]) => !passedBy.has(name)).flatMap(([, rows]) => rows)
  const onlyPassed = [...passedBy].filter(([name]) => !statedBy.has(name)).flatMap(([, rows]) => rows)
  return [...both, ...largerPart(onlyStated, onlyPassed)]
}

function groupByName(rows: readonly CostModelUsage[]): Map<string, CostModelUsage[]> {
  const groups = new Map<string, CostModelUsage[]>()
  for (const row of rows) groups.set(bareName(row.model), [...(groups.get(bareName(row.model)) ?? []), row])
  return groups
}

/** An agent may call a model otherwise than its vendor, so rows without a partner are compared as a whole. */
function largerPart(
  stated: readonly CostModelUsage[],
  passed: readonly CostModelUsage[],
): readonly CostModelUsage[] {
  if (passed.length === 0) return stated
  return isDearer(sumRows('', stated), sumRows('', passed)) ? stated : passed
}

const sumOf = (rows: readonly CostModelUsage[]): CostModelUsage =>
  sumRows(rows[0]?.model ?? UNKNOWN_MODEL, rows)

function largest(stated: CostModelUsage, passed: CostModelUsage): CostModelUsage {
  const costs = [stated.costUsd, passed.costUsd].filter((usd) => usd !== undefined)
  return {
    model: stated.model,
    inputTokens: Math.max(stated.inputTokens, passed.inputTokens),
    outputTokens: Math.max(stated.outputTokens, passed.outputTokens),
    cacheReadTokens: Math.max(stated.cacheReadTokens, passed.cacheReadTokens),
    cacheWriteTokens: Math.max(stated.cacheWriteTokens, passed.cacheWriteTokens),
    ...(costs.length === 0 ? {} : { costUsd: Math.max(...costs) }),
  }
}

/** Smaller differences come from rounding. */
const USD_APART_MAX = 1e-6

type Priced = Pick<CostModelUsage, 'costUsd'>

const isDearer = ({ costUsd: a = 0 }: Priced, { costUsd: b = 0 }: Priced): boolean => a > b + USD_APART_MAX
