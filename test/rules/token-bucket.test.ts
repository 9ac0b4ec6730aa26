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
