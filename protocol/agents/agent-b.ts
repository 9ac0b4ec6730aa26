/** The definition of agentB, Codex. */
import type { AgentDefinition } from './agent-definition.ts'

export const agentB = {
  provider: 'agentB',
  displayName: 'codex',
  productName: 'Codex',
  loginCommand: 'codex login',
  credentials: [
    { field: 'agentBApiKey', kind: 'api-key', isGivenByHand: true },
    { field: 'agentBLogin', kind: 'login' },
  ],
  isResumable: false,
} as const satisfies AgentDefinition
