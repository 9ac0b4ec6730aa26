/**
 * Times that must not jump: silence, answers, the ends of leases.
 *
 * Counted on the monotonic clock and kept in memory only; a restart counts anew, which makes everybody more patient,
 * never less. When the machine slept, or the process was stopped, nobody could be heard meanwhile: whatever would end
 * in the moment of waking gets one more chance.
 */
import type { Cancel, Clock } from '../../core/ports.ts'
import { Deadlines } from './deadlines.ts'

/** How often we look whether time has passed without us. */
const CLOCK_CHECK_MS = 5_000
/** More than this later than planned, and we were asleep. */
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

  /** @param graceMs how long everybody may take to be heard of again after a sleep */
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

  /** At an instant of the monotonic clock. Setting it again moves it. */
  set(key: string, name: string, at: number): void {
    this.#deadlines.set(key, name, at)
  }

  cancelAll(key: string): void {
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
   * A laptop that slept has a wall clock far ahead of the other; a process that was stopped finds both ahead of the
   * look it had planned. Neither heard anybody meanwhile.
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
