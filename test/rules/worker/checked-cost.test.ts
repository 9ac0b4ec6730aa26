/** Tests of the cost of an agent that states figures while the worker counts others. */
import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import type { CostEntry, CostModelUsage } from '../../../protocol/cost.ts'
import { checkedCost } from '../../../worker/agents/cost.ts'

const usage = (model: string, inputTokens: number, costUsd?: number): CostModelUsage => ({
  model,
  inputTokens,
  outputTokens: 10,
  cacheReadTokens: 0,
  cacheWriteTokens: 0,
  ...(costUsd === undefined ? {} : { costUsd }),
})
const entry = (row: CostModelUsage): CostEntry => ({
  label: 'run',
  provider: 'agentA',
  ...row,
  estimated: false,
})
const { model: _, ...unnamed } = entry(usage('', 100, 7))

describe('the cost of an execution', () => {
  test('is what the agent stated when nothing passed, and what passed when it stated nothing', () => {
    const stated = entry(usage('m', 100, 7))
    expect(checkedCost('agentA', stated, [])).toBe(stated)
    expect(checkedCost('agentA', undefined, [])).toBeUndefined()
    expect(checkedCost('agentA', undefined, [usage('m', 200, 9)])).toMatchObject({
      inputTokens: 200,
      costUsd: 9,
      estimated: true,
      source: 'estimated',
    })
  })

  test.each<[string, CostEntry, CostModelUsage, object]>([
    ['more dollars passed', entry(usage('m', 100, 7)), usage('m', 100, 9), { costUsd: 9, estimated: true }],
    ['more dollars stated', entry(usage('m', 100, 9)), usage('m', 100, 7), { costUsd: 9, estimated: false }],
    ['more tokens passed', entry(usage('m', 100, 7)), usage('m', 200, 7), { inputTokens: 200, costUsd: 7 }],
    ['a price only outside', entry(usage('m', 100)), usage('m', 100, 3), { costUsd: 3, estimated: true }],
    ['two spellings', entry(usage('m[1m]', 1, 7)), usage('m-20261101', 1, 7), { inputTokens: 1, costUsd: 7 }],
    ['no name stated', unnamed, usage('m', 100, 7.5), { model: 'm', inputTokens: 100, costUsd: 7.5 }],
  ])('%s', (_what, stated, passed, expected) => {
    expect(checkedCost('agentA', stated, [passed])).toMatchObject(expected)
  })

  test('holds the models that the agent did not name', () => {
    const cost = checkedCost('agentA', entry(usage('m', 100, 1)), [usage('m', 100, 1), usage('hidden', 5, 4)])
    expect(cost).toMatchObject({ costUsd: 5, estimated: true })
    expect(cost?.breakdown?.map(({ model }) => model)).toEqual(['m', 'hidden'])
  })

  test('is never below what passed', () => {
    const names = fc.constantFrom('a', 'b', 'b[1m]', 'unknown')
    const row = fc
      .record({ model: names, tokens: fc.nat(1000), usd: fc.option(fc.nat(100), { nil: undefined }) })
      .map(({ model, tokens, usd }) => usage(model, tokens, usd))
    fc.assert(
      fc.property(fc.array(row, { minLength: 1 }), fc.array(row, { minLength: 1 }), (agent, vendor) => {
        const [first = usage('a', 0)] = agent
        const stated: CostEntry = { ...entry(first), ...(agent.length > 1 ? { breakdown: agent } : {}) }
        const cost = checkedCost('agentA', stated, vendor)
        const passedUsd = vendor.reduce((sum, { costUsd = 0 }) => sum + costUsd, 0)
        expect(cost?.costUsd ?? 0).toBeGreaterThanOrEqual(passedUsd - 1e-6)
      }),
    )
  })
})
