/**
 * A clock on which pauses are over at once, and count in full: for those who try again for minutes. Whatever else
 * takes time takes as much as it does, so that a slow machine gets as many tries as a fast one.
 */
import { realClock } from '../../bin/clock.ts'
import type { Clock } from '../../core/ports.ts'

/** What is longer is no pause, but how long something that is under way may take. */
const PAUSE_MS_MAX = 30_000

export function createSkippingClock(): Clock {
  let skippedMs = 0
  return {
    ...realClock,
    monotonic: () => realClock.monotonic() + skippedMs,
    after: (ms, over) => {
      if (ms > PAUSE_MS_MAX) return realClock.after(ms, over)
      return realClock.after(0, () => {
        skippedMs += ms
        over()
      })
    },
  }
}
