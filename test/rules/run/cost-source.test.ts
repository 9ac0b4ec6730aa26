/** Tests of the source of a cost entry's figures. */
import { expect, test } from '@jest/globals'
import { foldTo, SCRIPTED_MODEL, SMALL_SCRIPTED_MODEL, withSource } from '../../../core/run/cost.ts'
import type { CostEntry, CostSource } from '../../../protocol/cost.ts'
import { aCost } from './runs.ts'

const row = (model: string) => ({
  model,
  inputTokens: 1,
  outputTokens: 1,
  cacheReadTokens: 0,
  cacheWriteTokens: 0,
})

test.each<[string, Partial<CostEntry>, CostSource]>([
  ['the vendor computed the sum', { model: 'opus', estimated: false }, 'reported'],
  ['a price table computed the sum', { model: 'opus', estimated: true }, 'estimated'],
  ['the scripted agent made it up', { model: SCRIPTED_MODEL, estimated: true }, 'example'],
  ['both models are scripted', { breakdown: [row(SCRIPTED_MODEL), row(SMALL_SCRIPTED_MODEL)] }, 'example'],
  ['one of two models is scripted', { breakdown: [row(SCRIPTED_MODEL), row('opus')] }, 'reported'],
])('%s', (_, entry, source) => {
  expect(withSource(aCost(entry)).source).toBe(source)
})

test.each<[readonly (CostSource | undefined)[], CostSource | undefined]>([
  [['example', 'example'], 'example'],
  [['example', 'reported'], undefined],
  [['reported', undefined], undefined],
  [[undefined, undefined], undefined],
])('entries of %j are folded into one of %j', (sources, folded) => {
  const entries = sources.map((source) => aCost(source === undefined ? {} : { source }))
  expect(foldTo(entries, 1).map(({ source }) => source)).toEqual([folded])
})
