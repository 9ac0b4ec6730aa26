/**
 * Collects the cost that agentA itself reports in its results.
 *
 * A result reports the usage since the previous one by model, including nested agents. Older releases report only the
 * total of the session: for a new session the two are equal; for a resumed one, only the result's plain usage remains,
 * without nested agents and prices. Subscription usage and models of unknown price are marked as estimates.
 */
import type { PriceTable, TokenUse } from '../../../core/run/price.ts'
import type { CostEntry, CostModelUsage } from '../../../protocol/cost.ts'
import type { RunCredentials } from '../../../protocol/frames.ts'
import { USD_MAX } from '../../../protocol/limits.ts'
import { costEntryOf, priceRow, toModelName } from '../cost.ts'
import { countAt, field, isObject, type JsonObject, numberAt, objectAt, textAt } from '../json-lines.ts'

export interface ReportedCost {
  add(account: JsonObject, model: string | undefined): void
  /** Returns undefined before the first result. `keySource` is the credential source that the agent reported. */
  entry(keySource: string | undefined): CostEntry | undefined
}

export interface BillingContext {
  readonly credential?: RunCredentials['agent']
  readonly isResumed: boolean
}

export function createReportedCost(billing: BillingContext, prices: PriceTable): ReportedCost {
  let rows: CostModelUsage[] = []
  let isEstimate = false
  let model: string | undefined
  let isEmpty = true
  return {
    add(account, mainModel) {
      const part = readPart(account, mainModel, billing, prices)
      rows = part.isSessionTotal ? [...part.rows] : mergeByModel([...rows, ...part.rows])
      isEstimate = isEstimate || part.isEstimate
      model = mainModel
      isEmpty = false
    },
    entry(keySource) {
      if (isEmpty) return undefined
      const entry = costEntryOf('agentA', rows, isEstimate || isSubscription(billing, keySource))
      return rows.length === 0 && model !== undefined ? { ...entry, model } : entry
    },
  }
}

interface ReportedPart {
  readonly rows: readonly CostModelUsage[]
  /** The part replaces earlier parts instead of adding to them. */
  readonly isSessionTotal: boolean
  readonly isEstimate: boolean
}

function readPart(
  result: JsonObject,
  model: string | undefined,
  billing: BillingContext,
  prices: PriceTable,
): ReportedPart {
  if (isObject(field(result, 'model_usage_since_last_result'))) {
    return { ...readModelUsage(objectAt(result, 'model_usage_since_last_result')), isSessionTotal: false }
  }
  if (!billing.isResumed) return { ...readModelUsage(objectAt(result, 'modelUsage')), isSessionTotal: true }
  const use = readApiTokens(objectAt(result, 'usage'))
  const isUnused = Object.values(use).every((tokens) => tokens === 0)
  return {
    rows: isUnused ? [] : [priceRow(toModelName(model), use, prices)],
    isSessionTotal: false,
    isEstimate: true,
  }
}

/** Merges rows by model, so that memory does not grow with the number of turns. */
function mergeByModel(rows: readonly CostModelUsage[]): CostModelUsage[] {
  const { breakdown, label: _, provider: __, estimated: ___, ...only } = costEntryOf('agentA', rows, false)
  return breakdown ?? (rows.length === 0 ? [] : [{ ...only, model: only.model ?? toModelName(undefined) }])
}

const isSubscription = ({ credential }: BillingContext, keySource: string | undefined): boolean =>
  keySource === undefined ? credential?.kind !== 'api-key' : keySource === 'none'

function readModelUsage(models: JsonObject): { rows: CostModelUsage[]; isEstimate: boolean } {
  const figures = Object.entries(models).flatMap(([model, use]) => (isObject(use) ? [{ model, use }] : []))
  return {
    rows: figures.map(({ model, use }) => readModelRow(toModelName(model), use)),
    isEstimate: figures.some(({ use }) => textAt(use, 'costBasis') === 'unknown'),
  }
}

function readModelRow(model: string, use: JsonObject): CostModelUsage {
  const costUsd = numberAt(use, 'costUSD')
  return {
    model,
    inputTokens: countAt(use, 'inputTokens'),
    outputTokens: countAt(use, 'outputTokens'),
    cacheReadTokens: countAt(use, 'cacheReadInputTokens'),
    cacheWriteTokens: countAt(use, 'cacheCreationInputTokens'),
    ...(costUsd === undefined || costUsd < 0 ? {} : { costUsd: Math.min(costUsd, USD_MAX) }),
  }
}

/** Reads the usage of one response in the format of the Messages API. */
export function readApiTokens(usage: JsonObject): TokenUse {
  return {
    inputTokens: countAt(usage, 'input_tokens'),
    outputTokens: countAt(usage, 'output_tokens'),
    cacheReadTokens: countAt(usage, 'cache_read_input_tokens'),
    cacheWriteTokens: countAt(usage, 'cache_creation_input_tokens'),
    cacheWriteHourTokens: countAt(objectAt(usage, 'cache_creation'), 'ephemeral_1h_input_tokens'),
  }
}
