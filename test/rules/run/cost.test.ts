/** Tests of cost sums, also for inconsistent reports of a worker. */
import { expect, test } from '@jest/globals'
import fc from 'fast-check'
import {
  foldExcessCosts,
  labelFor,
  labelled,
  replaceLeaseCosts,
  SEVERAL,
  totalsOf,
  UNKNOWN_MODEL,
} from '../../../core/run/cost.ts'
import { OTHER_MODELS } from '../../../core/run/usage.ts'
import { CostEntry, CostTotals } from '../../../protocol/cost.ts'
import { COST_MODELS_MAX, RUN_COSTS_MAX } from '../../../protocol/limits.ts'
import { createChecker } from '../../../protocol/parse.ts'
import { aCost, anyCost } from './runs.ts'

const checkEntry = createChecker(CostEntry)
const checkTotals = createChecker(CostTotals)
const tokensOf = (of: { inputTokens: number; outputTokens: number }): number[] => [
  of.inputTokens,
  of.outputTokens,
]
const row = (model: string, costUsd?: number) => {
  const tokens = { inputTokens: 10, outputTokens: 20, cacheReadTokens: 30, cacheWriteTokens: 40 }
  return { model, ...tokens, ...(costUsd === undefined ? {} : { costUsd }) }
}

test('no executions, no totals', () => {
  expect(totalsOf([])).toBeUndefined()
})

test('totals are the sums, with one row per model over executions and their breakdowns', () => {
  const totals = totalsOf([
    aCost({ costUsd: 0.1 }),
    aCost({ costUsd: 0.2, model: 'small' }),
    aCost({ breakdown: [row('small', 1), row('tiny', 2)] }),
  ])
  expect(totals).toEqual({
    inputTokens: 22,
    outputTokens: 44,
    cacheReadTokens: 66,
    cacheWriteTokens: 88,
    costUsd: 3.3,
    estimated: false,
    byModel: [
      { model: 'large', ...tokensTimes(1), costUsd: 0.1, estimated: false },
      {
        model: 'small',
        inputTokens: 11,
        outputTokens: 22,
        cacheReadTokens: 33,
        cacheWriteTokens: 44,
        costUsd: 1.2,
        estimated: false,
      },
      { ...row('tiny', 2), estimated: false },
    ],
  })
})

const tokensTimes = (n: number) => ({
  inputTokens: n,
  outputTokens: 2 * n,
  cacheReadTokens: 3 * n,
  cacheWriteTokens: 4 * n,
})

const { costUsd: _, ...unpriced } = aCost()

test('dollars are absent when none are known, and estimated when some are unknown', () => {
  expect(totalsOf([unpriced])).not.toHaveProperty('costUsd')
  expect(totalsOf([unpriced])).toMatchObject({ estimated: false })
  expect(totalsOf([unpriced, aCost()])).toMatchObject({ costUsd: 0.5, estimated: true })
  expect(totalsOf([aCost(), aCost({ estimated: true })])).toMatchObject({ costUsd: 1, estimated: true })
})

test('an execution without a model has its own row', () => {
  const { model: __, ...unnamed } = aCost()
  expect(totalsOf([unnamed])?.byModel).toMatchObject([{ model: UNKNOWN_MODEL, costUsd: 0.5 }])
})

test('an entry with a breakdown costs the sum of its rows, and a single row is no breakdown', () => {
  const liar = aCost({ costUsd: 99, inputTokens: 0, breakdown: [row('large', 1), row('small', 2)] })
  expect(labelled([liar], 'run')).toMatchObject([
    { label: 'run', costUsd: 3, inputTokens: 20, breakdown: [{}, {}] },
  ])
  const [single] = labelled([aCost({ breakdown: [row('small')] })], 'run')
  expect(single).toMatchObject({ model: 'small', inputTokens: 10 })
  expect(single).not.toHaveProperty('breakdown')
  expect(single).not.toHaveProperty('costUsd')
  expect(labelled([aCost({ breakdown: [] })], 'x')).toEqual([aCost({ label: 'x' })])
})

test('labels', () => {
  expect([1, 2, 3].map((n) => labelFor('run', n))).toEqual(['run', 'attempt 2', 'attempt 3'])
  expect([1, 2].map((n) => labelFor('follow-up', n))).toEqual(['follow-up 1', 'follow-up 2'])
})

