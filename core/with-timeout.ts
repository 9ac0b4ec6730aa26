/**
 * Neighbours that never answer must not hold up whoever asks: after a while, silence is a refusal that passes.
 */
import type { Clock } from './ports.ts'
import { no, type Result } from './result.ts'

/** What comes later than that falls on the floor. */
export function answerWithin<T>(
  clock: Pick<Clock, 'after'>,
  ms: number,
  asked: Promise<Result<T>>,
  /** As a person knows it: `the tracker`. */
  who: string,
): Promise<Result<T>> {
  return new Promise((resolve, reject) => {
    const late = `${who} did not answer within ${ms / 1000} seconds`
    const enough = clock.after(ms, () => resolve(no('unavailable', late)))
    asked.then(
      (answer) => {
        enough()
        resolve(answer)
      },
      (error: unknown) => {
        enough()
        reject(error)
      },
    )
  })
}
