/** The words of an agent's end: why a run failed, was interrupted or met a limit. */
import { describe, expect, test } from '@jest/globals'
import { PRICES } from '../../../core/run/price-table.ts'
import type { AgentExit, AgentListener, AgentTask } from '../../../worker/agents/agent.ts'
import { createAgentAListener } from '../../../worker/agents/agent-a/listener.ts'
import { createAgentBListener } from '../../../worker/agents/agent-b/listener.ts'
import { createAgentCListener } from '../../../worker/agents/agent-c/listener.ts'
import { describeSilentExit, type ExitContext } from '../../../worker/agents/events.ts'

const AT = '2026-01-01T00:00:00.000Z'

const task = (provider: AgentTask['agent']['provider']): AgentTask => ({
  agent: { provider, instructions: '', memories: [] },
  prompt: 'Greet.',
  sessionId: '11111111-2222-4333-8444-555555555555',
  environment: {},
})

/** The reason after these lines of output and this exit. */
function reasonOf(listener: AgentListener, lines: readonly object[], exit: AgentExit): string | undefined {
  for (const line of lines) listener.onOutputLine(JSON.stringify(line), AT)
  return listener.onExit(exit, AT).reason
}

test.each<[AgentExit, ExitContext, string]>([
  [{ code: 0 }, {}, 'the agent ended with exit code 0 before it reported a result'],
  [
    { code: 1 },
    { lastErrorLine: 'no such model' },
    'the agent ended with exit code 1 before it reported a result: no such model',
  ],
  [{ code: 1 }, { hadResult: true }, 'the agent ended with exit code 1 after it had reported a result'],
  [{}, {}, 'the agent ended with exit code unknown before it reported a result'],
  [{ code: 130 }, {}, 'the agent was ended by SIGINT before it reported a result'],
  [{ code: 143 }, {}, 'the agent was ended by SIGTERM before it reported a result'],
  [{ signal: 'SIGTERM' }, {}, 'the agent was ended by SIGTERM before it reported a result'],
  [
    { code: 137 },
    {},
    'the agent was killed before it reported a result; if nobody stopped it, it used more memory than there is: sandbox.memoryMib gives a sandbox more',
  ],
])('the exit %j of an agent that gave no reason, with %j: %s', (exit, context, words) => {
  expect(describeSilentExit(exit, context)).toBe(words)
})

describe('agentA', () => {
  const result = (fields: object) => ({ type: 'result', is_error: true, ...fields })

  test.each([
    [
      'at its limit of turns',
      result({ subtype: 'error_max_turns', errors: ['Too many turns (1)'] }),
      'Too many turns (1); agent.maxTurns allows no more',
    ],
    [
      'at its budget',
      result({ subtype: 'error_max_budget_usd', errors: ['Spent $0.005'] }),
      'Spent $0.005; agent.maxCostUsd allows no more',
    ],
    ['interrupted', result({ terminal_reason: 'aborted_streaming' }), 'the agent was interrupted'],
    [
      'at a usage limit without a word',
      result({ api_error_status: 429 }),
      "the agent's usage limit is reached",
    ],
  ])('%s', (_, line, words) => {
    expect(reasonOf(createAgentAListener(task('agentA'), PRICES), [line], { code: 1 })).toBe(words)
  })
})

test('agentB: a failed turn without a message', () => {
  const listener = createAgentBListener(task('agentB'), PRICES)
  expect(reasonOf(listener, [{ type: 'turn.failed' }], { code: 1 })).toBe(
    'the agent failed and did not say why',
  )
})

test.each([
  [41, 'the agent has no credential; set one with: switchyard config set agent.agentCApiKey'],
  [42, 'the agent does not understand how it was started'],
  [44, 'the agent could not use its own sandbox'],
  [52, 'the agent does not understand its settings'],
  [53, 'the agent reached its limit of turns'],
  [54, "one of the agent's tools failed for good"],
  [55, 'the agent does not trust the checkout'],
])('agentC: the exit code %d means: %s', (code, words) => {
  expect(reasonOf(createAgentCListener(PRICES), [], { code })).toBe(words)
})
