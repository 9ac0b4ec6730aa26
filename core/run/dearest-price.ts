/**
 * `withDearestPrice` gives unlisted models the dearest price of their vendor, so that a budget binds them too.
 *
 * A vendor releases models before any list names them. Counted as free, one such model would spend without end.
 */
import type { AgentProvider } from '../../protocol/agents/registry.ts'
import type { ModelPrice, PriceTable, Rates } from './price.ts'

const MODELS_OF: Readonly<Record<AgentProvider, RegExp>> = {
  agentA: /^claude-/,
  agentB: /^gpt-/,
  agentC: /^gemini-/,
}

export function isModelOf(provider: AgentProvider, model: string): boolean {
  return MODELS_OF[provider].test(model)
}

/** A list without a model of the vendor uses the dearest of all. */
export function withDearestPrice(table: PriceTable, provider: AgentProvider): PriceTable {
  const named = Object.entries(table.models).filter(([model]) => isModelOf(provider, model))
  const prices = named.length === 0 ? Object.values(table.models) : named.map(([, price]) => price)
  return prices.length === 0 ? table : { ...table, unlisted: dearestOf(prices) }
}

/** Each rate is the highest of all models. Long requests have their highest rates from the lowest border on. */
function dearestOf(prices: readonly ModelPrice[]): ModelPrice {
  const ordinary = highestRates(prices)
  const long = prices.flatMap((price) => price.long ?? [])
  if (long.length === 0) return { ...ordinary, source: SOURCE }
  const over = Math.min(...long.map((rates) => rates.over))
  return { ...ordinary, long: { ...highestRates([ordinary, ...long]), over }, source: SOURCE }
}

const SOURCE = 'dearest'

function highestRates(all: readonly Rates[]): Rates {
  const highest = (rate: (rates: Rates) => number): number => Math.max(...all.map(rate))
  return {
    input: highest(({ input }) => input),
    output: highest(({ output }) => output),
    cacheRead: highest(({ cacheRead }) => cacheRead),
    cacheWrite: highest(({ cacheWrite }) => cacheWrite),
    cacheWriteHour: highest(({ cacheWrite, cacheWriteHour = cacheWrite }) => cacheWriteHour),
  }
}
