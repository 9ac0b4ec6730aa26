/** Tests of costs that arrive after the end of their lease. */
import { expect, test } from '@jest/globals'
import { SEVERAL, totalsOf } from '../../../core/run/cost.ts'
import { settleLeaseCosts } from '../../../core/run/settle-costs.ts'
import { RUN_COSTS_MAX } from '../../../protocol/limits.ts'
import { aCost } from './runs.ts'

const priced = (label: string, costUsd: number) => aCost({ label, costUsd })

test.each([
  ['nothing was reported before', [], [], 0, [priced('run', 1)]],
  ['in front of later attempts', [priced('attempt 2', 2)], [], 0, [priced('run', 1), priced('attempt 2', 2)]],
  ['in place of what was reported', [priced('run', 9)], [priced('run', 9)], 0, [priced('run', 1)]],
  [
    'one of two equal entries',
    [priced('run', 9), priced('run', 9)],
    [priced('run', 9)],
    1,
    [priced('run', 9), priced('run', 1)],
  ],
  ['folded with others meanwhile', [priced(SEVERAL, 99)], [priced('run', 9)], 0, [priced(SEVERAL, 99)]],
])('the costs of an ended lease: %s', (_, costs, entries, from, expected) => {
  const share = { label: 'run', from, entries }
  const settled = settleLeaseCosts({ costs, costsBefore: costs.length }, share, [priced('of the worker', 1)])
  expect(settled).toEqual({ costs: expected, costsBefore: expected.length })
})

test('the current lease keeps its entries, and the number of those before it is counted anew', () => {
  const costs = [priced('run', 1), priced('attempt 3', 3)]
  const share = { label: 'attempt 2', from: 1, entries: [] }
  expect(settleLeaseCosts({ costs, costsBefore: 1 }, share, [priced('', 2)])).toEqual({
    costs: [priced('run', 1), priced('attempt 2', 2), priced('attempt 3', 3)],
    costsBefore: 2,
  })
})

test('however many leases are settled, a run has no more entries than it may, and the totals stay', () => {
  const full = Array.from({ length: RUN_COSTS_MAX }, (_, n) => priced(`attempt ${n}`, 1))
  const share = { label: 'run', from: 0, entries: [] }
  const settled = settleLeaseCosts({ costs: full, costsBefore: RUN_COSTS_MAX - 1 }, share, [priced('', 1)])
  expect(settled.costs).toHaveLength(RUN_COSTS_MAX)
  expect(settled.costs.at(-1)).toEqual(full.at(-1))
  expect(totalsOf(settled.costs)?.costUsd).toBe(RUN_COSTS_MAX + 1)
})

test('a current lease with as many entries as a run may have makes room for an earlier one, and the totals stay', () => {
  const full = Array.from({ length: RUN_COSTS_MAX }, () => priced('attempt 2', 1))
  const share = { label: 'run', from: 0, entries: [] }
  const settled = settleLeaseCosts({ costs: full, costsBefore: 0 }, share, [priced('', 1)])
  expect(settled.costs).toHaveLength(RUN_COSTS_MAX)
  expect(settled.costs[0]).toEqual(priced('run', 1))
  expect(settled.costsBefore).toBe(1)
  expect(totalsOf(settled.costs)?.costUsd).toBe(RUN_COSTS_MAX + 1)
})
