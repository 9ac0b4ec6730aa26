/**
 * `KeyedQueue` runs tasks with the same key one after the other, in the order of the calls.
 *
 * A failed task fails only its caller. Tasks with other keys do not wait.
 */
export class KeyedQueue {
  readonly #last = new Map<string, Promise<unknown>>()

  run<T>(key: string, work: () => Promise<T>): Promise<T> {
    const before = this.#last.get(key) ?? Promise.resolve()
    const mine = before.then(work, work)
    this.#last.set(key, mine)
    const forget = () => {
      if (this.#last.get(key) === mine) this.#last.delete(key)
    }
    mine.then(forget, forget)
    return mine
  }

  /** Resolves when all tasks so far have ended, successfully or not. */
  async whenIdle(): Promise<void> {
    await Promise.allSettled(this.#last.values())
  }
}
