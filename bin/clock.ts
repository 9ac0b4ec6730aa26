/** The real clock and the real dice: the only ones in the house. */
import { randomBytes } from 'node:crypto'
import type { Chance, Clock } from '../core/ports.ts'

export const realClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  after(ms, run) {
    const timer = setTimeout(run, ms)
    return () => clearTimeout(timer)
  },
  // The check phase: once everything this turn of the loop brought in has been handled.
  endOfTick: (run) => void setImmediate(run),
}

export const realChance: Chance = {
  bytes: (count) => randomBytes(count),
  fraction: () => Math.random(),
}
