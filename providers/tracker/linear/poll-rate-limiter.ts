/** Token bucket: allows a short burst, and one action per `refillMs` in the long run. */
export class PollRateLimiter {
  readonly #refillMs: number
  readonly #capacity: number
  #tokens: number
  #refilledAt: number

  constructor(refillMs: number, capacity: number, now: number) {
    this.#refillMs = refillMs
    this.#capacity = capacity
    this.#tokens = capacity
    this.#refilledAt = now
  }

  /** Answers whether one more action is allowed, and counts it. `now`: monotonic milliseconds. */
  tryConsume(now: number): boolean {
    const earned = Math.floor((now - this.#refilledAt) / this.#refillMs)
    this.#refilledAt += earned * this.#refillMs
    this.#tokens = Math.min(this.#capacity, this.#tokens + earned)
    if (this.#tokens === 0) return false
    this.#tokens -= 1
    return true
  }
}
