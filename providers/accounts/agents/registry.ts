/** Lists how each agent's credentials are checked and found, by the agent's name in the configuration. */
import type { AgentProvider } from '../../../protocol/agents/registry.ts'
import { agentAAccount } from './agent-a.ts'
import type { AgentAccount } from './agent-account.ts'
import { agentBAccount } from './agent-b.ts'
import { agentCAccount } from './agent-c.ts'

export const AGENT_ACCOUNTS: Readonly<Record<AgentProvider, AgentAccount>> = {
  agentA: agentAAccount,
  agentB: agentBAccount,
  agentC: agentCAccount,
}
