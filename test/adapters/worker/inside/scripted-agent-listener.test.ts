/** Tests that the worker's listener for agentA understands the scripted agent's stream. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import type {
  AgentExitReport,
  AgentFiles,
  AgentObservation,
  AgentTask,
} from '../../../../worker/agents/agent.ts'
import { createAgentDrivers } from '../../../../worker/agents/registry.ts'
import {
  type AgentFolders,
  createAgentFolders,
  HEADLESS,
  promptOf,
  runScriptedAgent,
  type ScriptedAgentProcess,
} from '../../../support/scripted-agent.ts'
import { until } from '../../../support/until.ts'

const SESSION = '11111111-2222-4333-8444-555555555555'
const AT = '2026-01-31T12:00:00.000Z'
const { agentA } = createAgentDrivers({ path: '', home: '/nowhere', hasOwnUsers: false })

async function runListener(
  played: ScriptedAgentProcess,
  more: Partial<AgentTask> = {},
): Promise<{ observations: readonly AgentObservation[]; ending: AgentExitReport }> {
  const ended = await played.ended
  const task: AgentTask = {
    agent: { provider: 'agentA', effort: 'medium', instructions: '', memories: [] },
    prompt: '',
    sessionId: SESSION,
    environment: {},
    ...more,
  }
  const listener = agentA.createListener(task)
  const observations = played.out().flatMap((line) => listener.onOutputLine(line, AT))
  const exit = typeof ended === 'number' ? { code: ended } : { signal: ended }
  return { observations, ending: listener.onExit(exit, AT) }
}

function filesOf({ home }: AgentFolders): AgentFiles {
  return {
    list: async (folder) => {
      try {
        return readdirSync(join(home, folder))
      } catch {
        return []
      }
    },
    async *lines(path) {
      yield* readFileSync(join(home, path), 'utf8').split('\n')
    },
  }
}

const runScript = (folders: AgentFolders, ...script: string[]) =>
  runScriptedAgent(folders, promptOf(...script), [...HEADLESS, '--session-id', SESSION])

test('a completed agent reports session, last text and cost, and its transcripts hold the same usage', async () => {
  const folders = createAgentFolders()
  const { observations, ending } = await runListener(
    runScript(folders, 'say a', 'run echo hi', 'subagent b', 'say All done.'),
  )
  expect(observations).toContainEqual({ is: 'session', id: SESSION })
  expect(ending).toMatchObject({ verdict: 'done', summary: 'All done.', events: [] })
  expect(ending.cost).toMatchObject({ provider: 'agentA', estimated: true })
  expect(ending.cost?.breakdown?.map(({ model }) => model)).toEqual(['scripted-1', 'scripted-1-mini'])
  const snapshots = await agentA.readUsage(filesOf(folders), SESSION)
  expect(snapshots.map(({ subagentId }) => typeof subagentId)).toEqual(['undefined', 'string'])
  const entries = snapshots.flatMap((snapshot) => snapshot.entries)
  expect(entries.reduce((sum, { outputTokens }) => sum + outputTokens, 0)).toBe(ending.cost?.outputTokens)
  expect(entries.reduce((sum, { inputTokens }) => sum + inputTokens, 0)).toBe(ending.cost?.inputTokens)
})

test('a resumed agent reports only its new usage', async () => {
  const folders = createAgentFolders()
  const first = await runListener(runScript(folders, 'say a'))
  const second = await runListener(
    runScriptedAgent(folders, promptOf('say a'), [...HEADLESS, '--resume', SESSION]),
    {
      resume: SESSION,
    },
  )
  expect(second.ending.cost).toEqual(first.ending.cost)
})

test('a failure, a usage limit, a crash and an interruption get their verdicts', async () => {
  expect((await runListener(runScript(createAgentFolders(), 'fail no luck'))).ending).toMatchObject({
    verdict: 'failed',
    reason: 'no luck',
  })
  expect((await runListener(runScript(createAgentFolders(), 'say a', 'limit 5'))).ending).toMatchObject({
    verdict: 'limit',
    events: [{ type: 'limit', provider: 'agentA', resetsAt: expect.any(String) }],
  })
  expect((await runListener(runScript(createAgentFolders(), 'say a', 'crash'))).ending).toMatchObject({
    verdict: 'failed',
  })
  const played = runScript(createAgentFolders(), 'say a', 'wait 600')
  await until('the agent has printed a message', () => played.lines().length > 1)
  played.process.kill('SIGINT')
  expect((await runListener(played)).ending).toMatchObject({ verdict: 'interrupted' })
})
