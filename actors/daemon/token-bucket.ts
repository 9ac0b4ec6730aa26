/** So much at once, and so much a second from then on. */
export class Allowance {
  readonly #now: () => number
  readonly #burstMax: number
  readonly #perSecond: number
  #left: number
  #at: number

  /** @param now monotonic milliseconds */
  constructor(now: () => number, burstMax: number, perSecond: number) {
    this.#now = now
    this.#burstMax = burstMax
    this.#perSecond = perSecond
    this.#left = burstMax
    this.#at = now()
  }

  /** Answers whether it was granted: all of it or nothing. */
  take(amount: number): boolean {
    const now = this.#now()
    this.#left = Math.min(this.#burstMax, this.#left + ((now - this.#at) / 1_000) * this.#perSecond)
    this.#at = now
    if (amount > this.#left) return false
    this.#left -= amount
    return true
  }
}
