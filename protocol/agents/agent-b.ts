/** The definition of agentB, Codex. */
import type { AgentDefinition } from './agent-definition.ts'

export const agentB = {
  provider: 'agentB',
  displayName: 'agentB',
  productName: 'Codex',
  loginCommand: 'codex login',
  credentials: [
    { field: 'agentBApiKey', kind: 'api-key' },
    { field: 'agentBLogin', kind: 'login' },
  ],
  isResumable: false,
} as const satisfies AgentDefinition
