/** The real clock and the real dice: the only ones in the house. */
import { randomBytes } from 'node:crypto'
import { uptime } from 'node:os'
import type { Cancel, Clock, RandomSource } from '../core/ports.ts'

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

/** The longest time for which an alarm may oversleep, and a clock may not know that the machine slept. */
const CHECK_EVERY_MS = 1_000
/** What the system's uptime and ours may differ by and mean nothing: it is told in hundredths of a second. */
const SLEPT_MS_MIN = 500

/**
 * A clock whose monotonic time also passes while the machine sleeps, as leases do. Node's own stands still then, and
 * so do its timers: alarms are looked at again now and then.
 *
 * @param uptimeMs since the machine was started, sleep included
 */
export function createSleepCountingClock(base: Clock, uptimeMs = () => uptime() * 1_000): Clock {
  const began = uptimeMs() - base.monotonic()
  let sleptMs = 0
  let checkedAt = base.monotonic()
  const monotonic = () => {
    const awake = base.monotonic()
    if (awake - checkedAt >= CHECK_EVERY_MS) {
      checkedAt = awake
      const away = uptimeMs() - awake - began
      if (away - sleptMs >= SLEPT_MS_MIN) sleptMs = away
    }
    return awake + sleptMs
  }
  return {
    now: base.now,
    endOfTick: base.endOfTick,
    monotonic,
    after(ms, run) {
      const due = monotonic() + ms
      const wait = (): Cancel => {
        const left = due - monotonic()
        return left <= 0 ? base.after(0, run) : base.after(Math.min(left, CHECK_EVERY_MS), again)
      }
      let cancel: Cancel = () => {}
      const again = () => {
        if (due - monotonic() <= 0) run()
        else cancel = wait()
      }
      cancel = wait()
      return () => cancel()
    },
  }
}

export const realRandom: RandomSource = {
  bytes: (count) => randomBytes(count),
  fraction: () => Math.random(),
}
