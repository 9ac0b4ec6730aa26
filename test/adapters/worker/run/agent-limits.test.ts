/** When an agent has had enough. */
import { describe, expect, test } from '@jest/globals'
import type { JobLimits } from '../../../../protocol/frames.ts'
import { AgentLimits } from '../../../../worker/run/agent-limits.ts'
import { ManualClock } from '../../../support/manual-clock.ts'

const MINUTE_MS = 60_000

function watched(limits: JobLimits, trouble: () => string | undefined = () => undefined) {
  const clock = new ManualClock()
  const said: string[] = []
  const budget = new AgentLimits({
    clock,
    limits,
    stallMs: 10 * MINUTE_MS,
    findMachineProblem: async () => trouble(),
    onExceeded: (reason) => void said.push(reason),
  })
  const pass = (ms: number) => clock.advance(ms)
  return { budget, said, pass }
}

describe('a budget', () => {
  test('ends an agent that says nothing, counted from its last word', async () => {
    const { budget, said, pass } = watched({})
    await pass(9 * MINUTE_MS)
    budget.recordOutput()
    await pass(9.9 * MINUTE_MS)
    expect(said).toEqual([])
    await pass(0.2 * MINUTE_MS)
    expect(said).toEqual(['the agent printed nothing for 10 minutes, so it counts as stalled'])
  })

  test('ends an agent that takes too long, however much it says', async () => {
    const { budget, said, pass } = watched({ maxMinutes: 3 })
    for (let n = 0; n < 3 * 60; n += 1) {
      budget.recordOutput()
      await pass(1_000)
    }
    expect(said).toEqual(['the agent took longer than sandbox.maxRunMinutes allows: 3 minutes'])
  })

  test('says how long that was, in words that are right', async () => {
    for (const [maxMinutes, words] of [
      [0.05, '3 seconds'],
      [1, '1 minute'],
      [1.5, '1.5 minutes'],
    ] as const) {
      const { said, pass } = watched({ maxMinutes })
      await pass(maxMinutes * MINUTE_MS)
      expect(said).toEqual([`the agent took longer than sandbox.maxRunMinutes allows: ${words}`])
    }
  })

  test('ends an agent that spends too much, once', () => {
    const { budget, said } = watched({ maxCostUsd: 0.5 })
    budget.recordSpending({ costUsd: 0.5, turns: 1 })
    budget.recordSpending({ turns: 1_000 })
    expect(said).toEqual([])
    budget.recordSpending({ costUsd: 0.51, turns: 2 })
    budget.recordSpending({ costUsd: 0.6, turns: 3 })
    expect(said).toEqual(['the agent spent more than agent.maxCostUsd allows: $0.5100 of $0.5'])
  })

  test('ends an agent that takes too many turns', () => {
    const { budget, said } = watched({ maxTurns: 2 })
    budget.recordSpending({ turns: 2 })
    budget.recordSpending({ turns: 3 })
    expect(said).toEqual(['the agent took more turns than agent.maxTurns allows, which is 2'])
  })

  test('ends an agent when its machine cannot go on', async () => {
    let full = false
    const { said, pass } = watched({}, () => (full ? 'the disk is nearly full' : undefined))
    await pass(MINUTE_MS)
    full = true
    await pass(MINUTE_MS)
    expect(said).toEqual(['the disk is nearly full'])
  })

  test('goes on when nobody can say how the machine is', async () => {
    const { said, pass } = watched({ maxMinutes: 1 }, () => {
      throw new Error('EIO: statfs')
    })
    await pass(0.9 * MINUTE_MS)
    expect(said).toEqual([])
    await pass(0.2 * MINUTE_MS)
    expect(said).toEqual(['the agent took longer than sandbox.maxRunMinutes allows: 1 minute'])
  })

  test('says nothing any more once the agent has ended', async () => {
    const { budget, said, pass } = watched({ maxMinutes: 1 })
    budget.stop()
    await pass(20 * MINUTE_MS)
    expect(said).toEqual([])
  })
})
