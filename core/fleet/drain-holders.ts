/**
 * Keeps apart who drains a worker: the worker drains until its last holder releases it.
 *
 * An operator's order to enable a worker ends all holds at once; a supervisor releases only its own.
 */
import type { DrainHolder } from '../../protocol/worker.ts'

/** A drain that was stored by an earlier version names no holder. It counts as an operator's, which nobody else lifts. */
const UNNAMED: readonly DrainHolder[] = ['operator']

export const drainHolders = (stored: readonly DrainHolder[] | undefined): readonly DrainHolder[] =>
  stored === undefined || stored.length === 0 ? UNNAMED : stored

export function addDrainHolder(holders: readonly DrainHolder[], added: DrainHolder): readonly DrainHolder[] {
  return holders.includes(added) ? holders : [...holders, added]
}

export function releaseDrainHolder(
  stored: readonly DrainHolder[] | undefined,
  released: DrainHolder,
): readonly DrainHolder[] {
  return drainHolders(stored).filter((holder) => holder !== released)
}
