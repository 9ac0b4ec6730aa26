/**
 * TurnQueue runs tasks one after the other, and each in a turn of the event loop of its own.
 *
 * Other work of the process goes on between two tasks, however many wait. A failed task fails only its caller.
 */
export class TurnQueue {
  readonly #nextTurn: () => Promise<void>
  #last: Promise<unknown> = Promise.resolve()

  /** @param atNextTurn calls its argument in the next turn of the event loop */
  constructor(atNextTurn: (run: () => void) => void) {
    this.#nextTurn = () => new Promise(atNextTurn)
  }

  run<T>(work: () => Promise<T>): Promise<T> {
    const mine = this.#last.then(work)
    this.#last = mine.then(this.#nextTurn, this.#nextTurn)
    return mine
  }
}
