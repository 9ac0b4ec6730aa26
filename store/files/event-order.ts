/** Indexes of a run's events count up from 0 without a hole: each append begins where the last one ended. */
import type { RunEvent } from '../../protocol/run.ts'

/** Throws a RangeError when `events` do not count up from `next`. */
export function requireInOrder(runId: string, events: readonly RunEvent[], next: number): void {
  const wrong = events.findIndex(({ index }, at) => index !== next + at)
  if (wrong === -1) return
  throw new RangeError(`event ${events[wrong]?.index} of ${runId} came in the place of event ${next + wrong}`)
}
