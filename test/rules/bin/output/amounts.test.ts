/** Money, tokens and sizes as people see them. */
import { expect, test } from '@jest/globals'
import { formatCost, formatTokens, type ShownCost } from '../../../../bin/output/amounts.ts'
import { formatBytes } from '../../../../protocol/format-bytes.ts'

const tokens: ShownCost = {
  inputTokens: 200_000,
  outputTokens: 29_000,
  cacheReadTokens: 900_000,
  cacheWriteTokens: 71_000,
  estimated: false,
}

test.each<[Partial<ShownCost>, string]>([
  [{ costUsd: 1.84 }, '$1.84'],
  [{ costUsd: 0.0027 }, '$0.0027'],
  [{ costUsd: 0.0027, estimated: true }, '~$0.0027'],
  [{ costUsd: 14.2, estimated: true }, '~$14.20'],
  [{ costUsd: 0 }, '$0.00'],
  [{}, '1.2M tok'],
  [{ estimated: true }, '1.2M tok'],
])('a cost of %j is %s', (more, text) => {
  expect(formatCost({ ...tokens, ...more })).toBe(text)
})

test('unknown amounts are no zeros', () => {
  expect([formatCost(undefined), formatTokens(undefined)]).toEqual(['-', '-'])
})

test.each([
  [0, '0'],
  [812, '812'],
  [8_100, '8.1k'],
  [9_960, '10k'],
  [96_000, '96k'],
  [999_499, '999k'],
  [999_600, '1.0M'],
  [1_200_000, '1.2M'],
  [12_400_000, '12.4M'],
  [120_000_000, '120M'],
  [2_500_000_000, '2.5G'],
])('%i tokens are %s', (count, text) => {
  expect(formatTokens(count)).toBe(text)
})

test.each([
  [0, '0 B'],
  [812, '812 B'],
  [1_946, '1.9 KiB'],
  [21 * 1024 ** 2, '21 MiB'],
  [1023.9 * 1024 ** 2, '1.0 GiB'],
  [1.9 * 1024 ** 3, '1.9 GiB'],
  [41 * 1024 ** 3, '41 GiB'],
  [5_000 * 1024 ** 4, '5000 TiB'],
])('%d bytes are %s', (bytes, text) => {
  expect(formatBytes(bytes)).toBe(text)
})
