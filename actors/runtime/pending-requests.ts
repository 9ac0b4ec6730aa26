/**
 * PendingRequests holds requests and the promises of their callers outside the actors, because requests may contain
 * secrets. Events and contexts carry only the handle of a request, never its content.
 */
import type { Result } from '../../core/result.ts'

interface PendingRequest<Q, A> {
  readonly request: Q
  readonly settle: (answer: Result<A>) => void
}

export class PendingRequests<Q, A> {
  readonly #pending = new Map<number, PendingRequest<Q, A>>()
  #next = 1

  /** Adds a request. `answer` resolves when `settle` is called with the handle. */
  add(request: Q): { readonly handle: number; readonly answer: Promise<Result<A>> } {
    const handle = this.#next++
    const answer = new Promise<Result<A>>((settle) => this.#pending.set(handle, { request, settle }))
    return { handle, answer }
  }

  get(handle: number): Q | undefined {
    return this.#pending.get(handle)?.request
  }

  /** Answers a request. A second answer, from an effect that ran twice, is ignored. */
  settle(handle: number, answer: Result<A>): void {
    this.#pending.get(handle)?.settle(answer)
    this.#pending.delete(handle)
  }

  settleAll(answer: Result<A>): void {
    for (const handle of [...this.#pending.keys()]) this.settle(handle, answer)
  }

  get size(): number {
    return this.#pending.size
  }
}
