/**
 * Draws when machines sleep: their processes stand still, and so do their monotonic clocks and timers, while the leases
 * of their runs go on.
 */
import type { Random } from '../support/random.ts'

export interface Sleep {
  /** `z1`, `z2`, … */
  readonly id: string
  readonly at: number
  readonly ms: number
  /** `both`: the worker is on the machine of the host. */
  readonly who: 'host' | 'worker' | 'both'
  /** The sleep begins when a lease is next held. */
  readonly isDuringLease: boolean
  /** Chooses the worker. */
  readonly target: number
}

/** In one of so many seeds machines sleep. */
const SLEEPING_OF = 8
const SLEEPS_MAX = 4
const SLEEP_MS = [2_000, 40 * 60_000] as const

export function drawSleeps(random: Random, seed: number, faultsEndMs: number): Sleep[] {
  if (seed % SLEEPING_OF !== 4) return []
  return Array.from({ length: 1 + random.below(SLEEPS_MAX) }, (_, at) => ({
    id: `z${at + 1}`,
    at: 5_000 + random.fraction() * (faultsEndMs - 10_000),
    ms: SLEEP_MS[0] * (SLEEP_MS[1] / SLEEP_MS[0]) ** random.fraction(),
    who: random.pick(['host', 'worker', 'worker', 'both'] as const),
    isDuringLease: random.chance(0.7),
    target: random.fraction(),
  }))
}
