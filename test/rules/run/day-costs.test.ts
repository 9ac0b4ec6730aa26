/** The costs of each local day, by repository. */
import { expect, test } from '@jest/globals'
import { addRepoCost, localDay } from '../../../core/run/day-costs.ts'

const at = (...parts: [number, number, number, number, number]): number => new Date(...parts).getTime()

test.each([
  [at(2026, 0, 31, 23, 59), 0, '2026-01-31'],
  [at(2026, 1, 1, 0, 0), 0, '2026-02-01'],
  [at(2026, 1, 1, 0, 0), 1, '2026-01-31'],
  [at(2026, 2, 30, 0, 30), 1, '2026-03-29'],
  [at(2026, 9, 26, 23, 30), 1, '2026-10-25'],
])('a day is a local calendar day: %d, %d days ago', (now, daysAgo, day) => {
  expect(localDay(now, daysAgo)).toBe(day)
})

test('costs add up by repository, estimated ones apart', () => {
  const added = [
    { repo: 'web', estimated: false, usd: 1 },
    { repo: 'web', estimated: true, usd: 2 },
    { repo: 'web', estimated: false, usd: 3 },
  ].reduce(addRepoCost, { costs: [] })
  expect(added.costs).toEqual([
    { repo: 'web', estimated: false, usd: 4 },
    { repo: 'web', estimated: true, usd: 2 },
  ])
})

test('a correction of an earlier day does not make a day cost less than nothing', () => {
  const day = { costs: [{ repo: 'web', estimated: false, usd: 1 }] }
  expect(addRepoCost(day, { repo: 'web', estimated: false, usd: -3 }).costs[0]?.usd).toBe(0)
})
