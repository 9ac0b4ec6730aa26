/**
 * Those who wait until everything that has happened so far is on disk: an answer is given only then.
 */
import { no, type Result, yes } from '../../core/result.ts'

export class CommitWaiters {
  readonly #waiting = new Map<number, (answer: Result<void>) => void>()
  #next = 1

  /** @param queue asks for `landed(handle)` once the disk has everything up to now */
  wait(queue: (handle: number) => void): Promise<Result<void>> {
    const handle = this.#next++
    const waited = new Promise<Result<void>>((settle) => this.#waiting.set(handle, settle))
    queue(handle)
    return waited
  }

  get size(): number {
    return this.#waiting.size
  }

  onCommitted(handle: number): void {
    this.#waiting.get(handle)?.(yes(undefined))
    this.#waiting.delete(handle)
  }

  /** Nobody will know any more. */
  abandon(): void {
    for (const settle of this.#waiting.values())
      settle(no('unavailable', 'the service stopped; whether the change was made, the next start tells'))
    this.#waiting.clear()
  }
}
