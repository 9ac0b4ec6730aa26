/**
 * `FinalizingTime` bounds all steps together that follow the agent: its outputs, the hook, collecting and searching the
 * work. Each has a bound of its own, and many in a row would keep a slot of the worker for hours.
 *
 * Steps that contact the code host do not count: they have a patience of their own, and are never cut. Work that the time
 * does not suffice for stays in its sandbox, and the host has it published again.
 */
import type { Clock } from '../../core/ports.ts'
import { no, type Refused, type Result } from '../../core/result.ts'

/** Twice the longest step, the hook. */
export const FINALIZING_MS_MAX = 60 * 60_000
const MINUTE_MS = 60_000

export class FinalizingTime {
  readonly #clock: Pick<Clock, 'after' | 'monotonic'>
  readonly #msMax: number
  #leftMs: number

  constructor(clock: Pick<Clock, 'after' | 'monotonic'>, msMax = FINALIZING_MS_MAX) {
    this.#clock = clock
    this.#msMax = msMax
    this.#leftMs = msMax
  }

  get isOver(): boolean {
    return this.#leftMs <= 0
  }

  /** The signal aborts when the time is over. A step that came to its end nevertheless counts. */
  async within<T>(step: (signal: AbortSignal) => Promise<Result<T>>): Promise<Result<T>> {
    const done = await this.measure(step)
    return !done.ok && this.isOver ? this.refusal() : done
  }

  async measure<T>(step: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const abort = new AbortController()
    const began = this.#clock.monotonic()
    const endMs = this.#leftMs
    const cancel = this.#clock.after(Math.max(0, endMs), () => {
      this.#leftMs = 0
      abort.abort()
    })
    if (this.isOver) abort.abort()
    try {
      return await step(abort.signal)
    } finally {
      cancel()
      this.#leftMs = Math.min(this.#leftMs, endMs - (this.#clock.monotonic() - began))
    }
  }

  /** The host has the work published again. */
  refusal(): Refused {
    const minutes = Math.ceil(this.#msMax / MINUTE_MS)
    const { refusal } = no(
      'failed',
      `what follows the agent did not end within ${minutes === 1 ? 'a minute' : `${minutes} minutes`}, so nothing was published; its work stays in its sandbox`,
    )
    return { ok: false, refusal: { ...refusal, failure: 'publish' } }
  }
}
