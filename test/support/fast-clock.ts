/**
 * The real clock in a hurry: whatever waits by it waits a part as long.
 *
 * For real parts that rest for seconds between their rounds, where a test awaits what comes of it. Where it shows what
 * has not happened yet, the real clock leaves it more time.
 */
import { realClock } from '../../bin/clock.ts'
import type { Clock } from '../../core/ports.ts'

export const createFastClock = (times: number): Clock => ({
  ...realClock,
  monotonic: () => realClock.monotonic() * times,
  after: (ms, run) => realClock.after(ms / times, run),
})
