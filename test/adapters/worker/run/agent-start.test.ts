/** The code host's token in an agent's sandbox, and its redaction in the agent's output. */
import { expect, test } from '@jest/globals'
import type { AgentJob } from '../../../../protocol/frames.ts'
import { createAgentDrivers } from '../../../../worker/agents/registry.ts'
import { prepareAgent } from '../../../../worker/run/agent/agent-start.ts'
import type { ExecutorDependencies } from '../../../../worker/run/execution/executor-dependencies.ts'
import { CODEHOST_CREDENTIAL_INSIDE } from '../../../../worker/sandbox/inside-paths.ts'

const NO_CREDENTIAL = { secrets: [], close: async () => {} }
const AT = '2026-01-01T00:00:00.000Z'
const TOKEN = 'a-token-of-the-code-host'
const dependencies = {
  drivers: createAgentDrivers({ path: '', home: '/root', hasOwnUsers: false }),
  uuid: () => 'a-session',
} as unknown as ExecutorDependencies

const jobWith = (exposeCodehostToken: boolean) =>
  ({
    kind: 'run',
    run: { id: 'run-1', ticket: { identifier: 'A-1', title: 'x', url: '', labels: [], description: '' } },
    repo: { key: 'a', remote: 'o/a', defaultBranch: 'main' },
    agent: { provider: 'agentA', instructions: '', memories: [], command: 'agent' },
    credentials: { codehost: TOKEN },
    sandbox: { exposeCodehostToken },
    limits: {},
  }) as unknown as AgentJob

test.each([true, false])(
  'the code host’s token is in the sandbox only if configured: %s',
  async (isGiven) => {
    const started = await prepareAgent(dependencies, jobWith(isGiven), { prompt: 'x' }, NO_CREDENTIAL)
    if (!started.ok) throw new Error(started.refusal.message)
    const { command, listener } = started.value
    const files = command.files
      ?.filter(({ text }) => text.includes(TOKEN))
      .map(({ path, mode }) => [path, mode])
    expect(files).toEqual(isGiven ? [[CODEHOST_CREDENTIAL_INSIDE, '0400']] : [])
    expect(JSON.stringify([command.command, command.environment])).not.toContain(TOKEN)
    if (isGiven)
      expect(JSON.stringify(listener.onOutputLine(`GH_TOKEN=${TOKEN}`, AT))).toContain('GH_TOKEN=***')
  },
)
