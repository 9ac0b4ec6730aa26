/** The agent registry lists the definition of every agent, by its name in the configuration. */
import type { AgentCredentialField, AgentProvider, ServiceConfig } from '../../protocol/config.ts'
import type { RunCredentials } from '../../protocol/frames.ts'
import { agentA } from './agent-a.ts'
import { agentB } from './agent-b.ts'
import { agentC } from './agent-c.ts'
import type { AgentDefinition } from './agent-definition.ts'

export const AGENTS: Readonly<Record<AgentProvider, AgentDefinition>> = {
  agentA,
  agentB,
  agentC,
}

/**
 * The agent of every resumed session. A run does not record its agent, so a second resumable agent needs such a record
 * first.
 */
export const RESUMABLE_AGENT: AgentProvider = resumableAgent()

function resumableAgent(): AgentProvider {
  const [only, ...others] = Object.values(AGENTS).filter(({ isResumable }) => isResumable)
  if (only === undefined || others.length > 0) throw new Error('exactly one agent must be resumable')
  return only.provider
}

/** Returns the configuration field for a value that a person gives as the agent's key. */
export function credentialFieldFor(provider: AgentProvider, value: string): AgentCredentialField {
  const { credentials } = AGENTS[provider]
  const byPrefix = credentials.find(({ prefix }) => prefix !== undefined && value.startsWith(prefix))
  return (byPrefix ?? credentials[0]).field
}

/** Prefers a key to a login, because a person set it on purpose and it does not expire during a run. */
export function agentCredential(
  provider: AgentProvider,
  agent: ServiceConfig['agent'],
): RunCredentials['agent'] {
  for (const { field, kind } of AGENTS[provider].credentials) {
    const value = agent[field]
    if (value !== undefined && value !== '') return { kind, value }
  }
  return undefined
}
