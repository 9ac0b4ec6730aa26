/** The definition of agentA, Claude Code. */
import type { AgentDefinition } from './agent-definition.ts'

export const agentA = {
  provider: 'agentA',
  displayName: 'claude',
  productName: 'Claude Code',
  loginCommand: 'claude setup-token',
  credentials: [
    { field: 'agentAApiKey', kind: 'api-key', isGivenByHand: true },
    // `claude setup-token` prints such a token. The vendor refuses it as an API key.
    { field: 'agentAOauthToken', kind: 'oauth-token', prefix: 'sk-ant-oat' },
  ],
  isResumable: true,
} as const satisfies AgentDefinition
