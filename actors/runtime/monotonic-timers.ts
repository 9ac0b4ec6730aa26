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
const LOOK_MS = 5_000
/** More than this later than planned, and we were asleep. */
const NAP_MS = 5_000

export class Alarms {
  readonly #clock: Clock
  readonly #deadlines: Deadlines<string>
  readonly #ring: (key: string, name: string) => void
  readonly #graceMs: () => number
  #wall: number
  #looked: number
  #look: Cancel = () => {}
  #patientUntil = 0

  /** @param graceMs how long everybody may take to be heard of again after a sleep */
  constructor(clock: Clock, graceMs: () => number, ring: (key: string, name: string) => void) {
    this.#clock = clock
    this.#ring = ring
    this.#graceMs = graceMs
    this.#wall = clock.now()
    this.#looked = clock.monotonic()
    const monotonic: Clock = {
      ...clock,
      now: () => clock.monotonic(),
      after: (ms, run) => clock.after(ms, run),
    }
    this.#deadlines = new Deadlines(monotonic, (key, name) => this.#due(key, name))
  }

  start(): void {
    this.#looked = this.#clock.monotonic()
    this.#wall = this.#clock.now()
    this.#look = this.#clock.after(LOOK_MS, () => this.#lookAtClocks())
  }

  stop(): void {
    this.#look()
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

  #due(key: string, name: string): void {
    this.#notice()
    if (this.now() < this.#patientUntil) this.#deadlines.set(key, name, this.#patientUntil)
    else this.#ring(key, name)
  }

  #lookAtClocks(): void {
    this.#notice()
    this.#look = this.#clock.after(LOOK_MS, () => this.#lookAtClocks())
  }

  /**
   * A laptop that slept has a wall clock far ahead of the other; a process that was stopped finds both ahead of the
   * look it had planned. Neither heard anybody meanwhile.
   */
  #notice(): void {
    const now = this.now()
    const wall = this.#clock.now()
    const passed = now - this.#looked
    const slept = wall - this.#wall - passed > NAP_MS
    if (slept || passed > LOOK_MS + NAP_MS) this.#patientUntil = now + this.#graceMs()
    this.#looked = now
    this.#wall = wall
  }
}
