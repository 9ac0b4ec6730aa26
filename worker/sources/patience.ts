/**
 * Trying again what failed for a reason that passes: a few times, at growing distances, and not once it is unwanted.
 */
import { backoffMs } from '../../core/backoff.ts'
import type { Chance, Clock } from '../../core/ports.ts'
import type { Answer } from '../../core/refusal.ts'

const TRIES_MAX = 3
const PAUSE_MS = 500
const PAUSE_MS_MAX = 5_000

export interface Patience {
  readonly clock: Pick<Clock, 'after'>
  readonly chance: Pick<Chance, 'fraction'>
}

export interface Tried<T> {
  readonly answer: Answer<T>
  /** Whether trying again may help. */
  readonly passes: boolean
}

export async function patiently<T>(
  { clock, chance }: Patience,
  signal: AbortSignal | undefined,
  attempt: () => Promise<Tried<T>>,
): Promise<Answer<T>> {
  for (let tries = 1; ; tries++) {
    const { answer, passes } = await attempt()
    if (answer.ok || !passes || tries === TRIES_MAX || signal?.aborted === true) return answer
    await pause(backoffMs(tries, PAUSE_MS, PAUSE_MS_MAX, chance.fraction()), clock, signal)
  }
}

function pause(ms: number, clock: Pick<Clock, 'after'>, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve) => {
    const over = () => {
      cancel()
      signal?.removeEventListener('abort', over)
      resolve()
    }
    const cancel = clock.after(ms, over)
    signal?.addEventListener('abort', over, { once: true })
  })
}
