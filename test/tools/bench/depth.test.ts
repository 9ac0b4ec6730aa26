/** The depth of requests: the longest chain in which each request began after the previous one ended. */
import { expect, test } from '@jest/globals'
import fc from 'fast-check'
import { depthOf, type RequestSpan } from '../../../bench/raw/depth.ts'

const at = (from: number, to: number): RequestSpan => ({ from, to })

test.each<[string, readonly RequestSpan[], number]>([
  ['nothing is not deep', [], 0],
  ['all at once are one round trip', [at(0, 50), at(1, 60), at(49, 99)], 1],
  ['each after the other are as many as there are', [at(100, 150), at(0, 50), at(50, 100)], 3],
  [
    'one that takes long does not hide those beside it',
    [at(0, 500), at(0, 50), at(60, 110), at(120, 170)],
    3,
  ],
])('%s', (_title, spans, depth) => {
  expect(depthOf(spans)).toBe(depth)
})

test('the depth is the length of the longest chain', () => {
  const span = fc.tuple(fc.nat(20), fc.integer({ min: 1, max: 8 })).map(([from, ms]) => at(from, from + ms))
  fc.assert(
    fc.property(fc.array(span, { maxLength: 12 }), (spans) => {
      const longestAfter = (end: number): number =>
        Math.max(0, ...spans.filter(({ from }) => from >= end).map(({ to }) => 1 + longestAfter(to)))
      expect(depthOf(spans)).toBe(longestAfter(0))
    }),
  )
})
