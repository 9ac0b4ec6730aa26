/** agentB: Codex. It reports no session, so nothing resumes one; its records tell what it used. */
import type { PriceTable } from '../../core/run/price.ts'
import type { AgentDriver } from './agent.ts'
import { agentBCommand } from './agent-b-command.ts'
import { agentBListener } from './agent-b-listener.ts'
import { agentBUsage } from './agent-b-usage.ts'
import { findProgram, type Where } from './locate-agent.ts'
import { redacted } from './redacting-listener.ts'

const WANTED = { program: 'codex', cure: 'sudo npm install --global --prefix /usr/local @openai/codex' }

export function agentB(where: Where, prices: PriceTable): AgentDriver {
  return {
    provider: 'agentB',
    find: () => findProgram(WANTED, where),
    command: agentBCommand,
    listen: (task) => redacted(agentBListener(task, prices), task),
    usage: (files, sessionId) => agentBUsage(files, sessionId, prices),
  }
}
