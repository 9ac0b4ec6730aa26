/**
 * Decides whether a pairing token admits a worker.
 */
import type { RejectionCode } from '../../protocol/frames.ts'

export type PairingTokenLookup =
  | { readonly is: 'valid'; readonly local: boolean }
  | { readonly is: 'expired' | 'unknown' }

export type RegistrationAdmission =
  | { readonly ok: true; readonly local: boolean }
  | { readonly ok: false; readonly code: RejectionCode; readonly reason: string }

/** A used token and an unknown token get the same answer: only the holder of a valid token knows which it was. */
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
