/**
 * Timers on the monotonic clock, in memory only: silence, pauses, and the worker's own view of when leases expire.
 *
 * The time that the machine slept counts, because the clock includes it. Real timers do not run during a sleep, so each
 * is set for at most `SLEEP_MS_MAX`, and an expired lease is noticed soon after. Unlike the host's `MonotonicTimers`
 * these timers grant no extra time after a sleep: a worker that slept has to stop its expired executions.
 */
import type { Clock } from '../../core/ports/clock.ts'
import { Deadlines } from '../runtime/deadlines.ts'
import type { TimerKey } from '../runtime/timer-kind.ts'

/** How late a timer can fire because the machine slept. */
const SLEEP_MS_MAX = 5_000

export class SleepAwareTimers {
  readonly #clock: Clock
  readonly #deadlines: Deadlines<string>

  constructor(clock: Clock, onTimer: (key: string, name: string) => void) {
    this.#clock = clock
    const monotonic: Clock = {
      now: () => clock.monotonic(),
      monotonic: () => clock.monotonic(),
      after: (ms, run) => clock.after(Math.min(ms, SLEEP_MS_MAX), run),
      endOfTick: (run) => clock.endOfTick(run),
    }
    this.#deadlines = new Deadlines(monotonic, onTimer)
  }

  now(): number {
    return this.#clock.monotonic()
  }

  /** Sets a timer for an instant of the monotonic clock. Setting the same timer again moves it. */
  at<N extends string>(key: TimerKey<N>, name: NoInfer<N>, instant: number): void {
    this.#deadlines.set(key, name, instant)
  }

  in<N extends string>(key: TimerKey<N>, name: NoInfer<N>, ms: number): void {
    this.#deadlines.set(key, name, this.now() + ms)
  }

  cancel<N extends string>(key: TimerKey<N>, name: NoInfer<N>): void {
    this.#deadlines.cancel(key, name)
  }

  cancelAll(key: TimerKey): void {
    this.#deadlines.cancelAll(key)
  }

  get pending(): number {
    return this.#deadlines.size
  }

  stop(): void {
    this.#deadlines.stop()
  }
}
