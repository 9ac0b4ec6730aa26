/** Texts and replies that people see while they connect an account. */
import { no, type Refusal, type Result, yes } from '../../core/result.ts'
import { AGENTS, type AgentProvider } from '../../protocol/agents/registry.ts'
import type { ConnectProvider, ConnectResponse } from '../../protocol/connect.ts'
import { URL_CHARS_MAX } from '../../protocol/limits.ts'
import { safeText } from './safe-text.ts'

export const PROVIDER_NAMES: Readonly<Record<ConnectProvider, string>> = {
  tracker: 'the tracker',
  codehost: 'the code host',
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
