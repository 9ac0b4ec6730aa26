/**
 * Work that was cut off by nothing of its own: its worker ended, or its lease was lost. Workers and hosts say so in the
 * same words, in front of the reason, and know it by them. Nobody else may: an agent that ends with such words would be
 * sent to work again.
 */
import type { RunOutcome } from '../../protocol/frames.ts'
import { TEXT_CHARS_MAX } from '../../protocol/limits.ts'
import { truncate } from '../safe-text.ts'

const INTERRUPTED = 'interrupted: '

export const interruptionError = (why: string): string => `${INTERRUPTED}${why}`

export function isInterrupted({ status, error }: Pick<RunOutcome, 'status' | 'error'>): boolean {
  return status === 'failed' && error?.startsWith(INTERRUPTED) === true
}

/** Of work that came to its end by itself, whatever it says about that. */
export function disclaimInterruption(outcome: RunOutcome): RunOutcome {
  return isInterrupted(outcome)
    ? { ...outcome, error: truncate(`it says: ${outcome.error}`, TEXT_CHARS_MAX) }
    : outcome
}
