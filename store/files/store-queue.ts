/** `StoreQueue` guards the writes to files by key. After `close`, earlier tasks still run, and new ones are refused. */
import { KeyedQueue } from '../../core/keyed-queue.ts'
import { StoreClosed } from '../errors.ts'

/**
 * Does a write to a file of the data directory. Rejects when this process may not write there any more, and sees whether
 * the disk was full.
 */
export type GuardWrite = <T>(write: () => Promise<T>) => Promise<T>

export class StoreQueue {
  readonly #guardWrite: GuardWrite
  readonly #queue = new KeyedQueue()
  #closed = false

  constructor(guardWrite: GuardWrite = (write) => write()) {
    this.#guardWrite = guardWrite
  }

  get closed(): boolean {
    return this.#closed
  }

  run<T>(key: string, work: () => Promise<T>): Promise<T> {
    if (this.#closed) return Promise.reject(new StoreClosed('the store is closed'))
    return this.#queue.run(key, () => this.#guardWrite(work))
  }

  /** Refuses new tasks, and resolves when all earlier tasks have ended, successfully or not. */
  close(): Promise<void> {
    this.#closed = true
    return this.#queue.whenIdle()
  }
}
