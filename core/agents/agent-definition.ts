/**
 * An agent's definition states what the host must know of a coding agent: its credentials and what it can do.
 *
 * Each agent has one file in this folder. Checks of its credentials are left to `providers/accounts/agents/`, its
 * command and its output to `worker/agents/`.
 */
import type { AgentCredentialField, AgentProvider } from '../../protocol/config.ts'
import type { RunCredentials } from '../../protocol/frames.ts'

export interface AgentDefinition {
  readonly provider: AgentProvider
  /** The agent's name in messages. */
  readonly displayName: string
  /** The agent's credentials in order of preference. A value without a known prefix belongs to the first. */
  readonly credentials: readonly [CredentialDefinition, ...CredentialDefinition[]]
  /** A person can continue a session of the agent at a terminal. */
  readonly isResumable: boolean
}

export interface CredentialDefinition {
  /** The field of the configuration's section `agent`. */
  readonly field: AgentCredentialField
  /** A login is a whole file. The other kinds are sent as a header value. */
  readonly kind: NonNullable<RunCredentials['agent']>['kind']
  /** A value with this prefix belongs to this credential, even if a person gives the value as a key. */
  readonly prefix?: string
}
