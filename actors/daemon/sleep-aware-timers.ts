/**
 * Times that must not jump: silence, pauses, the ends of leases as their worker counts them.
 *
 * On the monotonic clock, in memory only. Time that the machine slept counts (its clock says so), but timers do not
 * run meanwhile; so nobody sleeps for longer than it may take to notice a lease that ran out. Unlike the host's
 * alarms these give nobody more time after a sleep: a worker that slept has to stop, not to be patient.
 */
import type { Clock } from '../../core/ports.ts'
import { Deadlines } from '../runtime/deadlines.ts'

/** How late a timer can be because the machine slept. */
const SLEEP_MS_MAX = 5_000

export class SleepAwareTimers {
  readonly #clock: Clock
  readonly #deadlines: Deadlines<string>

  constructor(clock: Clock, ring: (key: string, name: string) => void) {
    this.#clock = clock
    const monotonic: Clock = {
      now: () => clock.monotonic(),
      monotonic: () => clock.monotonic(),
      after: (ms, run) => clock.after(Math.min(ms, SLEEP_MS_MAX), run),
      endOfTick: (run) => clock.endOfTick(run),
    }
    this.#deadlines = new Deadlines(monotonic, ring)
  }

  now(): number {
    return this.#clock.monotonic()
  }

  /** At an instant of the monotonic clock. Setting it again moves it. */
  at(key: string, name: string, instant: number): void {
    this.#deadlines.set(key, name, instant)
  }

  in(key: string, name: string, ms: number): void {
    this.#deadlines.set(key, name, this.now() + ms)
  }

  cancel(key: string, name: string): void {
    this.#deadlines.cancel(key, name)
  }

  cancelAll(key: string): void {
    this.#deadlines.cancelAll(key)
  }

  get pending(): number {
    return this.#deadlines.size
  }

  stop(): void {
    this.#deadlines.stop()
  }
}
