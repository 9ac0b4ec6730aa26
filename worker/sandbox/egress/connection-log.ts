/**
 * Logs one line per connection into the run's log, with a rate limit: a sandbox that connects in a loop gets its first
 * lines logged and the rest counted.
 */
import type { Clock } from '../../../core/ports/clock.ts'
import { TokenBucket } from '../../../core/token-bucket.ts'
import { shortenEnd } from '../../../protocol/shorten.ts'

export interface ConnectionLog {
  record(target: string, what: string): void
  /** Logs how many lines were left out, if any. */
  reportOmitted(): void
}

const LINES_AT_ONCE_MAX = 100
const LINES_PER_SECOND_MAX = 1
const TARGET_CHARS_MAX = 100

export function makeConnectionLog(log: (line: string) => void, clock: Clock, name = 'egress'): ConnectionLog {
  const bucket = new TokenBucket(() => clock.monotonic(), LINES_AT_ONCE_MAX, LINES_PER_SECOND_MAX)
  let omitted = 0

  const reportOmitted = () => {
    if (omitted > 0) log(`${name}: ${omitted} more ${omitted === 1 ? 'line' : 'lines'} left out`)
    omitted = 0
  }
  const record = (target: string, what: string) => {
    if (!bucket.take(1)) {
      omitted += 1
      return
    }
    reportOmitted()
    log(`${name}: ${printableTarget(target)} ${what}`)
  }
  return { record, reportOmitted }
}

/** Targets come from inside the sandbox and may contain anything. */
export const printableTarget = (target: string): string =>
  target === '' ? '(no target)' : shortenEnd(target.replace(/[^!-~]/g, '?'), TARGET_CHARS_MAX)
