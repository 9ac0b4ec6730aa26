/**
 * Computes the cost entry of one execution from the agent's report, token sums, or transcripts.
 *
 * A single model becomes the entry's model, several become its breakdown, and the entry's own figures are always the
 * sums of the rows, limited to what a record can hold. `estimated` means that the vendor did not compute the sum.
 */

import { toSentence } from '../../core/printable-output.ts'
import { UNKNOWN_MODEL } from '../../core/run/cost.ts'
import { withSource } from '../../core/run/cost-source.ts'
import { priceEntry, sumByModel, sumRows } from '../../core/run/model-usage.ts'
import { costUsdOf, type PriceTable, type TokenUse } from '../../core/run/price.ts'
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

/** A sum with unpriced parts is an estimate. */
function markIfPartlyPriced<E extends { estimated: boolean }>(whole: E, rows: readonly CostModelUsage[]): E {
  const known = rows.filter(({ costUsd }) => costUsd !== undefined).length
  return known > 0 && known < rows.length ? { ...whole, estimated: true } : whole
}
