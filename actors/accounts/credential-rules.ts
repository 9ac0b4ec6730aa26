/**
 * These rules decide which texts may be credentials and which configuration fields a credential fills.
 *
 * A new credential replaces all credentials of its provider. Otherwise an old login would come back into use when the
 * person removes the key that had hidden it.
 */
import type { CredentialChange } from '../../core/provider-ports.ts'
import { credentialFieldFor } from '../../core/settings/agent-credentials.ts'
import { AGENTS, type AgentProvider } from '../../protocol/agents/registry.ts'
import { MASK } from '../../protocol/config.ts'
import { CREDENTIAL_PROVIDERS, type CredentialsRequest } from '../../protocol/connect.ts'
import { CREDENTIAL_CHARS_MAX } from '../../protocol/limits.ts'

/** Returns the end of a sentence that begins with "the value", or undefined when the value may be a credential. */
export function credentialProblem(value: string): string | undefined {
  if (value === '') return 'is empty'
  if (value === MASK) return 'is the mask, not a credential; leave the field out to keep what is stored'
  if (value.length > CREDENTIAL_CHARS_MAX) return `is longer than ${CREDENTIAL_CHARS_MAX} characters`
  if (/[\r\n]/.test(value)) return 'holds a line end; give the credential alone, on one line'
  if (/\s/.test(value)) return 'holds a space; give the credential alone'
  return /^[!-~]*$/.test(value)
    ? undefined
    : 'holds a character that no credential has (a control character, or one beyond ASCII); copy it again'
}

/** Returns the configuration change for a request field. An empty value disconnects the provider. */
export function changeForField(field: keyof CredentialsRequest, value: string): CredentialChange {
  const provider = CREDENTIAL_PROVIDERS[field]
  if (provider === 'tracker')
    return { tracker: { apiKey: value || null, refreshToken: null, tokenExpiresAt: null } }
  if (provider === 'codehost') return { codehost: { token: value || null } }
  return changeForAgent(provider, { [credentialFieldFor(provider, value)]: value || null })
}

/** Sets the given fields of this agent, removes its other fields, and ignores fields of other agents. */
export function changeForAgent(
  provider: AgentProvider,
  given: NonNullable<CredentialChange['agent']>,
): CredentialChange {
  const fields = AGENTS[provider].credentials.map(({ field }) => [field, given[field] ?? null] as const)
  return { agent: Object.fromEntries(fields) }
}
