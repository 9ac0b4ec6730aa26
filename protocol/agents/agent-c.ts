/** The definition of agentC, Gemini CLI. */
import type { AgentDefinition } from './agent-definition.ts'

export const agentC = {
  provider: 'agentC',
  displayName: 'gemini',
  productName: 'Gemini CLI',
  loginCommand: 'gemini',
  credentials: [
    { field: 'agentCApiKey', kind: 'api-key', isGivenByHand: true },
    // The program renews it itself, and its address is no setting of the program.
    { field: 'agentCLogin', kind: 'login', worksOnlyInSandbox: true },
  ],
  isResumable: false,
} as const satisfies AgentDefinition
