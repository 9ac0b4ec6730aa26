/**
 * How long to wait before trying again.
 *
 * The wait doubles with every failure up to a cap, and the upper half of it is chance, so that many who failed in the
 * same moment don't come back in the same moment. At least half the wait always passes: a peer that is down is not
 * hammered by an unlucky roll.
 */

/**
 * @param attempt how many tries have failed in a row, from 1
 * @param fraction a roll of the dice, 0 ≤ fraction < 1
 * @returns whole milliseconds, from half of the doubled base up to all of it, never above the cap
 */
export function backoffMs(attempt: number, baseMs: number, capMs: number, fraction: number): number {
  if (!(attempt >= 1)) throw new RangeError(`attempt counts from 1, got ${attempt}`)
  if (!(fraction >= 0 && fraction < 1)) throw new RangeError(`fraction is from 0 to below 1, got ${fraction}`)
  const ceilingMs = Math.min(capMs, baseMs * 2 ** (attempt - 1))
  return Math.round(ceilingMs * (0.5 + fraction / 2))
}
