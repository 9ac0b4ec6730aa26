/** Texts and replies that people see while they connect an account. */
import { redactSecrets } from '../../core/redact-secrets.ts'
import { no, type Refusal, type Result, yes } from '../../core/result.ts'
import { AGENTS, type AgentProvider } from '../../protocol/agents/registry.ts'
import type { ConnectProvider, ConnectResponse, CredentialProvider } from '../../protocol/connect.ts'
import { URL_CHARS_MAX } from '../../protocol/limits.ts'
import { printable } from '../../protocol/schema-errors.ts'
import { shortenEnd } from '../../protocol/shorten.ts'

export const PROVIDER_NAMES: Readonly<Record<CredentialProvider, string>> = {
  tracker: 'the tracker',
  codehost: 'the code host',
  storage: 'the bucket',
  ...agentNames(),
}

function agentNames(): Readonly<Record<AgentProvider, string>> {
  const names = Object.values(AGENTS).map(({ provider, displayName }) => [provider, displayName])
  return Object.fromEntries(names)
}

/** Makes the dashboard show a form in which the person gives a key. */
export function manualConnect(provider: ConnectProvider, reason: string): Result<ConnectResponse> {
  return yes({ status: 'manual', provider, reason })
}

/**
 * Translates a provider's refusal to start a flow. `invalid` means that only a credential given by hand is possible.
 * Kinds such as `failed` and `unauthorized` become `invalid`: the service did not fail, and its caller is authorized.
 */
export function startRefusal(provider: ConnectProvider, { kind, message }: Refusal): Result<ConnectResponse> {
  if (kind === 'invalid') return manualConnect(provider, safeText(message))
  return no(kind === 'unavailable' || kind === 'conflict' ? kind : 'invalid', safeText(message))
}

/** A browser will open the address, so only http and https are allowed, never a script. */
export function isWebPage(address: string): boolean {
  return address.length <= URL_CHARS_MAX && /^https?:\/\//i.test(address) && URL.canParse(address)
}

const SAFE_TEXT_CHARS_MAX = 2_000

/**
 * Makes a provider's text safe to display and to log: one line, of limited length, without the given secrets.
 *
 * Providers redact secrets themselves; this is the second barrier.
 */
export function safeText(text: string, secrets: readonly (string | null | undefined)[] = []): string {
  return printable(shortenEnd(redactSecrets(text, secrets), SAFE_TEXT_CHARS_MAX))
}
