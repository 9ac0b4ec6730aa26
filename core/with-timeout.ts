/**
 * Turns a provider's silence into a temporary refusal, so that a provider that never answers blocks no caller.
 */
import type { Clock } from './ports/clock.ts'
import { no, type Result } from './result.ts'

/** A result that arrives after the timeout is ignored. */
export function withTimeout<T>(
  clock: Pick<Clock, 'after'>,
  ms: number,
  pending: Promise<Result<T>>,
  /** The provider's name for people, such as `the tracker`. */
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
