/**
 * Prices and adds up usage by model.
 *
 * Sums stop at the largest storable number. Models beyond COST_MODELS_MAX share one row. A sum of dollars covers the
 * known amounts, so it is a lower bound.
 */
import type { CostModelUsage } from '../../protocol/cost.ts'
import { COST_MODELS_MAX, USD_MAX } from '../../protocol/limits.ts'
import type { UsageEntry } from '../../protocol/usage.ts'
import { costUsdOf, type PriceTable } from './price.ts'

/** The name for all models beyond COST_MODELS_MAX. */
export const OTHER_MODELS = 'other models'

/** Prices one request, so surcharges for long requests are included. */
export function priceEntry({ id: _, at: __, ...entry }: UsageEntry, prices: PriceTable): CostModelUsage {
  if (entry.costUsd !== undefined) return entry
  const costUsd = costUsdOf(entry.model, entry, 'request', prices)
  return costUsd === undefined ? entry : { ...entry, costUsd }
}

export function groupByModel<T extends { readonly model: string }>(rows: readonly T[]): Map<string, T[]> {
  const models = new Map<string, T[]>()
  for (const row of rows) {
    const hasOwnRow = models.has(row.model) || models.size < COST_MODELS_MAX - 1
    const model = hasOwnRow ? row.model : OTHER_MODELS
    const found = models.get(model)
    if (found === undefined) models.set(model, [row])
    else found.push(row)
  }
  return models
}

/** Returns one row for each model. */
export const sumByModel = (rows: readonly CostModelUsage[]): CostModelUsage[] =>
  [...groupByModel(rows)].map(([model, ofModel]) => sumRows(model, ofModel))

export function sumRows(model: string, rows: readonly CostModelUsage[]): CostModelUsage {
  const costUsd = sumUsd(rows)
  return { model, ...sumTokens(rows), ...(costUsd === undefined ? {} : { costUsd }) }
}

type TokenSums = Pick<CostModelUsage, 'inputTokens' | 'outputTokens' | 'cacheReadTokens' | 'cacheWriteTokens'>

export function sumTokens(rows: readonly TokenSums[]): TokenSums {
  const sums = { inputTokens: 0, outputTokens: 0, cacheReadTokens: 0, cacheWriteTokens: 0 }
  for (const row of rows) {
    sums.inputTokens = addTokens(sums.inputTokens, row.inputTokens)
    sums.outputTokens = addTokens(sums.outputTokens, row.outputTokens)
    sums.cacheReadTokens = addTokens(sums.cacheReadTokens, row.cacheReadTokens)
    sums.cacheWriteTokens = addTokens(sums.cacheWriteTokens, row.cacheWriteTokens)
  }
  return sums
}

const addTokens = (sum: number, tokens: number): number => Math.min(sum + tokens, Number.MAX_SAFE_INTEGER)

/** Finer than any price per token, coarse enough to hide floating-point errors such as 0.1 + 0.2. */
const USD_STEPS = 1e9

/** Returns undefined when no amount is known. */
export function sumUsd(rows: readonly { readonly costUsd?: number | undefined }[]): number | undefined {
  let sum: number | undefined
  for (const { costUsd } of rows) if (costUsd !== undefined) sum = (sum ?? 0) + costUsd
  if (sum === undefined) return undefined
  return Math.min(Math.round(Math.min(sum, USD_MAX) * USD_STEPS) / USD_STEPS, USD_MAX)
}
