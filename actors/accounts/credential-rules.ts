/**
 * These rules decide which texts may be credentials and which configuration fields a credential fills.
 *
 * A new credential replaces all credentials of its provider. Otherwise an old login would come back into use when the
 * person removes the key that had hidden it.
 */
import type { CredentialChange } from '../../core/provider-ports.ts'
import { type AgentProvider, MASK } from '../../protocol/config.ts'
import type { CredentialsRequest } from '../../protocol/connect.ts'
import { CREDENTIAL_CHARS_MAX } from '../../protocol/limits.ts'

export const AGENT_FIELDS = {
  agentA: ['agentAApiKey', 'agentAOauthToken'],
  agentB: ['agentBApiKey', 'agentBLogin'],
  agentC: ['agentCApiKey', 'agentCLogin'],
} as const satisfies Readonly<
  Record<AgentProvider, readonly (keyof NonNullable<CredentialChange['agent']>)[]>
>

/** The prefix of a token that `claude setup-token` prints. The vendor refuses such a token as an API key. */
const AGENT_A_OAUTH_TOKEN = /^sk-ant-oat/

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

/** Maps each request field to its configuration change. An empty value disconnects the provider. */
export const changeForField: Readonly<Record<keyof CredentialsRequest, (value: string) => CredentialChange>> =
  {
    trackerApiKey: (value) => ({
      tracker: { apiKey: value || null, refreshToken: null, tokenExpiresAt: null },
    }),
    codehostToken: (value) => ({ codehost: { token: value || null } }),
    agentAApiKey: (value) =>
      changeForAgent('agentA', {
        [AGENT_A_OAUTH_TOKEN.test(value) ? 'agentAOauthToken' : 'agentAApiKey']: value || null,
      }),
    agentCApiKey: (value) => changeForAgent('agentC', { agentCApiKey: value || null }),
  }

/** Sets the given fields of this agent, removes its other fields, and ignores fields of other agents. */
export function changeForAgent(
  provider: AgentProvider,
  given: NonNullable<CredentialChange['agent']>,
): CredentialChange {
  const fields = AGENT_FIELDS[provider].map((key) => [key, given[key] ?? null] as const)
  return { agent: Object.fromEntries(fields) }
}
