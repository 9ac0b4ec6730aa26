/**
 * A clock that skips pauses and counts them as elapsed, for code that retries for minutes.
 *
 * All other work takes its real time, so a slow machine has as many attempts as a fast one.
 */
import { realClock } from '../../bin/process/clock.ts'
import type { Clock } from '../../core/ports/clock.ts'

/** A longer timer is a timeout and no pause, so it is not skipped. */
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
