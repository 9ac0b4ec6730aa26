/**
 * Creates and compares the secrets between host and worker, and reads and prints fingerprints of certificates. The
 * caller supplies the random bytes.
 *
 * The host stores hashes only. Hashes are hashed once more and compared in constant time, so that response times
 * reveal neither length nor prefix of a stored hash.
 */
import { createHash, timingSafeEqual } from 'node:crypto'
import { no, type Result, yes } from '../result.ts'

const SECRET_BYTES = 32
const WORKER_ID_BYTES = 8
const JOIN_KEY_ID_BYTES = 4

export function newPairingToken(bytes: Uint8Array): string {
  return `wp-${takeBytes(bytes, SECRET_BYTES).toString('base64url')}`
}

export function newJoinKey(bytes: Uint8Array): string {
  return `wj-${takeBytes(bytes, SECRET_BYTES).toString('base64url')}`
}

export function newJoinKeyId(bytes: Uint8Array): string {
  return `jk-${takeBytes(bytes, JOIN_KEY_ID_BYTES).toString('hex')}`
}

export function newCredential(bytes: Uint8Array): string {
  return `wc-${takeBytes(bytes, SECRET_BYTES).toString('base64url')}`
}

export function newWorkerId(bytes: Uint8Array): string {
  return `wk-${takeBytes(bytes, WORKER_ID_BYTES).toString('hex')}`
}

/** SHA-256 as hex. This is safe for secrets of 256 random bits; it would not be for a password. */
export function hashSecret(secret: string): string {
  return createHash('sha256').update(secret).digest('hex')
}

export function isSameHash(a: string, b: string): boolean {
  return timingSafeEqual(digest(a), digest(b))
}

const digest = (text: string): Buffer => createHash('sha256').update(text).digest()

/** Throws when there are too few random bytes, because such a secret could be guessed. */
function takeBytes(bytes: Uint8Array, count: number): Buffer {
  if (bytes.length < count) throw new RangeError(`needs ${count} random bytes, got ${bytes.length}`)
  return Buffer.from(bytes.subarray(0, count))
}

// ---- fingerprints ------------------------------------------------------------------------------------------------

/** Returns 64 hexadecimal digits in lower case. */
export function parseFingerprint(text: string): Result<string> {
  const digits = text.replaceAll(':', '').toLowerCase()
  if (/^[0-9a-f]{64}$/.test(digits)) return yes(digits)
  return no(
    'invalid',
    '--fingerprint: must be a SHA-256 fingerprint, 64 hexadecimal digits with or without colons, as printed by switchyard workers pair on the host',
  )
}

/** The form of openssl: `AB:CD:…`. */
export const formatFingerprint = (digits: string): string => digits.toUpperCase().replace(/..(?!$)/g, '$&:')
