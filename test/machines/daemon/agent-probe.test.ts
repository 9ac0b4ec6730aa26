/** The look for agents: the daemon reports a change at once, and a probe that hangs stops nothing. */
import { expect, test } from '@jest/globals'
import { AGENT_PROBE_MS } from '../../../actors/daemon/agent-probe.module.ts'
import { AGENT_PROBE_MS_MAX } from '../../../protocol/limits.ts'
import type { WorkerAgents } from '../../../protocol/worker.ts'
import { DaemonConversation, ManualPromise } from './daemon-conversation.ts'

const MISSING: WorkerAgents = { agentA: { found: false, problem: 'install it' } }
const FOUND: WorkerAgents = { agentA: { found: true } }

/** A daemon whose probes for agents end as the test wants. */
function createWith(probeAgents: () => Promise<WorkerAgents>): DaemonConversation {
  const capabilities = { os: 'linux', arch: 'x64', provider: 'bwrap', agents: MISSING }
  return new DaemonConversation({ capabilities, probeAgents })
}

async function startWith(probeAgents: () => Promise<WorkerAgents>): Promise<DaemonConversation> {
  const conversation = createWith(probeAgents)
  await conversation.start()
  await conversation.register()
  return conversation
}

const reportedAgents = ({ frames }: DaemonConversation) =>
  frames.flatMap((frame) =>
    'capabilities' in frame && frame.capabilities !== undefined ? [frame.capabilities.agents] : [],
  )

test('an agent that was installed is reported after the next look, once', async () => {
  let agents = MISSING
  const conversation = await startWith(async () => agents)
  expect(reportedAgents(conversation)).toEqual([MISSING])
  agents = FOUND
  await conversation.clock.advance(AGENT_PROBE_MS + 1)
  await conversation.clock.advance(3 * AGENT_PROBE_MS)
  expect(reportedAgents(conversation)).toEqual([MISSING, FOUND])
})

test('a new connection names the agents of the last look', async () => {
  let agents = MISSING
  const conversation = await startWith(async () => agents)
  await conversation.loseConnection()
  agents = FOUND
  await conversation.clock.advance(AGENT_PROBE_MS + 1)
  await conversation.openConnection()
  expect(reportedAgents(conversation)).toEqual([MISSING, FOUND])
})

test('agents that are found while the host answers a registration are reported after its answer', async () => {
  const found = new ManualPromise<WorkerAgents>()
  const conversation = createWith(() => found.promise)
  await conversation.start()
  await conversation.openConnection()
  found.resolve(FOUND)
  await conversation.clock.settle()
  expect(reportedAgents(conversation)).toEqual([MISSING])
  await conversation.register()
  expect(reportedAgents(conversation)).toEqual([MISSING, FOUND])
})

test('a probe that hangs is named in the log, and no second one begins', async () => {
  let probes = 0
  const conversation = await startWith(() => {
    probes += 1
    return new Promise(() => {})
  })
  await conversation.clock.advance(AGENT_PROBE_MS_MAX + 3 * AGENT_PROBE_MS)
  expect(probes).toBe(1)
  expect(
    conversation.log.lines.filter(({ message }) => message.startsWith('looking for the agents')),
  ).toHaveLength(1)
  await conversation.dispatch('ls-1')
  expect(conversation.transcript().join('\n')).toContain('dispatch-accepted')
})

test('a probe that fails is repeated', async () => {
  let probes = 0
  const conversation = await startWith(async () => {
    probes += 1
    if (probes === 1) throw new Error('no folder')
    return FOUND
  })
  await conversation.clock.advance(AGENT_PROBE_MS + 1)
  expect(reportedAgents(conversation).at(-1)).toEqual(FOUND)
})
