/**
 * What may be a credential at all, and which fields of the configuration it goes to.
 *
 * One given by hand takes the place of all that its provider had: a key beside a login that nobody uses would be taken
 * up by surprise when the key is removed.
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

/** What `claude setup-token` prints. Sent as an API key it would be refused. */
const AGENT_A_OAUTH_TOKEN = /^sk-ant-oat/

/** Completes the sentence "it …"; undefined when it may be one. */
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

/** The change that each field of the request stands for; an empty text disconnects. */
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

/** Only fields of that provider come in; those that are not named are removed. */
export function changeForAgent(
  provider: AgentProvider,
  given: NonNullable<CredentialChange['agent']>,
): CredentialChange {
  const fields = AGENT_FIELDS[provider].map((key) => [key, given[key] ?? null] as const)
  return { agent: Object.fromEntries(fields) }
}
