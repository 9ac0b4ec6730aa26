/** The driver of agentC, Gemini CLI. Nothing outlives its sandbox: no resumable session and no usage records. */
import type { PriceTable } from '../../../core/run/price.ts'
import type { AgentDriver } from '../agent.ts'
import { locateProgram, type SearchPlace } from '../locate-agent.ts'
import { probeAgent } from '../probe-agent.ts'
import { withRedaction } from '../redacting-listener.ts'
import { buildAgentCCommand } from './command.ts'
import { createAgentCListener } from './listener.ts'

const AGENT_C_PROGRAM = {
  program: 'gemini',
  installCommand: 'sudo npm install --global --prefix /usr/local @google/gemini-cli',
  loginFiles: ['.gemini/oauth_creds.json'],
  loginVariables: ['GEMINI_API_KEY'],
}

export function createAgentC(where: SearchPlace, prices: PriceTable): AgentDriver {
  return {
    provider: 'agentC',
    locate: () => locateProgram(AGENT_C_PROGRAM, where),
    probe: () => probeAgent(AGENT_C_PROGRAM, where),
    buildCommand: buildAgentCCommand,
    createListener: (task) => withRedaction(createAgentCListener(task.prices ?? prices), task),
    readUsage: async () => [],
  }
}
