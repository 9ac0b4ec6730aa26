/**
 * An agent's definition states what everybody must know of a coding agent: its credentials and what it can do.
 *
 * Each agent has one file in this folder; the configuration's schema is made of them. Checks of its credentials are
 * left to `providers/accounts/agents/`, its command and its output to `worker/agents/`.
 */

/** The registry narrows the names to those of the agents that exist. */
export interface AgentDefinition<Provider extends string = string, Field extends string = string> {
  readonly provider: Provider
  /** The agent's name in messages and on a command line. */
  readonly displayName: string
  /** The name of the vendor's product. */
  readonly productName: string
  /** The product's own command by which a person logs in. */
  readonly loginCommand: string
  /** The agent's credentials in order of preference. A value without a known prefix belongs to the first. */
  readonly credentials: readonly [CredentialDefinition<Field>, ...CredentialDefinition<Field>[]]
  /** A person can continue a session of the agent at a terminal. */
  readonly isResumable: boolean
}

export interface CredentialDefinition<Field extends string = string> {
  /** The field of the configuration's section `agent`. */
  readonly field: Field
  /** A login is a whole file. The other kinds are sent as a header value. */
  readonly kind: (typeof AGENT_CREDENTIAL_KINDS)[number]
  /** People may give it by hand; the other credentials are found on the machine. */
  readonly isGivenByHand?: true
  /** The agent's program can use it only if it lies in the sandbox itself. */
  readonly worksOnlyInSandbox?: true
  /** A value with this prefix belongs to this credential, even if a person gives the value as a key. */
  readonly prefix?: string
}

export const AGENT_CREDENTIAL_KINDS = ['api-key', 'oauth-token', 'login'] as const
