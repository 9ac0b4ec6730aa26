/**
 * Discards rounds until the contestants are steady: code is compiled, caches are full, files are in memory.
 *
 * Two rounds in a row must differ by less than a share. Processor time decides where it is known, because the wall
 * time of a busy machine is never steady.
 */
import type { Measurement } from './figures.ts'

/** Two rounds that differ by less are steady. */
export const STEADY_SHARE = 0.1
export const WARM_UP_ROUNDS_MAX = 5

/** Returns how many rounds were discarded. */
export async function warmUpUntilSteady(
  measureRound: () => Promise<readonly Measurement[]>,
): Promise<number> {
  let before = await measureRound()
  for (let discarded = 2; discarded <= WARM_UP_ROUNDS_MAX; discarded++) {
    const after = await measureRound()
    if (areSteady(before, after)) return discarded
    before = after
  }
  console.error(`not steady after ${WARM_UP_ROUNDS_MAX} rounds of warm-up: the machine is busy`)
  return WARM_UP_ROUNDS_MAX
}

export function areSteady(before: readonly Measurement[], after: readonly Measurement[]): boolean {
  return before.every((each, at) => isSteady(each, after[at]))
}

function isSteady(before: Measurement, after: Measurement | undefined): boolean {
  if (after === undefined) return false
  const part = Number.isFinite(before.cpuMicros) ? 'cpuMicros' : 'value'
  const [from, to] = [before[part], after[part]]
  return Math.abs(to - from) < STEADY_SHARE * Math.max(from, to)
}
