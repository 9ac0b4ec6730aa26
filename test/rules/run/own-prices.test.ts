/** Tests of prices that the configuration names. */
import { expect, test } from '@jest/globals'
import { costUsdOf, priceOf, withDearestPrice, withOwnPrices } from '../../../core/run/price.ts'
import { PRICES } from '../../../core/run/price-table.ts'

test('a price of one’s own goes before the listed one, and before the dearest', () => {
  const table = withDearestPrice(
    withOwnPrices(PRICES, [
      { model: 'Claude-Next', input: 1, output: 2 },
      { model: 'gpt-6-sol', input: 3, output: 4, cacheRead: 0, cacheWrite: 5 },
    ]),
    'agentA',
  )
  const use = { inputTokens: 1e6, outputTokens: 1e6, cacheReadTokens: 0, cacheWriteTokens: 0 }
  expect(costUsdOf('claude-next-20270101', use, 'sum', table)).toBe(3)
  expect(priceOf('claude-next', table)).toMatchObject({ cacheRead: 1, cacheWrite: 1.25, cacheWriteHour: 2 })
  expect(priceOf('gpt-6-sol', table)).toMatchObject({ input: 3, output: 4, cacheRead: 0, cacheWrite: 5 })
  expect(priceOf('claude-later', table)).toMatchObject({ output: 75 })
})

test('without prices of one’s own the list stays', () => {
  expect(withOwnPrices(PRICES)).toBe(PRICES)
  expect(withOwnPrices(PRICES, [])).toBe(PRICES)
})
