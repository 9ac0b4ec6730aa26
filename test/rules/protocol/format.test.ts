/** Durations and money for people. */
import { expect, test } from '@jest/globals'
import { formatDuration, formatMoney, formatSeconds, formatUsd } from '../../../protocol/format.ts'

test.each([
  [0, '0s', '0 s'],
  [59, '59s', '59 s'],
  [245, '4m05s', '4 m 05 s'],
  [3_900, '1h05m', '1 h 05 m'],
  [6 * 86_400 + 4 * 3_600 + 59, '6d4h', '6 d 4 h'],
])('%i seconds are %s in a command and %s on a page', (seconds, command, page) => {
  expect([formatSeconds(seconds), formatSeconds(seconds, ' ')]).toEqual([command, page])
})

test.each([
  [0, '0s'],
  [400, '0.4s'],
  [9_960, '10s'],
  [59_400, '59s'],
  [59_600, '1m00s'],
  [200_000, '3m20s'],
  [3_599_600, '1h00m'],
  [3_900_000, '1h05m'],
  [86_399_000, '1d0h'],
  [3 * 86_400_000 + 4 * 3_600_000, '3d4h'],
  [-5, '0s'],
])('%i ms are %s', (ms, text) => expect(formatDuration(ms)).toBe(text))

test.each([
  [{ costUsd: 1.844, estimated: false }, '$1.84'],
  [{ costUsd: 1_284, estimated: false }, '$1,284.00'],
  [{ costUsd: 0.0042, estimated: false }, '$0.0042'],
  [{ costUsd: 0.0027, estimated: true }, '~$0.0027'],
  [{ costUsd: 0.00001, estimated: true }, '<$0.0001'],
  [{ costUsd: 0, estimated: false }, '$0.00'],
  [{ estimated: false }, '–'],
  [undefined, '–'],
])('%j is %s', (cost, text) => expect(formatMoney(cost)).toBe(text))

test('a sum below zero has a minus, and one that would be read as nothing says so', () => {
  expect([formatUsd(-1_234.5), formatUsd(0.00001)]).toEqual(['−$1,234.50', '<$0.0001'])
})
