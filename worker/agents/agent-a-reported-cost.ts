/**
 * What agentA says its execution cost, in dollars of its own reckoning.
 *
 * An account tells what was used since the one before, by model, nested agents included. Older releases tell only what
 * the whole session has used: for a new session that is the same; of a resumed one, the account's plain usage is what
 * remains, without the nested agents and without a price. With a subscription nobody is billed by the token, and a
 * model whose price it does not know is priced by guess: both are estimates.
 */
import type { PriceTable, TokenUse } from '../../core/run/price.ts'
import type { CostEntry, CostModelUsage } from '../../protocol/cost.ts'
import type { RunCredentials } from '../../protocol/frames.ts'
import { USD_MAX } from '../../protocol/limits.ts'
import { costEntryOf, priceRow, toModelName } from './cost.ts'
import { countAt, field, isObject, type JsonObject, numberAt, objectAt, textAt } from './json-lines.ts'

export interface ReportedCost {
  add(account: JsonObject, model: string | undefined): void
  /** `undefined` before the first account. `keySource`: as it said where its credential came from. */
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
  /** In place of what was told before, rather than beside it. */
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

/** One row a model, so that an agent of many turns is not kept turn by turn. */
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

/** The figures of one response, as its API has them. */
export function readApiTokens(usage: JsonObject): TokenUse {
  return {
    inputTokens: countAt(usage, 'input_tokens'),
    outputTokens: countAt(usage, 'output_tokens'),
    cacheReadTokens: countAt(usage, 'cache_read_input_tokens'),
    cacheWriteTokens: countAt(usage, 'cache_creation_input_tokens'),
    cacheWriteHourTokens: countAt(objectAt(usage, 'cache_creation'), 'ephemeral_1h_input_tokens'),
  }
}
