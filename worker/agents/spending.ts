/**
 * What an agent has used so far, as far as its stream tells: for budgets, and for an agent that dies without a bill.
 *
 * An agent repeats a response's figures in several lines, each time more of them, so the last word on a response
 * counts and the others don't. It is forgotten which responses were long ago, never what they used.
 */

import { OTHER_MODELS } from '../../core/run/cost.ts'
import { costUsdOf, type PriceTable, type TokenUse } from '../../core/run/price.ts'
import type { CostModelUsage } from '../../protocol/cost.ts'
import { COST_MODELS_MAX } from '../../protocol/limits.ts'

export interface ModelResponse {
  readonly id: string
  readonly model: string
  readonly use: TokenUse
  /** Of the main conversation: a turn. Nested agents take turns of their own. */
  readonly isTurn: boolean
}

export interface Spending {
  /** Whether anything is different now. */
  add(response: ModelResponse): boolean
  turns(): number
  /** Absent when no price is known of anything. */
  costUsd(): number | undefined
  rows(): CostModelUsage[]
}

/** Lines of one response come close together, but those of nested agents come between. */
const RESPONSES_REMEMBERED_MAX = 1_000

export function createSpending(prices: PriceTable): Spending {
  const recent = new Map<string, CostModelUsage>()
  const sums = new Map<string, CostModelUsage>()
  let turns = 0

  function forgetOldest(): void {
    const [oldest] = recent.keys()
    if (recent.size > RESPONSES_REMEMBERED_MAX && oldest !== undefined) recent.delete(oldest)
  }

  return {
    add({ id, model, use, isTurn }) {
      const before = recent.get(id)
      const isKnown = sums.has(model) || sums.size < COST_MODELS_MAX
      const row = priceResponse(isKnown ? model : OTHER_MODELS, use, prices)
      if (before !== undefined && isSameRow(before, row)) return false
      if (before === undefined && isTurn) turns += 1
      if (before !== undefined) sums.set(before.model, addTimes(sums.get(before.model), before, -1))
      sums.set(row.model, addTimes(sums.get(row.model), row, 1))
      recent.set(id, row)
      forgetOldest()
      return true
    },
    turns: () => turns,
    costUsd() {
      const known = [...sums.values()].flatMap(({ costUsd }) => (costUsd === undefined ? [] : [costUsd]))
      return known.length === 0 ? undefined : known.reduce((sum, usd) => sum + usd, 0)
    },
    rows: () => [...sums.values()],
  }
}

function priceResponse(model: string, use: TokenUse, prices: PriceTable): CostModelUsage {
  const { inputTokens, outputTokens, cacheReadTokens, cacheWriteTokens } = use
  const costUsd = costUsdOf(model, use, 'request', prices)
  const tokens = { inputTokens, outputTokens, cacheReadTokens, cacheWriteTokens }
  return { model, ...tokens, ...(costUsd === undefined ? {} : { costUsd }) }
}

const FIGURES = ['inputTokens', 'outputTokens', 'cacheReadTokens', 'cacheWriteTokens'] as const

const isSameRow = (a: CostModelUsage, b: CostModelUsage): boolean =>
  a.model === b.model && FIGURES.every((name) => a[name] === b[name])

function addTimes(sum: CostModelUsage | undefined, row: CostModelUsage, times: 1 | -1): CostModelUsage {
  const costUsd = row.costUsd === undefined ? sum?.costUsd : (sum?.costUsd ?? 0) + times * row.costUsd
  const figure = (name: (typeof FIGURES)[number]): number =>
    Math.min(Math.max(0, (sum?.[name] ?? 0) + times * row[name]), Number.MAX_SAFE_INTEGER)
  return {
    model: row.model,
    inputTokens: figure('inputTokens'),
    outputTokens: figure('outputTokens'),
    cacheReadTokens: figure('cacheReadTokens'),
    cacheWriteTokens: figure('cacheWriteTokens'),
    ...(costUsd === undefined ? {} : { costUsd: Math.max(0, costUsd) }),
  }
}