test('figures stop at the largest storable number', () => {
  const huge = aCost({ inputTokens: Number.MAX_SAFE_INTEGER, costUsd: 1e9 })
  const totals = totalsOf([huge, huge])
  expect(totals).toMatchObject({ inputTokens: Number.MAX_SAFE_INTEGER, costUsd: 1e9 })
  expect(checkTotals(totals).ok).toBe(true)
})

test('too many models share a row', () => {
  const totals = totalsOf(Array.from({ length: 300 }, (__, n) => aCost({ model: `m${n}`, costUsd: 1 })))
  expect(totals?.byModel).toHaveLength(COST_MODELS_MAX)
  expect(totals?.byModel.at(-1)).toMatchObject({ model: OTHER_MODELS, costUsd: 201 })
})

test('the totals and their rows add up to the entries, and entries to their breakdowns', () => {
  fc.assert(
    fc.property(fc.array(anyCost, { minLength: 1, maxLength: 8 }), (costs) => {
      const entries = labelled(costs, 'run')
      const totals = totalsOf(costs)
      if (totals === undefined) throw new Error('there are entries')
      expect(totalsOf(entries)).toEqual(totals)
      for (const parts of [entries, totals.byModel]) {
        expect(parts.reduce((sum, part) => sum + part.cacheReadTokens, 0)).toBe(totals.cacheReadTokens)
        expect(parts.reduce((sum, part) => sum + (part.costUsd ?? 0), 0)).toBeCloseTo(totals.costUsd ?? 0, 6)
      }
      for (const { breakdown, ...entry } of entries) {
        if (breakdown === undefined) continue
        expect(breakdown.length).toBeGreaterThan(1)
        expect(tokensOf(entry)).toEqual([
          breakdown.reduce((sum, part) => sum + part.inputTokens, 0),
          breakdown.reduce((sum, part) => sum + part.outputTokens, 0),
        ])
      }
      expect(new Set(totals.byModel.map(({ model }) => model)).size).toBe(totals.byModel.length)
      expect(checkTotals(totals).ok && entries.every((entry) => checkEntry(entry).ok)).toBe(true)
    }),
  )
})

test('a report replaces what the same lease reported before, and nothing of earlier ones', () => {
  fc.assert(
    fc.property(fc.array(anyCost, { maxLength: 4 }), fc.array(anyCost, { maxLength: 4 }), (earlier, own) => {
      const before = labelled(earlier, 'run')
      const partly = replaceLeaseCosts(before, before.length, own.slice(0, 1), 'attempt 2')
      const wholly = replaceLeaseCosts(partly, before.length, own, 'attempt 2')
      expect(wholly).toEqual([...before, ...labelled(own, 'attempt 2')])
      expect(replaceLeaseCosts(wholly, before.length, own, 'attempt 2')).toEqual(wholly)
    }),
  )
})

test('excess entries are added up in the last one, and no figure is lost', () => {
  const many = Array.from({ length: RUN_COSTS_MAX }, (__, n) =>
    aCost({ label: `l${n % 2}`, model: `m${n % 3}` }),
  )
  const folded = foldExcessCosts(many)
  expect(folded).toHaveLength(RUN_COSTS_MAX / 2)
  expect(folded.at(-1)).toMatchObject({ label: SEVERAL, provider: 'agentA' })
  expect(folded.slice(0, -1)).toEqual(many.slice(0, folded.length - 1))
  expect(totalsOf(folded)).toEqual(totalsOf(many))
  const full = replaceLeaseCosts(folded, folded.length, many, 'attempt 2')
  expect(full).toHaveLength(RUN_COSTS_MAX)
  expect(totalsOf(full)).toMatchObject({ costUsd: RUN_COSTS_MAX })
  expect(replaceLeaseCosts(full, folded.length, many, 'attempt 2')).toEqual(full)
  expect(full.every((entry) => checkEntry(entry).ok)).toBe(true)
})

test('unfolded costs of a run still stay within the limit of a record', () => {
  const many = Array.from({ length: RUN_COSTS_MAX }, () => aCost())
  const once = replaceLeaseCosts(many, many.length, many, 'x')
  expect(once).toHaveLength(RUN_COSTS_MAX)
  expect(replaceLeaseCosts(once, many.length, many, 'x')).toEqual(once)
})
