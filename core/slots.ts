/**
 * `Slots` lets a few steps run at the same time; the others wait for their turn, in the order in which they came.
 */
export class Slots {
  #free: number
  readonly #waiting = new Set<() => void>()

  constructor(atOnce: number) {
    this.#free = atOnce
  }

  /** An aborted step runs without a slot, because it only says that it was stopped. */
  async run<T>(step: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    const taken = this.#take(signal)
    const isInSlot = typeof taken === 'boolean' ? taken : await taken
    try {
      return await step()
    } finally {
      if (isInSlot) this.#pass()
    }
  }

  #take(signal: AbortSignal | undefined): boolean | Promise<boolean> {
    if (signal?.aborted === true) return false
    if (this.#free > 0) {
      this.#free -= 1
      return true
    }
    return new Promise((resolve) => {
      const begin = () => {
        signal?.removeEventListener('abort', leave)
        resolve(true)
      }
      const leave = () => {
        this.#waiting.delete(begin)
        resolve(false)
      }
      this.#waiting.add(begin)
      signal?.addEventListener('abort', leave, { once: true })
    })
  }

  #pass(): void {
    const [next] = this.#waiting
    if (next === undefined) {
      this.#free += 1
      return
    }
    this.#waiting.delete(next)
    next()
  }
}
