/**
 * Computes the cost entry of one execution from the agent's report, token sums, or transcripts.
 *
 * A single model becomes the entry's model, several become its breakdown, and the entry's own figures are always the
 * sums of the rows, limited to what a record can hold. `estimated` means that the vendor did not compute the sum.
 */
import { OTHER_MODELS, UNKNOWN_MODEL } from '../../core/run/cost.ts'
import { withSource } from '../../core/run/cost-source.ts'
import { costUsdOf, type PriceTable, type TokenUse } from '../../core/run/price.ts'
import type { AgentProvider } from '../../protocol/agents/registry.ts'
import type { CostEntry, CostModelUsage } from '../../protocol/cost.ts'
import type { UsageSnapshot } from '../../protocol/frames.ts'
import { COST_MODELS_MAX, USD_MAX } from '../../protocol/limits.ts'
import type { UsageEntry } from '../../protocol/usage.ts'
import type { AgentExitReport } from './agent.ts'
import { toSentence } from './printable-output.ts'

/** Builds the entry; rows of the same model are added up. */
export function costEntryOf(
  provider: AgentProvider,
  rows: readonly CostModelUsage[],
  estimated: boolean,
): CostEntry {
  const models = sumByModel(rows)
  const { model: _, ...sums } = models.reduce(addRows, NOTHING_USED)
  const whole = { label: 'run', provider, ...sums, estimated }
  const [only] = models
  if (models.length > 1) return { ...markIfPartlyPriced(whole, models), breakdown: models }
  return only === undefined ? { ...whole, costUsd: 0 } : { label: 'run', provider, ...only, estimated }
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

function priceEntry({ id: _, at: __, ...entry }: UsageEntry, prices: PriceTable): CostModelUsage {
  if (entry.costUsd !== undefined) return entry
  const costUsd = costUsdOf(entry.model, entry, 'request', prices)
  return costUsd === undefined ? entry : { ...entry, costUsd }
}

// ---- sums --------------------------------------------------------------------------------------------------------

const NOTHING_USED: CostModelUsage = {
  model: '',
  inputTokens: 0,
  outputTokens: 0,
  cacheReadTokens: 0,
  cacheWriteTokens: 0,
}

function sumByModel(rows: readonly CostModelUsage[]): CostModelUsage[] {
  const sums = new Map<string, CostModelUsage>()
  for (const row of rows) {
    const hasSpace = sums.has(row.model) || sums.size < COST_MODELS_MAX - 1
    const model = hasSpace ? row.model : OTHER_MODELS
    const sum = sums.get(model)
    sums.set(model, sum === undefined ? { ...row, model } : addRows(sum, row))
  }
  return [...sums.values()].map(({ costUsd, ...row }) =>
    costUsd === undefined ? row : { ...row, costUsd: roundUsd(costUsd) },
  )
}

/** The sum has a cost as soon as one part has; the host marks such a sum as estimated. */
function addRows(a: CostModelUsage, b: CostModelUsage): CostModelUsage {
  const known = [a.costUsd, b.costUsd].filter((usd) => usd !== undefined)
  return {
    model: a.model,
    inputTokens: addCapped(a.inputTokens, b.inputTokens),
    outputTokens: addCapped(a.outputTokens, b.outputTokens),
    cacheReadTokens: addCapped(a.cacheReadTokens, b.cacheReadTokens),
    cacheWriteTokens: addCapped(a.cacheWriteTokens, b.cacheWriteTokens),
    ...(known.length === 0 ? {} : { costUsd: roundUsd(known.reduce((sum, usd) => sum + usd, 0)) }),
  }
}

/** A sum with unpriced parts is an estimate. */
function markIfPartlyPriced<E extends { estimated: boolean }>(whole: E, rows: readonly CostModelUsage[]): E {
  const known = rows.filter(({ costUsd }) => costUsd !== undefined).length
  return known > 0 && known < rows.length ? { ...whole, estimated: true } : whole
}

const addCapped = (a: number, b: number): number => Math.min(a + b, Number.MAX_SAFE_INTEGER)

/** Finer than the price of one token; rounding hides floating-point errors. */
const USD_STEPS = 1e9
const roundUsd = (usd: number): number => Math.min(Math.round(usd * USD_STEPS) / USD_STEPS, USD_MAX)
