/** agentA: Claude Code. */
import type { PriceTable } from '../../core/run/price.ts'
import type { AgentDriver } from './agent.ts'
import { agentACommand } from './agent-a-command.ts'
import { newestSession } from './agent-a-latest-session.ts'
import { agentAListener } from './agent-a-listener.ts'
import { agentASession } from './agent-a-terminal-command.ts'
import { agentAUsage } from './agent-a-usage.ts'
import { findProgram, type Where } from './locate-agent.ts'
import { redacted } from './redacting-listener.ts'

const WANTED = {
  program: 'claude',
  cure: 'sudo npm install --global --prefix /usr/local @anthropic-ai/claude-code',
}

export function agentA(where: Where, prices: PriceTable): AgentDriver {
  return {
    provider: 'agentA',
    find: () => findProgram(WANTED, where),
    command: agentACommand,
    attend: agentASession,
    newest: newestSession,
    listen: (task) => redacted(agentAListener(task, prices), task),
    usage: (files, sessionId, andSince) => agentAUsage(files, { sessionId, andSince }, prices),
  }
}
