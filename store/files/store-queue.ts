/**
 * One thing at a time for each key, in the order of the calls. A failure is its caller's; the next turn still comes.
 * Once closed, no turn is given any more: what was asked for before is done, what comes later is refused.
 */
import { StoreClosed } from '../errors.ts'

export class StoreQueue {
  readonly #last = new Map<string, Promise<unknown>>()
  #closed = false

  get closed(): boolean {
    return this.#closed
  }

  run<T>(key: string, work: () => Promise<T>): Promise<T> {
    if (this.#closed) return Promise.reject(new StoreClosed('the store is closed'))
    const before = this.#last.get(key) ?? Promise.resolve()
    const mine = before.then(work, work)
    this.#last.set(key, mine)
    const forget = () => {
      if (this.#last.get(key) === mine) this.#last.delete(key)
    }
    mine.then(forget, forget)
    return mine
  }

  /** Refuses whatever comes from now on. Resolves when everything asked for so far is done, well or not. */
  async close(): Promise<void> {
    this.#closed = true
    await Promise.allSettled(this.#last.values())
  }
}
