/**
 * MonotonicTimers holds timers that must not follow jumps of the wall clock: heartbeat timeouts, answer timeouts, ends
 * of leases.
 *
 * Timers count on the monotonic clock and live in memory only. A restart starts them again, which only lengthens them.
 * After the machine slept or the process was suspended no peer could have been heard, so timers that come due then are
 * put off by a grace period.
 */
import type { Cancel, Clock } from '../../core/ports/clock.ts'
import { Deadlines } from './deadlines.ts'
import type { TimerKey } from './timer-kind.ts'

/** How often the clocks are compared to detect a suspend. */
const CLOCK_CHECK_MS = 5_000
/** A check that comes later than planned by more than this means that the process was suspended. */
const SUSPEND_MS_MIN = 5_000

export class MonotonicTimers {
  readonly #clock: Clock
  readonly #deadlines: Deadlines<string>
  readonly #onTimer: (key: string, name: string) => void
  readonly #graceMs: () => number
  #wallAtCheck: number
  #checkedAt: number
  #cancelCheck: Cancel = () => {}
  #graceUntil = 0

  /** @param graceMs how long peers may take to be heard again after a suspend */
  constructor(clock: Clock, graceMs: () => number, onTimer: (key: string, name: string) => void) {
    this.#clock = clock
    this.#onTimer = onTimer
    this.#graceMs = graceMs
    this.#wallAtCheck = clock.now()
    this.#checkedAt = clock.monotonic()
    const monotonic: Clock = {
      ...clock,
      now: () => clock.monotonic(),
      after: (ms, run) => clock.after(ms, run),
    }
    this.#deadlines = new Deadlines(monotonic, (key, name) => this.#onDue(key, name))
  }

  start(): void {
    this.#checkedAt = this.#clock.monotonic()
    this.#wallAtCheck = this.#clock.now()
    this.#cancelCheck = this.#clock.after(CLOCK_CHECK_MS, () => this.#checkClocks())
  }

  stop(): void {
    this.#cancelCheck()
    this.#deadlines.stop()
  }

  now(): number {
    return this.#clock.monotonic()
  }

  /** Sets a timer to an instant of the monotonic clock. Setting it again moves it. */
  set<N extends string>(key: TimerKey<N>, name: NoInfer<N>, at: number): void {
    this.#deadlines.set(key, name, at)
  }

  cancelAll(key: TimerKey): void {
    this.#deadlines.cancelAll(key)
  }

  get pending(): number {
    return this.#deadlines.size
  }

  #onDue(key: string, name: string): void {
    this.#detectSuspend()
    if (this.now() < this.#graceUntil) this.#deadlines.set(key, name, this.#graceUntil)
    else this.#onTimer(key, name)
  }

  #checkClocks(): void {
    this.#detectSuspend()
    this.#cancelCheck = this.#clock.after(CLOCK_CHECK_MS, () => this.#checkClocks())
  }

  /**
   * Starts a grace period after a suspend. When a laptop slept, its wall clock is far ahead of the monotonic clock.
   * When the process was stopped, both clocks are ahead of the planned check.
   */
  #detectSuspend(): void {
    const now = this.now()
    const wall = this.#clock.now()
    const elapsedMs = now - this.#checkedAt
    const wasSuspended = wall - this.#wallAtCheck - elapsedMs > SUSPEND_MS_MIN
    if (wasSuspended || elapsedMs > CLOCK_CHECK_MS + SUSPEND_MS_MIN) this.#graceUntil = now + this.#graceMs()
    this.#checkedAt = now
    this.#wallAtCheck = wall
  }
}
