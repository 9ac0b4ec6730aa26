/** Tests of prices: the row of a model name, and the price of tokens. */
import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import {
  costUsdOf,
  isModelOf,
  priceInUsd,
  priceOf,
  ratesFor,
  withDearestPrice,
} from '../../../core/run/price.ts'
import { PRICES } from '../../../core/run/price-table.ts'
import { AGENT_PROVIDERS } from '../../../protocol/agents/registry.ts'

const use = { inputTokens: 100, outputTokens: 40, cacheReadTokens: 5000, cacheWriteTokens: 2000 }
const nameOf = (model: string): string | undefined =>
  Object.keys(PRICES.models).find((name) => PRICES.models[name] === priceOf(model, PRICES))

describe('a name means', () => {
  test.each([
    ['claude-sonnet-4-5', 'claude-sonnet-4-5'],
    ['claude-sonnet-4-5-20250929', 'claude-sonnet-4-5'],
    ['claude-sonnet-4-5-20250929[1m]', 'claude-sonnet-4-5'],
    ['anthropic/claude-opus-5-5', 'claude-opus-5-5'],
    ['us.anthropic.claude-haiku-4-5-20251001-v1:0', 'claude-haiku-4-5'],
    ['claude-opus-4-5@20251101', 'claude-opus-4-5'],
    ['openai/gpt-6.1-sol-2026-10-01', 'gpt-6.1-sol'],
    ['models/gemini-2.5-flash-preview-09-2025', 'gemini-2.5-flash'],
    ['gemini-2.5-flash-lite', 'gemini-2.5-flash-lite'],
    ['gpt-5.4-mini', 'gpt-5.4-mini'],
    ['GPT-5', 'gpt-5'],
    ['gpt-5-codex', 'gpt-5'],
  ])('%s: %s', (model, row) => {
    expect(nameOf(model)).toBe(row)
  })

  test.each([
    '',
    '-',
    'scripted-1',
    'gpt',
    'gpt-5-nano',
    'claude-opus-5-6',
    'gpt-5.9',
    'claude',
    '__proto__',
    'constructor',
    'claude-opus',
  ])('%j: no model with a price', (model) => {
    expect(priceOf(model, PRICES)).toBeUndefined()
    expect(costUsdOf(model, use, 'request', PRICES)).toBeUndefined()
  })

  test('a model or nothing, whatever the text', () => {
    fc.assert(fc.property(fc.string(), (model) => void priceOf(`${model}-${model}`, PRICES)))
    priceOf('-'.repeat(1_000_000), PRICES)
  })
})

describe('tokens cost', () => {
  test('the amount that the vendor charged for the same tokens', () => {
    // 0.0003 + 0.0015 + 0.0075 + 0.0006 dollars.
    expect(costUsdOf('claude-sonnet-4-5', use, 'request', PRICES)).toBe(0.0099)
  })

  test('more when they stay in the cache for long, where that has its own price', () => {
    const hour = { ...use, cacheWriteHourTokens: 2000 }
    expect(costUsdOf('claude-sonnet-4-5', hour, 'request', PRICES)).toBe(0.0144)
    expect(costUsdOf('gpt-6-sol', hour, 'sum', PRICES)).toBe(costUsdOf('gpt-6-sol', use, 'sum', PRICES))
  })

  test('more in a long request, but not in a sum of requests', () => {
    const long = { inputTokens: 272_001, outputTokens: 1_000, cacheReadTokens: 0, cacheWriteTokens: 0 }
    expect(costUsdOf('gpt-6-sol', long, 'request', PRICES)).toBe(1.103004)
    expect(costUsdOf('gpt-6-sol', long, 'sum', PRICES)).toBe(0.554002)
    expect(costUsdOf('gpt-6-sol', { ...long, inputTokens: 272_000 }, 'request', PRICES)).toBe(0.554)
  })

  test('never less than zero, never more than the storable maximum', () => {
    const count = fc.nat({ max: Number.MAX_SAFE_INTEGER })
    const tokens = fc.record({
      inputTokens: count,
      outputTokens: count,
      cacheReadTokens: count,
      cacheWriteTokens: count,
    })
    fc.assert(
      fc.property(fc.constantFrom(...Object.values(PRICES.models)), tokens, (price, some) => {
        const usd = priceInUsd(some, ratesFor(price, some))
        expect(usd >= 0 && usd <= 1e9).toBe(true)
      }),
    )
  })

  test('the rates of another table when one is given', () => {
    const models = { mine: { input: 1, output: 2, cacheRead: 0, cacheWrite: 0, source: 'me' } }
    expect(costUsdOf('mine-large', { ...use, inputTokens: 1_000_000 }, 'sum', { asOf: '', models })).toBe(
      1.00008,
    )
  })
})

test('every row has plausible rates: cache reads are cheaper than input, and output is more expensive', () => {
  const rows = Object.entries(PRICES.models)
  expect(rows).toHaveLength(42)
  for (const [name, row] of rows) {
    for (const rates of [row, ...(row.long === undefined ? [] : [row.long])]) {
      const inOrder = 0 < rates.cacheRead && rates.cacheRead < rates.input && rates.input < rates.output
      expect([name, inOrder, rates.cacheWrite >= rates.input]).toEqual([name, true, true])
    }
  }
})

describe('the dearest price of a vendor', () => {
  test('is the highest of each rate, and binds models that no list names', () => {
    const table = withDearestPrice(PRICES, 'agentA')
    expect(priceOf('claude-opus-7', table)).toMatchObject({ input: 15, output: 75, cacheWriteHour: 30 })
    expect(priceOf('claude-opus-5-5', table)).toBe(PRICES.models['claude-opus-5-5'])
    expect(priceOf('gpt-9', withDearestPrice(PRICES, 'agentB'))).toMatchObject({
      output: 50,
      long: { output: 75 },
    })
  })

  test('is no lower than any price of its vendor', () => {
    for (const provider of AGENT_PROVIDERS) {
      const dearest = priceOf('unlisted', withDearestPrice(PRICES, provider))
      if (dearest === undefined) throw new Error('an unlisted model has no price')
      for (const [model, price] of Object.entries(PRICES.models).filter(([name]) =>
        isModelOf(provider, name),
      ))
        for (const inputTokens of [1, 150_000, 300_000]) {
          const asked = { ...use, inputTokens, cacheWriteHourTokens: 500 }
          const usdOf = (rates: typeof price) => priceInUsd(asked, ratesFor(rates, asked))
          expect([model, usdOf(dearest) >= usdOf(price)]).toEqual([model, true])
        }
    }
  })
})
