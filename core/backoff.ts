/**
 * Computes how long to wait before a retry.
 *
 * The wait doubles with every failure up to a cap, and its upper half is random, so that many clients that failed
 * together do not retry together. At least half of the wait always passes, so that an unlucky draw does not overload
 * a failing peer.
 */

/**
 * @param attempt number of consecutive failures, from 1
 * @param fraction a random number, 0 ≤ fraction < 1
 * @returns whole milliseconds between half of the doubled base and all of it, never above the cap
 */
export function backoffMs(attempt: number, baseMs: number, capMs: number, fraction: number): number {
  if (!(attempt >= 1)) throw new RangeError(`attempt counts from 1, got ${attempt}`)
  if (!(fraction >= 0 && fraction < 1)) throw new RangeError(`fraction is from 0 to below 1, got ${fraction}`)
  const ceilingMs = Math.min(capMs, baseMs * 2 ** (attempt - 1))
  return Math.round(ceilingMs * (0.5 + fraction / 2))
}
