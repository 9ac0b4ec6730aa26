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
  readonly #waiting = new Map<number, PendingRequest<Q, A>>()
  #next = 1

  /** Put a question in; `answer` resolves once somebody has settled it. */
  add(question: Q): { readonly handle: number; readonly answer: Promise<Result<A>> } {
    const handle = this.#next++
    const answer = new Promise<Result<A>>((settle) =>
      this.#waiting.set(handle, { request: question, settle }),
    )
    return { handle, answer }
  }

  request(handle: number): Q | undefined {
    return this.#waiting.get(handle)?.request
  }

  /** The first answer counts; a second one, after an effect that ran twice, is ignored. */
  settle(handle: number, answer: Result<A>): void {
    this.#waiting.get(handle)?.settle(answer)
    this.#waiting.delete(handle)
  }

  settleAll(answer: Result<A>): void {
    for (const handle of [...this.#waiting.keys()]) this.settle(handle, answer)
  }

  get size(): number {
    return this.#waiting.size
  }
}
