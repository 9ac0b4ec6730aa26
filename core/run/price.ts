/**
 * Computes the price of tokens from a price list.
 *
 * The list is an argument. An unknown model name has no price, because a wrong price is worse than none; a list may
 * name one for budgets, which `dearest-price.ts` adds. A long request may have higher rates, which only the figures of a single request can tell; for sums of several requests
 * the ordinary rates apply.
 */
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
/** Finer than any price of a token, coarse enough to hide what floating point makes of 0.1 + 0.2. */
const USD_STEPS = 1e9

export function priceInUsd(use: TokenUse, rates: Rates): number {
  const { cacheWriteTokens, cacheWriteHourTokens = 0 } = use
  const hour = Math.min(cacheWriteHourTokens, cacheWriteTokens)
  const sum =
    use.inputTokens * rates.input +
    use.cacheReadTokens * rates.cacheRead +
    (cacheWriteTokens - hour) * rates.cacheWrite +
    hour * (rates.cacheWriteHour ?? rates.cacheWrite) +
    use.outputTokens * rates.output
  return Math.min(Math.round((sum / TOKENS_PER_PRICE) * USD_STEPS) / USD_STEPS, USD_MAX)
}

export function ratesFor(price: ModelPrice, use: TokenUse): Rates {
  const prompt = use.inputTokens + use.cacheReadTokens + use.cacheWriteTokens
  return price.long !== undefined && prompt > price.long.over ? price.long : price
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
