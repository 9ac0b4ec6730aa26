/** The definition of agentC, Gemini CLI. */
import type { AgentDefinition } from './agent-definition.ts'

export const agentC = {
  provider: 'agentC',
  displayName: 'agentC',
  productName: 'Gemini CLI',
  loginCommand: 'gemini',
  credentials: [
    { field: 'agentCApiKey', kind: 'api-key', isGivenByHand: true },
    { field: 'agentCLogin', kind: 'login' },
  ],
  isResumable: false,
} as const satisfies AgentDefinition
