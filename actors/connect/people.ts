/** What people are told and shown while they connect. */
import { type Answer, yes } from '../../core/refusal.ts'
import type { ConnectProvider, ConnectResponse } from '../../protocol/connect.ts'
import { URL_CHARS_MAX } from '../../protocol/limits.ts'

export const NAMES: Readonly<Record<ConnectProvider, string>> = {
  tracker: 'the tracker',
  codehost: 'the code host',
  agentA: 'agentA',
  agentB: 'agentB',
  agentC: 'agentC',
}

/** The dashboard shows a form for a key. */
export function manual(provider: ConnectProvider, reason: string): Answer<ConnectResponse> {
  return yes({ status: 'manual', provider, reason })
}

/** Somebody's browser will open it, so it is a page and never a script. */
export function isPage(address: string): boolean {
  return address.length <= URL_CHARS_MAX && /^https?:\/\//i.test(address) && URL.canParse(address)
}
