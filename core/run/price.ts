/**
 * Computes the price of tokens from a price list.
 *
 * The list is an argument. An unknown model name has no price, because a wrong price is worse than none; for budgets
 * `withDearestPrice` gives the list a price for it. A long request may have higher rates, which only the figures of a
 * single request can tell; for sums of several requests the ordinary rates apply.
 */
import type { JobModelPrice } from '../../protocol/agents/model-use.ts'
import type { AgentProvider } from '../../protocol/agents/registry.ts'
import { USD_MAX } from '../../protocol/limits.ts'

/** US dollars for a million tokens. */
export interface Rates {
  /** Input tokens that are neither read from nor written to a cache. */
  readonly input: number
  /** Output tokens, thinking included. */
  readonly output: number
  readonly cacheRead: number
  readonly cacheWrite: number
  /** Rate of long-lived cache entries, where they have their own price. */
  readonly cacheWriteHour?: number
}

export interface ModelPrice extends Rates {
  /** Rates for every token of a request whose prompt has more than `over` tokens. */
  readonly long?: Rates & { readonly over: number }
  readonly source: string
  readonly note?: string
}

export interface PriceTable {
  readonly asOf: string
  readonly models: Readonly<Record<string, ModelPrice>>
  /** The price of every model that is not listed; without it, such a model has none. */
  readonly unlisted?: ModelPrice
}

export interface TokenUse {
  readonly inputTokens: number
  readonly outputTokens: number
  readonly cacheReadTokens: number
  /** All cache writes, long-lived ones included. */
  readonly cacheWriteTokens: number
  /** Long-lived cache writes, as far as they are known. */
  readonly cacheWriteHourTokens?: number
}

/** `request`: the figures of one request. `sum`: the sum of several requests. */
export type PricedAs = 'request' | 'sum'

export function costUsdOf(model: string, use: TokenUse, as: PricedAs, table: PriceTable): number | undefined {
  const price = priceOf(model, table)
  return price === undefined ? undefined : priceInUsd(use, as === 'request' ? ratesFor(price, use) : price)
}

/** Returns the price of a model, ignoring the prefixes and suffixes that providers add to its name. */
export function priceOf(model: string, table: PriceTable): ModelPrice | undefined {
  const name = bareName(model)
  for (let end = name.length; end > 0; end = name.lastIndexOf('-', end - 1)) {
    const known = name.slice(0, end)
    if (Object.hasOwn(table.models, known)) {
      return isSameModel(name.slice(end + 1)) ? table.models[known] : table.unlisted
    }
  }
  return table.unlisted
}

const TOKENS_PER_PRICE = 1_000_000

export function priceInUsd(use: TokenUse, rates: Rates): number {
  const { cacheWriteTokens, cacheWriteHourTokens = 0 } = use
  const hour = Math.min(cacheWriteHourTokens, cacheWriteTokens)
  const sum =
    use.inputTokens * rates.input +
    use.cacheReadTokens * rates.cacheRead +
    (cacheWriteTokens - hour) * rates.cacheWrite +
    hour * (rates.cacheWriteHour ?? rates.cacheWrite) +
    use.outputTokens * rates.output
  return roundUsd(sum / TOKENS_PER_PRICE)
}

/** Finer than any price of a token, coarse enough to hide what floating point makes of 0.1 + 0.2. */
const USD_STEPS = 1e9

export const roundUsd = (usd: number): number =>
  Math.min(Math.round(Math.min(usd, USD_MAX) * USD_STEPS) / USD_STEPS, USD_MAX)

export function ratesFor(price: ModelPrice, use: TokenUse): Rates {
  const prompt = use.inputTokens + use.cacheReadTokens + use.cacheWriteTokens
  return price.long !== undefined && prompt > price.long.over ? price.long : price
}

// ---- other lists -------------------------------------------------------------------------------------------------

/**
 * Gives unlisted models the dearest price of their vendor, so that a budget binds them too.
 *
 * A vendor releases models before any list names them. Counted as free, one such model would spend without end. A list
 * without a model of the vendor uses the dearest of all.
 */
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

/**
 * Puts the prices of the configuration in front of the listed ones.
 *
 * A rate that is not given is the highest that vendors ask for it: input read from a cache costs as much as new input, and
 * a cache entry a quarter more, or twice as much when it lives long.
 */
export function withOwnPrices(table: PriceTable, own: readonly JobModelPrice[] = []): PriceTable {
  const models = own.map((price) => [bareName(price.model), toModelPrice(price)] as const)
  return models.length === 0
    ? table
    : { ...table, models: { ...table.models, ...Object.fromEntries(models) } }
}

const WRITE_FACTOR = 1.25
const LONG_WRITE_FACTOR = 2

function toModelPrice({ input, output, cacheRead = input, cacheWrite }: JobModelPrice): ModelPrice {
  const source = 'own'
  if (cacheWrite !== undefined) return { input, output, cacheRead, cacheWrite, source }
  return {
    input,
    output,
    cacheRead,
    cacheWrite: WRITE_FACTOR * input,
    cacheWriteHour: LONG_WRITE_FACTOR * input,
    source,
  }
}

// ---- names -------------------------------------------------------------------------------------------------------

const NAME_CHARS_MAX = 200
/** `vendor/…/`, and the prefixes of clouds. */
const NAME_PREFIX = /^.*\/|^(?:[a-z]+\.)?(?:anthropic|openai|google)\./
/** The context window (`[1m]`), a cloud's version (`-v1:0`), a date. */
const NAME_SUFFIXES = [/\[[a-z0-9]+\]$/, /-v\d+(?::\d+)?$/, /[-@](?:\d{8}|\d{4}-\d{2}-\d{2})$/]

/** The name without what providers add to it, so that two names of one model are equal. */
export function bareName(model: string): string {
  const name = model.slice(0, NAME_CHARS_MAX).trim().toLowerCase().replace(NAME_PREFIX, '')
  return NAME_SUFFIXES.reduce((rest, tail) => rest.replace(tail, ''), name)
}

/** Another size or version is a different model with its own price. */
const DIFFERENT_MODEL = /^(?:mini|nano|micro|lite|pro|max|ultra|flash|\d{1,2}(?![0-9]))(?:-|\.|$)/

const isSameModel = (rest: string): boolean => !DIFFERENT_MODEL.test(rest)

const MODELS_OF: Readonly<Record<AgentProvider, RegExp>> = {
  agentA: /^claude-/,
  agentB: /^gpt-/,
  agentC: /^gemini-/,
}

export function isModelOf(provider: AgentProvider, model: string): boolean {
  return MODELS_OF[provider].test(model)
}
