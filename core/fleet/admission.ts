/** Decides whether a pairing token or a join key admits a worker, and makes the names that people give readable. */
import type { RejectionCode } from '../../protocol/frames.ts'
import { WORKER_NAME_CHARS_MAX } from '../../protocol/limits.ts'
import { collapseSpaces, stripInvisible } from '../safe-text.ts'

export type PairingTokenLookup =
  | { readonly is: 'valid'; readonly local: boolean }
  | { readonly is: 'expired' | 'unknown' }

/** The conditions under which a join key admits a machine. */
export interface JoinKeyTerms {
  readonly id: string
  readonly expiresAt?: string
  readonly maxWorkers?: number
  readonly ephemeral: boolean
}

export type RegistrationAdmission =
  | { readonly ok: true; readonly local: boolean; readonly joinKey?: JoinKeyTerms }
  | { readonly ok: false; readonly code: RejectionCode; readonly reason: string }

/** A used token and an unknown token get the same answer: only the holder of a valid token knows which it was. */
export function admitRegistration(token: PairingTokenLookup): RegistrationAdmission {
  if (token.is === 'valid') return { ok: true, local: token.local }
  if (token.is === 'expired')
    return { ok: false, code: 'expired-token', reason: 'this pairing token is too old; make a new one' }
  return NOT_ADMITTED
}

/**
 * A bad, an expired, a deleted and a used-up key get the answer of a bad pairing token.
 *
 * @param workers how many workers are enrolled with the key
 * @param now wall milliseconds
 */
export function admitJoin(
  joinKey: JoinKeyTerms | undefined,
  workers: number,
  now: number,
): RegistrationAdmission {
  if (joinKey === undefined || hasExpired(joinKey, now)) return NOT_ADMITTED
  const { maxWorkers } = joinKey
  if (maxWorkers !== undefined && workers >= maxWorkers) return NOT_ADMITTED
  return { ok: true, local: false, joinKey }
}

export const hasExpired = ({ expiresAt }: JoinKeyTerms, now: number): boolean =>
  expiresAt !== undefined && Date.parse(expiresAt) <= now

const NOT_ADMITTED: RegistrationAdmission = {
  ok: false,
  code: 'invalid-token',
  reason:
    'no such pairing token or join key: a token was used already, or is from before a restart; a join key was ' +
    'deleted, has expired, or has no room for another worker; make a new one',
}

// ---- names -------------------------------------------------------------------------------------------------------

/**
 * The result may be empty. Control characters, line ends and tabs included, are removed without a space in their
 * place.
 */
export const normalizeWorkerName = (text: string): string => normalizeName(text, WORKER_NAME_CHARS_MAX)

/** Normalizes the name of a worker or a join key to one short line of visible characters. */
export function normalizeName(text: string, charsMax: number): string {
  const visible = collapseSpaces(stripInvisible(text))
  return Array.from(visible).slice(0, charsMax).join('').trimEnd()
}

export function workerNameOrDefault(text: string, fallback: string): string {
  return normalizeWorkerName(text) || fallback
}
