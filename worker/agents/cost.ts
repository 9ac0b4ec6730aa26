/**
 * Computes the cost entry of one execution from the agent's report, token sums, or transcripts, and compares it with
 * the usage that passed through the worker.
 *
 * A single model becomes the entry's model, several become its breakdown, and the entry's own figures are always the
 * sums of the rows, limited to what a record can hold. `estimated` means that the vendor did not compute the sum.
 */

import { toSentence } from '../../core/printable-output.ts'
import { UNKNOWN_MODEL, withSource } from '../../core/run/cost.ts'
import { bareName, costUsdOf, type PriceTable, type TokenUse } from '../../core/run/price.ts'
import { priceEntry, sumByModel, sumRows } from '../../core/run/usage.ts'
import type { AgentProvider } from '../../protocol/agents/registry.ts'
import type { CostEntry, CostModelUsage } from '../../protocol/cost.ts'
import type { UsageSnapshot } from '../../protocol/frames.ts'
import type { AgentExitReport } from './agent.ts'

/** Builds the entry; rows of the same model are added up. */
export function costEntryOf(
  provider: AgentProvider,
  rows: readonly CostModelUsage[],
  estimated: boolean,
): CostEntry {
  const models = sumByModel(rows)
  const { model: _, ...sums } = sumRows('', models)
  const whole = { label: 'run', provider, ...sums, estimated }
  const [only] = models
  if (models.length > 1) return { ...markIfPartlyPriced(whole, models), breakdown: models }
  return only === undefined ? { ...whole, costUsd: 0 } : { label: 'run', provider, ...only, estimated }
}

/** A sum with unpriced parts is an estimate. */
function markIfPartlyPriced<E extends { estimated: boolean }>(whole: E, rows: readonly CostModelUsage[]): E {
  const known = rows.filter(({ costUsd }) => costUsd !== undefined).length
  return known > 0 && known < rows.length ? { ...whole, estimated: true } : whole
}

const MODEL_CHARS_MAX = 200

/** Makes an untrusted model name from a stream or transcript safe to store. */
export const toModelName = (text: string | undefined): string =>
  toSentence(text ?? '', MODEL_CHARS_MAX) || UNKNOWN_MODEL

/** Prices a sum of tokens. Surcharges for long requests are not included, since the sum hides request sizes. */
export function priceRow(model: string, use: TokenUse, prices: PriceTable): CostModelUsage {
  const costUsd = costUsdOf(model, use, 'sum', prices)
  const { inputTokens, outputTokens, cacheReadTokens, cacheWriteTokens } = use
  const tokens = { inputTokens, outputTokens, cacheReadTokens, cacheWriteTokens }
  return { model, ...tokens, ...(costUsd === undefined ? {} : { costUsd }) }
}

/**
 * Computes the cost of transcript entries from the instant `since` on, because a resumed session also holds earlier
 * executions. Each entry is one request, so surcharges for long requests are included. Returns undefined when the
 * transcripts have no entries.
 */
export function costFromUsage(
  provider: AgentProvider,
  snapshots: readonly UsageSnapshot[],
  prices: PriceTable,
  since = '',
): CostEntry | undefined {
  const entries = snapshots.flatMap((snapshot) => snapshot.entries).filter(({ at }) => at >= since)
  if (entries.length === 0) return undefined
  const rows = entries.map((entry) => priceEntry(entry, prices))
  return withSource(costEntryOf(provider, rows, true))
}

/** Chooses the best available cost of an ended execution. */
export function bestCost(
  ending: Pick<AgentExitReport, 'cost' | 'costIsPartial'>,
  fromUsage: CostEntry | undefined,
): CostEntry | undefined {
  if (ending.cost === undefined) return fromUsage
  const reported = withSource(ending.cost)
  return ending.costIsPartial === true ? (fromUsage ?? reported) : reported
}

// ---- the usage that passed through the worker ----------------------------------------------------------------------

/**
 * Joins the cost that an agent stated with the usage that passed through the worker.
 *
 * The larger figures of each model count: an agent that was killed or lied states too little, and the worker sees no
 * fee that a vendor charges beside tokens. A sum that the worker computed is an estimate.
 */
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
