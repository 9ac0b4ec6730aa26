/** `KeyedQueue` runs tasks with the same name one after the other; a waiting task can be aborted. */
import { no, type Result } from '../../core/result.ts'

export class KeyedQueue {
  readonly #last = new Map<string, Promise<void>>()

  /** Refuses if `signal` aborts while the task waits; a running task handles the signal itself. */
  async run<T>(
    name: string,
    signal: AbortSignal | undefined,
    work: () => Promise<Result<T>>,
  ): Promise<Result<T>> {
    const before = this.#last.get(name) ?? Promise.resolve()
    const { gate, open } = createGate()
    this.#last.set(name, gate)
    try {
      if (!(await waitForGate(before, signal))) return stoppedWaiting
      return await work()
    } finally {
      // An aborted task must not let its successor overtake the tasks before it.
      void before.then(open)
      if (this.#last.get(name) === gate) void gate.then(() => this.#forget(name, gate))
    }
  }

  #forget(name: string, gate: Promise<void>): void {
    if (this.#last.get(name) === gate) this.#last.delete(name)
  }
}

const stoppedWaiting = no('conflict', 'stopped while waiting for another run of the same repository')

function createGate(): { readonly gate: Promise<void>; readonly open: () => void } {
  let open = (): void => {}
  const gate = new Promise<void>((resolve) => {
    open = resolve
  })
  return { gate, open }
}

/** Whether the gate opened before the signal aborted. */
function waitForGate(gate: Promise<void>, signal: AbortSignal | undefined): Promise<boolean> {
  if (signal === undefined) return gate.then(() => true)
  return new Promise((resolve) => {
    const giveUp = () => resolve(false)
    if (signal.aborted) giveUp()
    signal.addEventListener('abort', giveUp, { once: true })
    void gate.then(() => {
      signal.removeEventListener('abort', giveUp)
      resolve(!signal.aborted)
    })
  })
}
