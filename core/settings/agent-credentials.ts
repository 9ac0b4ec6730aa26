/** Finds an agent's credentials in the configuration, and the field for one that a person gives. */
import { AGENTS, type AgentCredentialField, type AgentProvider } from '../../protocol/agents/registry.ts'
import type { ServiceConfig } from '../../protocol/config.ts'
import type { RunCredentials } from '../../protocol/frames.ts'

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
