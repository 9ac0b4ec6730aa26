/**
 * Tracks an agent's usage from its output stream, for budgets and for agents that end without reporting a cost.
 *
 * An agent repeats a response's figures in several lines with growing numbers; only the latest figures of a response
 * count. Only recent response ids are remembered, but all usage stays in the sums.
 */

import { costUsdOf, type PriceTable, type TokenUse } from '../../core/run/price.ts'
import { OTHER_MODELS } from '../../core/run/usage.ts'
import type { CostModelUsage } from '../../protocol/cost.ts'
import { COST_MODELS_MAX } from '../../protocol/limits.ts'

export interface ModelResponse {
  readonly id: string
  readonly model: string
  readonly use: TokenUse
  /** The response belongs to the main conversation. Turns of nested agents are not counted. */
  readonly isTurn: boolean
}

export interface Spending {
  /** Returns whether any figure changed. */
  add(response: ModelResponse): boolean
  turns(): number
  /** Returns undefined when no price is known for any model. */
  costUsd(): number | undefined
  rows(): CostModelUsage[]
}

/** Lines of one response come close together, with lines of nested agents in between. */
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
      const priced = priceResponse(model, use, prices)
      const row = isKnown ? priced : { ...priced, model: OTHER_MODELS }
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

/** The reason to end an agent that spent more than its budget; undefined while the budget lasts. */
export function overBudgetReason(costUsd = 0, maxCostUsd = Number.POSITIVE_INFINITY): string | undefined {
  if (costUsd <= maxCostUsd) return undefined
  return `the agent spent more than agent.maxCostUsd allows: $${costUsd.toFixed(4)} of $${maxCostUsd}`
}

/** The reason to send nothing more to the model; undefined while something of the budget is left. */
export function spentBudgetReason(costUsd = 0, maxCostUsd = Number.POSITIVE_INFINITY): string | undefined {
  if (costUsd < maxCostUsd) return undefined
  return `the agent has spent what agent.maxCostUsd allows: $${costUsd.toFixed(4)} of $${maxCostUsd}`
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
