/**
 * A real clock that runs `times` faster, so every pause is shorter by that factor.
 *
 * Use it for components that pause for seconds between rounds, when a test awaits an outcome. To show that something
 * has not happened yet, use the real clock, because it leaves more time.
 */
import { realClock } from '../../bin/process/clock.ts'
import type { Clock } from '../../core/ports/clock.ts'

export const createFastClock = (times: number): Clock => ({
  ...realClock,
  monotonic: () => realClock.monotonic() * times,
  after: (ms, run) => realClock.after(ms / times, run),
})
