/** What people are told and shown while they connect. */
import { no, type Refusal, type Result, yes } from '../../core/result.ts'
import type { ConnectProvider, ConnectResponse } from '../../protocol/connect.ts'
import { URL_CHARS_MAX } from '../../protocol/limits.ts'
import { safeText } from './safe-text.ts'

export const PROVIDER_NAMES: Readonly<Record<ConnectProvider, string>> = {
  tracker: 'the tracker',
  codehost: 'the code host',
  agentA: 'agentA',
  agentB: 'agentB',
  agentC: 'agentC',
}

/** The dashboard shows a form for a key. */
export function manualConnect(provider: ConnectProvider, reason: string): Result<ConnectResponse> {
  return yes({ status: 'manual', provider, reason })
}

/**
 * Where no flow is possible, a credential given by hand is. Any other reason is the provider's: it is nothing of ours
 * that failed, and nobody has to say anew who he is.
 */
export function startRefusal(provider: ConnectProvider, { kind, message }: Refusal): Result<ConnectResponse> {
  if (kind === 'invalid') return manualConnect(provider, safeText(message))
  return no(kind === 'unavailable' || kind === 'conflict' ? kind : 'invalid', safeText(message))
}

/** Somebody's browser will open it, so it is a page and never a script. */
export function isWebPage(address: string): boolean {
  return address.length <= URL_CHARS_MAX && /^https?:\/\//i.test(address) && URL.canParse(address)
}
