/**
 * One after the other, by name: whoever wants the same thing waits for those before, and gives up when told to.
 */
import { no, type Result } from '../../core/result.ts'

export class Turns {
  readonly #last = new Map<string, Promise<void>>()

  /** Refused when the signal comes before the turn does; what is under way sees to the signal itself. */
  async take<T>(
    name: string,
    signal: AbortSignal | undefined,
    work: () => Promise<Result<T>>,
  ): Promise<Result<T>> {
    const before = this.#last.get(name) ?? Promise.resolve()
    const { mine, pass } = turn()
    this.#last.set(name, mine)
    try {
      if (!(await comesBefore(before, signal))) return givenUp
      return await work()
    } finally {
      // Whoever gave up passes on a turn that is still to come.
      void before.then(pass)
      if (this.#last.get(name) === mine) void mine.then(() => this.#forget(name, mine))
    }
  }

  #forget(name: string, turn: Promise<void>): void {
    if (this.#last.get(name) === turn) this.#last.delete(name)
  }
}

const givenUp = no('conflict', 'stopped while waiting for another run of the same repository')

function turn(): { readonly mine: Promise<void>; readonly pass: () => void } {
  let pass = (): void => {}
  const mine = new Promise<void>((resolve) => {
    pass = resolve
  })
  return { mine, pass }
}

/** Whether the turn came before the signal did. */
function comesBefore(turn: Promise<void>, signal: AbortSignal | undefined): Promise<boolean> {
  if (signal === undefined) return turn.then(() => true)
  return new Promise((resolve) => {
    const giveUp = () => resolve(false)
    if (signal.aborted) giveUp()
    signal.addEventListener('abort', giveUp, { once: true })
    void turn.then(() => {
      signal.removeEventListener('abort', giveUp)
      resolve(!signal.aborted)
    })
  })
}
