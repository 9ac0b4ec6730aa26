/**
 * A drawer for what must not travel through lives: requests that may hold secrets, and the promises of those who
 * wait for an answer. Events and contexts carry the number on the drawer's tag, never what is inside.
 */
import type { Result } from '../../core/result.ts'

interface PendingRequest<Q, A> {
  readonly request: Q
  readonly settle: (answer: Result<A>) => void
}

export class PendingRequests<Q, A> {
  readonly #pending = new Map<number, PendingRequest<Q, A>>()
  #next = 1

  /** Put a question in; `answer` resolves once somebody has settled it. */
  add(request: Q): { readonly handle: number; readonly answer: Promise<Result<A>> } {
    const handle = this.#next++
    const answer = new Promise<Result<A>>((settle) => this.#pending.set(handle, { request, settle }))
    return { handle, answer }
  }

  get(handle: number): Q | undefined {
    return this.#pending.get(handle)?.request
  }

  /** The first answer counts; a second one, after an effect that ran twice, is ignored. */
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
