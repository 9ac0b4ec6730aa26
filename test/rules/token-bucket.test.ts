/** A token bucket allows a burst, and a steady rate in the long run. */
import { expect, test } from '@jest/globals'
import { TokenBucket } from '../../core/token-bucket.ts'

test('the bucket allows a burst and a long-term rate', () => {
  let now = 0
  const bucket = new TokenBucket(() => now, 3, 1)
  const granted = [0, 0, 0, 0, 500, 1_000, 1_000, 1_999, 2_000, 60_000, 60_000, 60_000, 60_000].map((at) => {
    now = at
    return bucket.take(1)
  })
  const [yes, not] = [true, false]
  expect(granted).toEqual([yes, yes, yes, not, not, yes, not, not, yes, yes, yes, yes, not])
})

test('the bucket says how long an amount takes', () => {
  let now = 0
  const bucket = new TokenBucket(() => now, 3, 2)
  expect([bucket.waitMs(3), bucket.take(3), bucket.waitMs(1), bucket.take(1)]).toEqual([0, true, 500, false])
  now = 400
  expect([bucket.waitMs(1), bucket.waitMs(3)]).toEqual([100, 1_100])
})

test('the burst is whole for rates whose tokens take fractions of a millisecond', () => {
  for (const perSecond of [3, 7, 30, 64_000 / 7]) {
    const bucket = new TokenBucket(() => 0, 30, perSecond)
    expect(Array.from({ length: 31 }, () => bucket.take(1)).lastIndexOf(true)).toBe(29)
  }
})
