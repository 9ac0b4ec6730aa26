/** The real clock and random source; all other code receives them as arguments. */
import { randomBytes } from 'node:crypto'
import { uptime } from 'node:os'
import type { Cancel, Clock, RandomSource } from '../../core/ports/clock.ts'
import type { Meters } from '../../core/ports/log.ts'

export const realClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  after(ms, run) {
    const timer = setTimeout(run, ms)
    return () => clearTimeout(timer)
  },
  // The check phase, after all input of this event loop iteration has been processed.
  endOfTick: (run) => void setImmediate(run),
}

/** How late a timer can fire after the machine slept. */
const CHECK_EVERY_MS = 1_000
/** Smaller differences between the system's uptime and the monotonic clock are rounding errors. */
const SLEPT_MS_MIN = 500

/**
 * Creates a clock whose monotonic time also passes while the machine sleeps, as leases expire meanwhile. Node's own
 * monotonic clock and timers stand still during a sleep, so timers are checked again every second. A wall clock that has
 * left the monotonic one is a hint of a sleep, so nothing that a process does first after a sleep counts as in time.
 *
 * @param uptimeMs the time since the machine was started, sleep included
 */
export function createSleepCountingClock(base: Clock, uptimeMs = () => uptime() * 1_000): Clock {
  const began = uptimeMs() - base.monotonic()
  let sleptMs = 0
  let checkedAt = base.monotonic()
  let wallLead = base.now() - checkedAt
  const monotonic = () => {
    const awake = base.monotonic()
    const lead = base.now() - awake
    if (awake - checkedAt >= CHECK_EVERY_MS || Math.abs(lead - wallLead) >= SLEPT_MS_MIN) {
      checkedAt = awake
      wallLead = lead
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

/** For a program without a metrics endpoint. */
export const noMeters: Meters = { count: () => {}, gauge: () => {}, observe: () => {} }
