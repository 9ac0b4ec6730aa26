/**
 * TurnQueue runs tasks one after the other, and each in a turn of the event loop of its own.
 *
 * Other work of the process goes on between two tasks, however many wait. A failed task fails only its caller.
 */
export class TurnQueue {
  #last: Promise<unknown> = Promise.resolve()

  run<T>(work: () => Promise<T>): Promise<T> {
    const mine = this.#last.then(work)
    this.#last = mine.then(nextTurn, nextTurn)
    return mine
  }
}

function nextTurn(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve)
  })
}
