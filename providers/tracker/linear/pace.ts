/** How often something may be done: a few times in a row, and in the long run no oftener than so. */
export class Pace {
  readonly #everyMs: number
  readonly #max: number
  #left: number
  #at: number

  constructor(everyMs: number, max: number, now: number) {
    this.#everyMs = everyMs
    this.#max = max
    this.#left = max
    this.#at = now
  }

  /** Whether once more is allowed; it counts as done then. `now`: of a clock that never goes back. */
  take(now: number): boolean {
    const earned = Math.floor((now - this.#at) / this.#everyMs)
    this.#at += earned * this.#everyMs
    this.#left = Math.min(this.#max, this.#left + earned)
    if (this.#left === 0) return false
    this.#left -= 1
    return true
  }
}
