/** Tests of the retry wait: it grows up to a cap and is partly random. */
import { expect, test } from '@jest/globals'
import fc from 'fast-check'
import { backoffMs } from '../../core/backoff.ts'

const roll = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true })
const attempt = fc.integer({ min: 1, max: 5000 })
const base = fc.integer({ min: 1, max: 60_000 })
const cap = fc.integer({ min: 1, max: 3_600_000 })

test('one second doubles up to the cap; the random part is the upper half', () => {
  const lowest = [1, 2, 3, 4, 5, 6].map((failed) => backoffMs(failed, 1000, 10_000, 0))
  const highest = [1, 2, 3, 4, 5, 6].map((failed) => backoffMs(failed, 1000, 10_000, 0.9999))
  expect(lowest).toEqual([500, 1000, 2000, 4000, 5000, 5000])
  expect(highest).toEqual([1000, 2000, 4000, 8000, 10_000, 10_000])
})

test('the wait is whole milliseconds, between half of the cap and the cap once doubling has reached the cap', () => {
  fc.assert(
    fc.property(attempt, base, cap, roll, (failed, baseMs, capMs, fraction) => {
      const wait = backoffMs(failed, baseMs, capMs, fraction)
      const ceiling = Math.min(capMs, baseMs * 2 ** (failed - 1))
      expect(Number.isSafeInteger(wait)).toBe(true)
      expect(wait).toBeLessThanOrEqual(ceiling)
      expect(wait).toBeGreaterThanOrEqual(Math.floor(ceiling / 2))
    }),
  )
})

test('with the same random number, one more failure never shortens the wait', () => {
  fc.assert(
    fc.property(attempt, base, cap, roll, (failed, baseMs, capMs, fraction) => {
      expect(backoffMs(failed + 1, baseMs, capMs, fraction)).toBeGreaterThanOrEqual(
        backoffMs(failed, baseMs, capMs, fraction),
      )
    }),
  )
})

test('an attempt or a random number out of range throws', () => {
  for (const failed of [0, -1, Number.NaN]) expect(() => backoffMs(failed, 1, 1, 0)).toThrow(RangeError)
  for (const fraction of [-0.1, 1, Number.NaN]) expect(() => backoffMs(1, 1, 1, fraction)).toThrow(RangeError)
})
