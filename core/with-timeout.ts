/**
 * Neighbours that never answer must not hold up whoever asks: after a while, silence is a refusal that passes.
 */
import type { Clock } from './ports.ts'
import { no, type Result } from './result.ts'

/** What comes later than that falls on the floor. */
export function withTimeout<T>(
  clock: Pick<Clock, 'after'>,
  ms: number,
  pending: Promise<Result<T>>,
  /** As a person knows it: `the tracker`. */
  name: string,
): Promise<Result<T>> {
  return new Promise((resolve, reject) => {
    const message = `${name} did not answer within ${ms / 1000} seconds`
    const cancelTimer = clock.after(ms, () => resolve(no('unavailable', message)))
    pending.then(
      (answer) => {
        cancelTimer()
        resolve(answer)
      },
      (error: unknown) => {
        cancelTimer()
        reject(error)
      },
    )
  })
}
