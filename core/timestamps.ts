/**
 * Creates the function that returns the wall time as ISO text. The text is cached per millisecond, because a busy
 * host asks thousands of times in one millisecond.
 */
import type { Clock } from './ports.ts'

export function createTimestamps(clock: Pick<Clock, 'now'>): () => string {
  let at = Number.NaN
  let text = ''
  return () => {
    const now = clock.now()
    if (now !== at) [at, text] = [now, new Date(now).toISOString()]
    return text
  }
}
