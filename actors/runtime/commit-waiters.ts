/**
 * CommitWaiters holds callers until everything that has happened so far is on disk, so that an answer is durable when
 * it is given.
 */
import { no, type Result, yes } from '../../core/result.ts'

export class CommitWaiters {
  readonly #settlers = new Map<number, (answer: Result<void>) => void>()
  #next = 1

  /** @param notifyOnCommit arranges a call of `onCommitted(handle)` once everything up to now is on disk */
  wait(notifyOnCommit: (handle: number) => void): Promise<Result<void>> {
    const handle = this.#next++
    const result = new Promise<Result<void>>((settle) => this.#settlers.set(handle, settle))
    notifyOnCommit(handle)
    return result
  }

  get size(): number {
    return this.#settlers.size
  }

  onCommitted(handle: number): void {
    this.#settlers.get(handle)?.(yes(undefined))
    this.#settlers.delete(handle)
  }

  /** Refuses every waiter when the service stops: whether their changes reached the disk is unknown. */
  refuseAll(): void {
    for (const settle of this.#settlers.values())
      settle(no('unavailable', 'the service stopped; check after its next start whether the change was made'))
    this.#settlers.clear()
  }
}
