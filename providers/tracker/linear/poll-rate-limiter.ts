/** How often something may be done: a few times in a row, and in the long run no oftener than so. */
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

  /** Whether once more is allowed; it counts as done then. `now`: of a clock that never goes back. */
  tryConsume(now: number): boolean {
    const earned = Math.floor((now - this.#refilledAt) / this.#refillMs)
    this.#refilledAt += earned * this.#refillMs
    this.#tokens = Math.min(this.#capacity, this.#tokens + earned)
    if (this.#tokens === 0) return false
    this.#tokens -= 1
    return true
  }
}
