/**
 * The wall clock as records write it down. Thousands of things happen in one millisecond of a busy host, and the text
 * is the same for all of them.
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
