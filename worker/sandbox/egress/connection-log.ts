/**
 * Logs one line per connection into the run's log, with a rate limit: a sandbox that connects in a loop gets its first
 * lines logged and the rest counted.
 */
import type { Clock } from '../../../core/ports.ts'
import { shortenEnd } from '../../../protocol/shorten.ts'

export interface ConnectionLog {
  record(target: string, what: string): void
  /** Logs how many lines were left out, if any. */
  reportOmitted(): void
}

/** The burst size; afterwards one more line is allowed per `REFILL_MS`. */
const LINES_AT_ONCE_MAX = 100
const REFILL_MS = 1_000
const TARGET_CHARS_MAX = 100

export function makeConnectionLog(log: (line: string) => void, clock: Clock, name = 'egress'): ConnectionLog {
  let linesLeft = LINES_AT_ONCE_MAX
  let refilledAt = clock.monotonic()
  let omitted = 0

  const refill = () => {
    const gained = Math.floor((clock.monotonic() - refilledAt) / REFILL_MS)
    linesLeft = Math.min(LINES_AT_ONCE_MAX, linesLeft + gained)
    refilledAt += gained * REFILL_MS
  }
  const reportOmitted = () => {
    if (omitted > 0) log(`${name}: ${omitted} more ${omitted === 1 ? 'line' : 'lines'} left out`)
    omitted = 0
  }
  const record = (target: string, what: string) => {
    refill()
    if (linesLeft < 1) {
      omitted += 1
      return
    }
    linesLeft -= 1
    reportOmitted()
    log(`${name}: ${printableTarget(target)} ${what}`)
  }
  return { record, reportOmitted }
}

/** Targets come from inside the sandbox and may contain anything. */
export const printableTarget = (target: string): string =>
  target === '' ? '(no target)' : shortenEnd(target.replace(/[^!-~]/g, '?'), TARGET_CHARS_MAX)
