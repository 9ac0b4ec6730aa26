/** A token bucket: a burst of at most `burstMax` at once, then `perSecond`. */
export class TokenBucket {
  readonly #now: () => number
  readonly #burstMax: number
  readonly #perSecond: number
  #tokens: number
  #refilledAt: number

  /** @param now monotonic milliseconds */
  constructor(now: () => number, burstMax: number, perSecond: number) {
    this.#now = now
    this.#burstMax = burstMax
    this.#perSecond = perSecond
    this.#tokens = burstMax
    this.#refilledAt = now()
  }

  /** Takes the whole amount or nothing. Returns whether it was granted. */
  take(amount: number): boolean {
    const now = this.#now()
    this.#tokens = Math.min(
      this.#burstMax,
      this.#tokens + ((now - this.#refilledAt) / 1_000) * this.#perSecond,
    )
    this.#refilledAt = now
    if (amount > this.#tokens) return false
    this.#tokens -= amount
    return true
  }
}
