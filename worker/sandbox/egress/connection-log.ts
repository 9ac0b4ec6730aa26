/**
 * One line in the run's log for each connection, and no more lines than a person would read: a sandbox that asks in
 * a loop gets its first answers written down, and the rest counted.
 */
import type { Clock } from '../../../core/ports.ts'

export interface Journal {
  wrote(target: string, what: string): void
  /** Says what was left out, if anything was. */
  end(): void
}

/** So many lines at once, and then one more every so often. */
const LINES_AT_ONCE_MAX = 100
const LINE_EVERY_MS = 1_000
const TARGET_CHARS_MAX = 100

export function makeJournal(log: (line: string) => void, clock: Clock): Journal {
  let room = LINES_AT_ONCE_MAX
  let refilledAt = clock.monotonic()
  let omitted = 0

  const refill = () => {
    const gained = Math.floor((clock.monotonic() - refilledAt) / LINE_EVERY_MS)
    room = Math.min(LINES_AT_ONCE_MAX, room + gained)
    refilledAt += gained * LINE_EVERY_MS
  }
  const end = () => {
    if (omitted > 0) log(`egress: ${omitted} more ${omitted === 1 ? 'line' : 'lines'} left out`)
    omitted = 0
  }
  const wrote = (target: string, what: string) => {
    refill()
    if (room < 1) {
      omitted += 1
      return
    }
    room -= 1
    end()
    log(`egress: ${printable(target)} ${what}`)
  }
  return { wrote, end }
}

/** It comes from inside, so it may be anything. */
export function printable(target: string): string {
  if (target === '') return '(no target)'
  const shown = target.slice(0, TARGET_CHARS_MAX).replace(/[^!-~]/g, '?')
  return target.length > TARGET_CHARS_MAX ? `${shown}…` : shown
}
