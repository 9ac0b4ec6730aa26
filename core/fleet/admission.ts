/**
 * What becomes of a pairing token that somebody presents.
 */
import type { RejectionCode } from '../../protocol/frames.ts'

export type PairingTokenLookup =
  | { readonly is: 'valid'; readonly local: boolean }
  | { readonly is: 'expired' | 'unknown' }

export type RegistrationAdmission =
  | { readonly ok: true; readonly local: boolean }
  | { readonly ok: false; readonly code: RejectionCode; readonly reason: string }

/** Used up and never known look the same: who holds a token that works once knows which it was. */
export function admitRegistration(token: PairingTokenLookup): RegistrationAdmission {
  if (token.is === 'valid') return { ok: true, local: token.local }
  if (token.is === 'expired')
    return { ok: false, code: 'expired-token', reason: 'this pairing token is too old; make a new one' }
  return {
    ok: false,
    code: 'invalid-token',
    reason: 'no such pairing token: it was used already, or is from before a restart; make a new one',
  }
}
