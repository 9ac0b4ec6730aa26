/**
 * Those who wait until everything that has happened so far is on disk: an answer is given only then.
 */
import { no, type Result, yes } from '../../core/result.ts'

export class CommitWaiters {
  readonly #settlers = new Map<number, (answer: Result<void>) => void>()
  #next = 1

  /** @param notifyOnCommit asks for `landed(handle)` once the disk has everything up to now */
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

  /** Nobody will know any more. */
  refuseAll(): void {
    for (const settle of this.#settlers.values())
      settle(no('unavailable', 'the service stopped; whether the change was made, the next start tells'))
    this.#settlers.clear()
  }
}
