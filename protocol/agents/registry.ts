/** The agent registry lists the definition of every agent. */
import { agentA } from './agent-a.ts'
import { agentB } from './agent-b.ts'
import { agentC } from './agent-c.ts'
import type { AgentDefinition } from './agent-definition.ts'

const DEFINITIONS = { agentA, agentB, agentC }

export type AgentProvider = keyof typeof DEFINITIONS
type Credential = (typeof DEFINITIONS)[AgentProvider]['credentials'][number]
export type AgentCredentialField = Credential['field']
type AgentKeyField = Extract<Credential, { readonly isGivenByHand: true }>['field']

export const AGENTS: Readonly<Record<AgentProvider, AgentDefinition<AgentProvider, AgentCredentialField>>> =
  DEFINITIONS
export const AGENT_PROVIDERS = Object.values(AGENTS).map(({ provider }) => provider)

/** The credentials that a person may give by hand, and the agent of each. */
export const AGENT_KEY_FIELDS = Object.fromEntries(
  Object.values(AGENTS).flatMap(({ provider, credentials }) =>
    credentials.filter(({ isGivenByHand }) => isGivenByHand).map(({ field }) => [field, provider]),
  ),
) as Readonly<Record<AgentKeyField, AgentProvider>>

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
