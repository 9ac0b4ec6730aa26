/**
 * The cost of one execution, from whatever tells of it: the agent's own account, sums of tokens, or transcripts.
 *
 * Figures are kept within what a record holds. One model is the entry's model, several are its breakdown, and the
 * entry's own figures are always the sums of the rows. `estimated` says that somebody other than the biller did the
 * sum.
 */
import { OTHER_MODELS, UNKNOWN_MODEL } from '../../core/run/cost.ts'
import { costUsdOf, type PriceTable, type TokenUse } from '../../core/run/price.ts'
import type { CostEntry, CostModelUsage } from '../../protocol/cost.ts'
import type { UsageSnapshot } from '../../protocol/frames.ts'
import { COST_MODELS_MAX, USD_MAX } from '../../protocol/limits.ts'
import type { UsageEntry } from '../../protocol/usage.ts'
import type { AgentExitReport } from './agent.ts'
import type { AgentProviderName } from './events.ts'
import { toSentence } from './printable-output.ts'

/** Rows of the same model are added up. */
export function costEntryOf(
  provider: AgentProviderName,
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

/** As a stream or a transcript writes it, which may be anything. */
export const toModelName = (text: string | undefined): string =>
  toSentence(text ?? '', MODEL_CHARS_MAX) || UNKNOWN_MODEL

/** A sum of tokens, priced as one: what a vendor charges for long requests can't be told from it. */
export function priceRow(model: string, use: TokenUse, prices: PriceTable): CostModelUsage {
  const costUsd = costUsdOf(model, use, 'sum', prices)
  const { inputTokens, outputTokens, cacheReadTokens, cacheWriteTokens } = use
  const tokens = { inputTokens, outputTokens, cacheReadTokens, cacheWriteTokens }
  return { model, ...tokens, ...(costUsd === undefined ? {} : { costUsd }) }
}

/**
 * What transcripts say was used from `since` on, an instant: a session that was resumed holds its earlier executions
 * too. Each entry is one request, so what a vendor charges for long ones is in it. `undefined`: they say nothing.
 */
export function costFromUsage(
  provider: AgentProviderName,
  snapshots: readonly UsageSnapshot[],
  prices: PriceTable,
  since = '',
): CostEntry | undefined {
  const entries = snapshots.flatMap((snapshot) => snapshot.entries).filter(({ at }) => at >= since)
  if (entries.length === 0) return undefined
  const rows = entries.map((entry) => priceEntry(entry, prices))
  return costEntryOf(provider, rows, true)
}

/** The best figures there are for an execution that has ended. */
export function bestCost(
  ending: Pick<AgentExitReport, 'cost' | 'costIsPartial'>,
  fromUsage: CostEntry | undefined,
): CostEntry | undefined {
  if (ending.cost === undefined) return fromUsage
  return ending.costIsPartial === true ? (fromUsage ?? ending.cost) : ending.cost
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

/** Dollars are known when any part's are: the host calls such a sum estimated. */
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

/** A part whose price nobody knows makes of the sum a guess. */
function markIfPartlyPriced<E extends { estimated: boolean }>(whole: E, rows: readonly CostModelUsage[]): E {
  const known = rows.filter(({ costUsd }) => costUsd !== undefined).length
  return known > 0 && known < rows.length ? { ...whole, estimated: true } : whole
}

const addCapped = (a: number, b: number): number => Math.min(a + b, Number.MAX_SAFE_INTEGER)

/** Finer than the price of a token; hides what floating point makes of a sum. */
const USD_STEPS = 1e9
const roundUsd = (usd: number): number => Math.min(Math.round(usd * USD_STEPS) / USD_STEPS, USD_MAX)
