/**
 * A clock that a test advances. Timers fire in the order of their instants; the test decides when a tick ends.
 */
import type { Cancel, Clock } from '../../core/ports/clock.ts'

interface ManualTimer {
  readonly at: number
  readonly order: number
  readonly run: () => void
}

export class ManualClock implements Clock {
  #wall: number
  #elapsed = 0
  #order = 0
  #timers: ManualTimer[] = []
  #ends: (() => void)[] = []

  constructor(wall = Date.UTC(2026, 0, 1)) {
    this.#wall = wall
  }

  now = (): number => this.#wall
  monotonic = (): number => this.#elapsed

  after = (ms: number, run: () => void): Cancel => {
    const timer = { at: this.#elapsed + Math.max(0, ms), order: this.#order++, run }
    this.#timers.push(timer)
    return () => {
      this.#timers = this.#timers.filter((candidate) => candidate !== timer)
    }
  }

  endOfTick = (run: () => void): void => void this.#ends.push(run)

  get timers(): number {
    return this.#timers.length
  }

  /** Ends ticks until no callback for the end of a tick is left, and lets promises settle in between. */
  async settle(): Promise<void> {
    do {
      const ends = this.#ends
      this.#ends = []
      for (const end of ends) end()
      await settlePromises()
    } while (this.#ends.length > 0)
  }

  async advance(ms: number): Promise<void> {
    const until = this.#elapsed + ms
    await this.settle()
    for (;;) {
      const next = this.#timers
        .filter((timer) => timer.at <= until)
        .sort((a, b) => a.at - b.at || a.order - b.order)[0]
      if (next === undefined) break
      this.#timers = this.#timers.filter((timer) => timer !== next)
      this.#elapse(Math.max(0, next.at - this.#elapsed))
      next.run()
      await this.settle()
    }
    // Work of the timers may have taken longer.
    this.#elapse(Math.max(0, until - this.#elapsed))
  }

  /** Lets time pass within a turn, so that no timer fires. */
  work(ms: number): void {
    this.#elapse(ms)
  }

  /** Changes the wall clock only; monotonic time and timers stay. */
  jumpWallClock(ms: number): void {
    this.#wall += ms
  }

  #elapse(ms: number): void {
    this.#elapsed += ms
    this.#wall += ms
  }
}

export async function settlePromises(): Promise<void> {
  await new Promise<void>((resolve) => setImmediate(resolve))
}
