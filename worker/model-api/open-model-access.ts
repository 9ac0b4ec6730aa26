/** `openModelAccess` finds the vendor's API for an agent's credential. Each agent has one vendor. */
import type { Result } from '../../core/result.ts'
import type { AgentProvider } from '../../protocol/agents/registry.ts'
import { openAnthropicAccess } from './anthropic-access.ts'
import { openGoogleAccess } from './google-access.ts'
import type { AgentCredential, ModelAccess, OpenModelAccess } from './model-access.ts'
import { openOpenaiAccess } from './openai-access.ts'

const VENDORS: Readonly<Record<AgentProvider, OpenModelAccess>> = {
  agentA: openAnthropicAccess,
  agentB: openOpenaiAccess,
  agentC: openGoogleAccess,
}

export function openModelAccess(
  provider: AgentProvider,
  credential: AgentCredential,
  now: number,
): Result<ModelAccess> {
  return VENDORS[provider](credential, now)
}
