/** The limits of an agent: time, cost, turns, silence, and the machine's own problems. */
import { describe, expect, test } from '@jest/globals'
import type { JobLimits } from '../../../../protocol/frames.ts'
import { AgentLimits } from '../../../../worker/run/agent/agent-watch.ts'
import { ManualClock } from '../../../support/manual-clock.ts'

const MINUTE_MS = 60_000

function startLimits(limits: JobLimits, problem: () => string | undefined = () => undefined) {
  const clock = new ManualClock()
  const reasons: string[] = []
  const model = { isBusy: false }
  const agentLimits = new AgentLimits({
    clock,
    limits,
    stallMs: 10 * MINUTE_MS,
    findMachineProblem: async () => problem(),
    isModelBusy: () => model.isBusy,
    onExceeded: (reason) => void reasons.push(reason),
  })
  const pass = (ms: number) => clock.advance(ms)
  return { agentLimits, reasons, pass, model }
}

describe('the limits of an agent', () => {
  test('end an agent that prints nothing, counted from its last output', async () => {
    const { agentLimits, reasons, pass } = startLimits({})
    await pass(9 * MINUTE_MS)
    agentLimits.recordOutput()
    await pass(9.9 * MINUTE_MS)
    expect(reasons).toEqual([])
    await pass(0.2 * MINUTE_MS)
    expect(reasons).toEqual([expect.stringMatching(/10 minutes.*stalled/)])
  })

  test('end an agent that takes too long, however much it prints', async () => {
    const { agentLimits, reasons, pass } = startLimits({ maxMinutes: 3 })
    for (let n = 0; n < 3 * 60; n += 1) {
      agentLimits.recordOutput()
      await pass(1_000)
    }
    expect(reasons).toEqual([expect.stringContaining('sandbox.maxRunMinutes')])
  })

  test('are named with a correct unit', async () => {
    for (const [maxMinutes, words] of [
      [0.05, '3 seconds'],
      [1, '1 minute'],
      [1.5, '1.5 minutes'],
    ] as const) {
      const { reasons, pass } = startLimits({ maxMinutes })
      await pass(maxMinutes * MINUTE_MS)
      expect(reasons).toEqual([expect.stringMatching(`sandbox\\.maxRunMinutes .*: ${words}$`)])
    }
  })

  test('end an agent that spends too much, once', () => {
    const { agentLimits, reasons } = startLimits({ maxCostUsd: 0.5 })
    agentLimits.recordSpending({ costUsd: 0.5, turns: 1 })
    agentLimits.recordSpending({ turns: 1_000 })
    expect(reasons).toEqual([])
    agentLimits.recordSpending({ costUsd: 0.51, turns: 2 })
    agentLimits.recordSpending({ costUsd: 0.6, turns: 3 })
    expect(reasons).toEqual([expect.stringMatching(/agent\.maxCostUsd .*\$0\.5100 of \$0\.5$/)])
  })

  test('let requests end that are under way when too much is spent', () => {
    const { agentLimits, reasons, model } = startLimits({ maxCostUsd: 0.5 })
    model.isBusy = true
    agentLimits.recordSpending({ costUsd: 0.51, turns: 1 })
    expect(reasons).toEqual([])
    model.isBusy = false
    agentLimits.recordCost(0.4)
    expect(reasons).toEqual([expect.stringMatching(/agent\.maxCostUsd .*\$0\.5100 of \$0\.5$/)])
  })

  test('end an agent that takes too many turns', () => {
    const { agentLimits, reasons } = startLimits({ maxTurns: 2 })
    agentLimits.recordSpending({ turns: 2 })
    agentLimits.recordSpending({ turns: 3 })
    expect(reasons).toEqual([expect.stringMatching(/agent\.maxTurns .* 2$/)])
  })

  test('end an agent when its machine cannot go on', async () => {
    let full = false
    const { reasons, pass } = startLimits({}, () => (full ? 'the disk is nearly full' : undefined))
    await pass(MINUTE_MS)
    full = true
    await pass(MINUTE_MS)
    expect(reasons).toEqual(['the disk is nearly full'])
  })

  test('ignore a failing check of the machine', async () => {
    const { reasons, pass } = startLimits({ maxMinutes: 1 }, () => {
      throw new Error('EIO: statfs')
    })
    await pass(0.9 * MINUTE_MS)
    expect(reasons).toEqual([])
    await pass(0.2 * MINUTE_MS)
    expect(reasons).toEqual([expect.stringContaining('sandbox.maxRunMinutes')])
  })

  test('report nothing after the agent has ended', async () => {
    const { agentLimits, reasons, pass } = startLimits({ maxMinutes: 1 })
    agentLimits.stop()
    await pass(20 * MINUTE_MS)
    expect(reasons).toEqual([])
  })
})
