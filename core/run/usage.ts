/**
 * Selects what is archived of a usage snapshot, and its file name; and prices and adds up usage by model.
 *
 * The parts of the name become a path, so they are checked again here after the frame's schema. The hash, when there
 * is one, is the SHA-256 of `usageText(entries)`, the compact JSON of the worker's entries before any are dropped. The
 * later of two entries with the same id counts. Only declared fields are written, so no prompt text is archived.
 */
import { createHash } from 'node:crypto'
import type { CostModelUsage } from '../../protocol/cost.ts'
import type { UsageSnapshot } from '../../protocol/frames.ts'
import { COST_MODELS_MAX, WORKER_MAX_USAGE_SNAPSHOT_BYTES } from '../../protocol/limits.ts'
import { type UsageEntry, usageText } from '../../protocol/usage.ts'
import type { UsageKey } from '../ports/store.ts'
import { no, type Result, yes } from '../result.ts'
import { costUsdOf, type PriceTable, roundUsd } from './price.ts'

/** Stricter than the schema: some file systems treat `.JSON` like `.json`. */
const PATH_PART = /^(?!.*\.json$)[A-Z0-9_-][A-Z0-9._-]{0,199}$/i

export const USAGE_NOT_KEPT = 'a usage snapshot was not kept'

export function usageToArchive(snapshot: UsageSnapshot): Result<{ key: UsageKey; text: string }> {
  const { projectKey, sessionId, subagentId, entries, sha256 } = snapshot
  const key = { projectKey, sessionId, ...(subagentId === undefined ? {} : { subagentId }) }
  const unsafe = Object.entries(key).find(([, part]) => !PATH_PART.test(part))
  if (unsafe !== undefined) return no('invalid', `/snapshot/${unsafe[0]}: is not safe as the name of a file`)
  if (sha256 !== undefined && sha256 !== usageHash(entries)) {
    return no('invalid', '/snapshot/sha256: is not the SHA-256 of the compact JSON of the entries')
  }
  const text = archiveText(key, distinctEntries(entries))
  const bytes = Buffer.byteLength(text)
  if (bytes <= WORKER_MAX_USAGE_SNAPSHOT_BYTES) return yes({ key, text })
  return no('invalid', `/snapshot: is ${bytes} bytes, more than ${WORKER_MAX_USAGE_SNAPSHOT_BYTES}`)
}

/** The hash that a worker sends with its entries, and that the host computes again. */
export function usageHash(entries: readonly UsageEntry[]): string {
  return createHash('sha256').update(usageText(entries)).digest('hex')
}

/** Keeps the order of first occurrence. */
function distinctEntries(entries: readonly UsageEntry[]): UsageEntry[] {
  return [...new Map(entries.map((entry) => [entry.id, entry])).values()]
}

/** The entries have their own text form, which becomes the last field. */
function archiveText(key: UsageKey, entries: readonly UsageEntry[]): string {
  return `${JSON.stringify(key).slice(0, -1)},"entries":${usageText(entries)}}`
}

// ---- prices and sums by model ------------------------------------------------------------------------------------

/** Prices one request, so surcharges for long requests are included. */
export function priceEntry({ id: _, at: __, ...entry }: UsageEntry, prices: PriceTable): CostModelUsage {
  if (entry.costUsd !== undefined) return entry
  const costUsd = costUsdOf(entry.model, entry, 'request', prices)
  return costUsd === undefined ? entry : { ...entry, costUsd }
}

/**
 * Returns one row for each model; models beyond COST_MODELS_MAX share one. Sums stop at the largest storable number. A
 * sum of dollars covers the known amounts, so it is a lower bound.
 */
export const sumByModel = (rows: readonly CostModelUsage[]): CostModelUsage[] =>
  [...groupByModel(rows)].map(([model, ofModel]) => sumRows(model, ofModel))

export function sumRows(model: string, rows: readonly CostModelUsage[]): CostModelUsage {
  const costUsd = sumUsd(rows)
  return { model, ...sumTokens(rows), ...(costUsd === undefined ? {} : { costUsd }) }
}

/** The name for all models beyond COST_MODELS_MAX. */
export const OTHER_MODELS = 'other models'

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

/** Returns undefined when no amount is known. */
export function sumUsd(rows: readonly { readonly costUsd?: number | undefined }[]): number | undefined {
  let sum: number | undefined
  for (const { costUsd } of rows) if (costUsd !== undefined) sum = (sum ?? 0) + costUsd
  return sum === undefined ? undefined : roundUsd(sum)
}
