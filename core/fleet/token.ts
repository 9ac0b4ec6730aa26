/**
 * The secrets between host and worker, made of bytes that somebody else rolled.
 *
 * The host keeps hashes only. Hashes are compared in constant time, and after one more hashing, so that neither
 * length nor beginning of what is stored can be told from how long the answer takes.
 */
import { createHash, timingSafeEqual } from 'node:crypto'

const SECRET_BYTES = 32
const WORKER_ID_BYTES = 8

export function newPairingToken(bytes: Uint8Array): string {
  return `wp-${takeBytes(bytes, SECRET_BYTES).toString('base64url')}`
}

export function newCredential(bytes: Uint8Array): string {
  return `wc-${takeBytes(bytes, SECRET_BYTES).toString('base64url')}`
}

export function newWorkerId(bytes: Uint8Array): string {
  return `wk-${takeBytes(bytes, WORKER_ID_BYTES).toString('hex')}`
}

/** SHA-256, as hex. Enough for secrets of 256 random bits; it would not be for a password. */
export function hashSecret(secret: string): string {
  return createHash('sha256').update(secret).digest('hex')
}

export function isSameHash(a: string, b: string): boolean {
  return timingSafeEqual(digest(a), digest(b))
}

const digest = (text: string): Buffer => createHash('sha256').update(text).digest()

/** Fewer bytes than asked for would be a secret that can be guessed: a bug, and never handed out. */
function takeBytes(bytes: Uint8Array, count: number): Buffer {
  if (bytes.length < count) throw new RangeError(`needs ${count} random bytes, got ${bytes.length}`)
  return Buffer.from(bytes.subarray(0, count))
}
