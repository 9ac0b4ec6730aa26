/**
 * One thing at a time for each key, in the order of the calls. A failure is its caller's; the next turn still comes.
 */
export class Turns {
  readonly #last = new Map<string, Promise<unknown>>()

  take<T>(key: string, work: () => Promise<T>): Promise<T> {
    const before = this.#last.get(key) ?? Promise.resolve()
    const mine = before.then(work, work)
    this.#last.set(key, mine)
    const forget = () => {
      if (this.#last.get(key) === mine) this.#last.delete(key)
    }
    mine.then(forget, forget)
    return mine
  }

  /** When everything asked for so far is done, well or not. */
  async settled(): Promise<void> {
    await Promise.allSettled(this.#last.values())
  }
}
