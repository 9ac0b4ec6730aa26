/** The driver of agentA, Claude Code. */
import type { PriceTable } from '../../../core/run/price.ts'
import type { AgentDriver } from '../agent.ts'
import { locateProgram, type SearchPlace } from '../locate-agent.ts'
import { probeAgent } from '../probe-agent.ts'
import { withRedaction } from '../redacting-listener.ts'
import { buildAgentACommand } from './command.ts'
import { findLatestSession } from './latest-session.ts'
import { createAgentAListener } from './listener.ts'
import { buildAgentATerminalCommand } from './terminal-command.ts'
import { agentATranscripts } from './transcript.ts'
import { readAgentAUsage } from './usage.ts'

const AGENT_A_PROGRAM = {
  program: 'claude',
  installCommand: 'sudo npm install --global --prefix /usr/local @anthropic-ai/claude-code',
  loginFiles: ['.claude/.credentials.json'],
  loginVariables: ['CLAUDE_CODE_OAUTH_TOKEN', 'ANTHROPIC_API_KEY'],
}

export function createAgentA(where: SearchPlace, prices: PriceTable): AgentDriver {
  return {
    provider: 'agentA',
    locate: () => locateProgram(AGENT_A_PROGRAM, where),
    probe: () => probeAgent(AGENT_A_PROGRAM, where),
    buildCommand: buildAgentACommand,
    buildTerminalCommand: buildAgentATerminalCommand,
    transcripts: agentATranscripts,
    findLatestSession,
    createListener: (task) => withRedaction(createAgentAListener(task, task.prices ?? prices), task),
    readUsage: (files, sessionId, andSince) =>
      readAgentAUsage(files, { sessionId, othersSince: andSince }, prices),
  }
}
