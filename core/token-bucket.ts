/** Sums of fractions are off by less. */
const ROUNDING_MS = 1e-6

/** A token bucket: a burst of at most `burstMax` at once, then `perSecond`. */
export class TokenBucket {
  readonly #now: () => number
  readonly #fullMs: number
  readonly #msEach: number
  /** How long the bucket takes to be full again: whole milliseconds add up exactly. */
  #missingMs = 0
  #refilledAt: number

  /** @param now monotonic milliseconds */
  constructor(now: () => number, burstMax: number, perSecond: number) {
    this.#now = now
    this.#msEach = 1_000 / perSecond
    this.#fullMs = burstMax * this.#msEach
    this.#refilledAt = now()
  }

  /** Takes the whole amount or nothing. Returns whether it was granted. */
  take(amount: number): boolean {
    if (this.waitMs(amount) > 0) return false
    this.#missingMs += amount * this.#msEach
    return true
  }

  /** Returns in how many milliseconds the amount is there; 0 when it is now. */
  waitMs(amount: number): number {
    const now = this.#now()
    this.#missingMs = Math.max(0, this.#missingMs - (now - this.#refilledAt))
    this.#refilledAt = now
    const waitMs = this.#missingMs + amount * this.#msEach - this.#fullMs
    return waitMs < ROUNDING_MS ? 0 : waitMs
  }
}
