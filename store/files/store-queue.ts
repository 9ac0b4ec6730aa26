/**
 * A queue per key: runs one task at a time, in the order of the calls. A failed task fails only its caller. After
 * `close`, earlier tasks still run, and new ones are refused.
 */
import { StoreClosed } from '../errors.ts'

/**
 * Does a write to a file of the data directory. Rejects when this process may not write there any more, and sees whether
 * the disk was full.
 */
export type GuardWrite = <T>(write: () => Promise<T>) => Promise<T>

export class StoreQueue {
  readonly #guardWrite: GuardWrite
  readonly #last = new Map<string, Promise<unknown>>()
  #closed = false

  constructor(guardWrite: GuardWrite = (write) => write()) {
    this.#guardWrite = guardWrite
  }

  get closed(): boolean {
    return this.#closed
  }

  run<T>(key: string, work: () => Promise<T>): Promise<T> {
    if (this.#closed) return Promise.reject(new StoreClosed('the store is closed'))
    const before = this.#last.get(key) ?? Promise.resolve()
    const begin = () => this.#guardWrite(work)
    const mine = before.then(begin, begin)
    this.#last.set(key, mine)
    const forget = () => {
      if (this.#last.get(key) === mine) this.#last.delete(key)
    }
    mine.then(forget, forget)
    return mine
  }

  /** Refuses new tasks, and resolves when all earlier tasks have ended, successfully or not. */
  async close(): Promise<void> {
    this.#closed = true
    await Promise.allSettled(this.#last.values())
  }
}
