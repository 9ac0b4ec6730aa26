/**
 * The ports of time and randomness.
 *
 * No code below `bin/` reads a clock or draws random numbers by itself, so a whole host can run inside one test.
 */

export type Cancel = () => void

export interface Clock {
  /**
   * Wall time in milliseconds since 1970. The value may jump, so use it only for instants that people or records see.
   */
  now(): number
  /** Milliseconds that never go back, for measuring silence and durations. */
  monotonic(): number
  /** Calls `run` once after `ms` milliseconds, unless the returned function is called first. */
  after(ms: number, run: () => void): Cancel
  /** Calls `run` after all other work of the current turn of the event loop. */
  endOfTick(run: () => void): void
}

export interface RandomSource {
  bytes(count: number): Uint8Array
  /** A random number x with 0 ≤ x < 1. */
  fraction(): number
}
