/** The definition of agentC, Gemini CLI. */
import type { AgentDefinition } from './agent-definition.ts'

export const agentC: AgentDefinition = {
  provider: 'agentC',
  displayName: 'agentC',
  credentials: [
    { field: 'agentCApiKey', kind: 'api-key' },
    { field: 'agentCLogin', kind: 'login' },
  ],
  isResumable: false,
}
