/** agentC: Gemini CLI. It keeps nothing that outlives its sandbox: no session to resume, no records of its use. */
import type { PriceTable } from '../../core/run/price.ts'
import type { AgentDriver } from './agent.ts'
import { agentCCommand } from './agent-c-command.ts'
import { agentCListener } from './agent-c-listener.ts'
import { findProgram, type Where } from './locate-agent.ts'
import { redacted } from './redacting-listener.ts'

const WANTED = { program: 'gemini', cure: 'sudo npm install --global --prefix /usr/local @google/gemini-cli' }

export function agentC(where: Where, prices: PriceTable): AgentDriver {
  return {
    provider: 'agentC',
    find: () => findProgram(WANTED, where),
    command: agentCCommand,
    listen: (task) => redacted(agentCListener(prices), task),
    usage: async () => [],
  }
}
