/** The driver of agentB, Codex. Sessions cannot be resumed, because Codex reports no session id. */
import type { PriceTable } from '../../../core/run/price.ts'
import type { AgentDriver } from '../agent.ts'
import { locateProgram, type SearchPlace } from '../locate-agent.ts'
import { probeAgent } from '../probe-agent.ts'
import { withRedaction } from '../redacting-listener.ts'
import { buildAgentBCommand } from './command.ts'
import { createAgentBListener } from './listener.ts'
import { readAgentBUsage } from './usage.ts'

const AGENT_B_PROGRAM = {
  program: 'codex',
  installCommand: 'sudo npm install --global --prefix /usr/local @openai/codex',
  loginFiles: ['.codex/auth.json'],
  loginVariables: [],
}

export function createAgentB(where: SearchPlace, prices: PriceTable): AgentDriver {
  return {
    provider: 'agentB',
    locate: () => locateProgram(AGENT_B_PROGRAM, where),
    probe: () => probeAgent(AGENT_B_PROGRAM, where),
    buildCommand: buildAgentBCommand,
    createListener: (task) => withRedaction(createAgentBListener(task, task.prices ?? prices), task),
    readUsage: (files, sessionId) => readAgentBUsage(files, sessionId, prices),
  }
}
