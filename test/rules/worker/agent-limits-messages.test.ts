/** The words for an agent that exceeded a limit: the setting, and its value. */
import { expect, test } from '@jest/globals'
import type { JobLimits } from '../../../protocol/frames.ts'
import { AgentLimits } from '../../../worker/run/agent/agent-watch.ts'
import { ManualClock } from '../../support/manual-clock.ts'

const MINUTE_MS = 60_000
const STALL_MS = 10 * MINUTE_MS

async function reasonFor(limits: JobLimits, exceed: (agent: AgentLimits, clock: ManualClock) => unknown) {
  const clock = new ManualClock()
  const reasons: string[] = []
  const agentLimits = new AgentLimits({
    clock,
    limits,
    stallMs: STALL_MS,
    isModelBusy: () => false,
    findMachineProblem: async () => undefined,
    onExceeded: (reason) => void reasons.push(reason),
  })
  await exceed(agentLimits, clock)
  agentLimits.stop()
  return reasons.join()
}

test.each<[string, JobLimits, (agent: AgentLimits, clock: ManualClock) => unknown, string]>([
  [
    'silence',
    {},
    (_, clock) => clock.advance(STALL_MS),
    'the agent printed nothing for 10 minutes, so it counts as stalled',
  ],
  [
    'three minutes',
    { maxMinutes: 3 },
    (_, clock) => clock.advance(3 * MINUTE_MS),
    'the agent took longer than sandbox.maxRunMinutes allows: 3 minutes',
  ],
  [
    'one minute',
    { maxMinutes: 1 },
    (_, clock) => clock.advance(MINUTE_MS),
    'the agent took longer than sandbox.maxRunMinutes allows: 1 minute',
  ],
  [
    'seconds',
    { maxMinutes: 0.05 },
    (_, clock) => clock.advance(3_000),
    'the agent took longer than sandbox.maxRunMinutes allows: 3 seconds',
  ],
  [
    'cost',
    { maxCostUsd: 0.5 },
    (agent) => agent.recordSpending({ costUsd: 0.51, turns: 1 }),
    'the agent spent more than agent.maxCostUsd allows: $0.5100 of $0.5',
  ],
  [
    'turns',
    { maxTurns: 2 },
    (agent) => agent.recordSpending({ turns: 3 }),
    'the agent took more turns than agent.maxTurns allows, which is 2',
  ],
])('the limit of %s', async (_, limits, exceed, words) => {
  expect(await reasonFor(limits, exceed)).toBe(words)
})
