/**
 * A drawer for what must not travel through lives: requests that may hold secrets, and the promises of those who
 * wait for an answer. Events and contexts carry the number on the drawer's tag, never what is inside.
 */
import type { Answer } from '../../core/result.ts'

interface Waiting<Q, A> {
  readonly question: Q
  readonly settle: (answer: Answer<A>) => void
}

export class Drawer<Q, A> {
  readonly #waiting = new Map<number, Waiting<Q, A>>()
  #next = 1

  /** Put a question in; `answer` resolves once somebody has settled it. */
  put(question: Q): { readonly handle: number; readonly answer: Promise<Answer<A>> } {
    const handle = this.#next++
    const answer = new Promise<Answer<A>>((settle) => this.#waiting.set(handle, { question, settle }))
    return { handle, answer }
  }

  question(handle: number): Q | undefined {
    return this.#waiting.get(handle)?.question
  }

  /** The first answer counts; a second one, after an effect that ran twice, is ignored. */
  settle(handle: number, answer: Answer<A>): void {
    this.#waiting.get(handle)?.settle(answer)
    this.#waiting.delete(handle)
  }

  settleAll(answer: Answer<A>): void {
    for (const handle of [...this.#waiting.keys()]) this.settle(handle, answer)
  }

  get size(): number {
    return this.#waiting.size
  }
}
