/**
 * Marks the error of a run that was interrupted from outside: its worker ended, or its lease was lost.
 *
 * Workers and hosts write and recognize the same prefix. Errors from an agent must not carry it, or the run would be
 * queued again.
 */
import type { RunOutcome } from '../../protocol/frames.ts'
import { TEXT_CHARS_MAX } from '../../protocol/limits.ts'
import { truncate } from '../safe-text.ts'

const INTERRUPTED = 'interrupted: '

export const interruptionError = (why: string): string => `${INTERRUPTED}${why}`

/** @param phase the run's status when the daemon ended */
export const daemonEndedError = (phase: string): string =>
  interruptionError(`the worker daemon ended while the run was ${phase}`)

export function isInterrupted({ status, error }: Pick<RunOutcome, 'status' | 'error'>): boolean {
  return status === 'failed' && error !== undefined && isInterruption(error)
}

export const isInterruption = (reason: string): boolean => reason.startsWith(INTERRUPTED)

/** Removes the meaning of the prefix from the error of an execution that ended by itself. */
export function disclaimInterruption(outcome: RunOutcome): RunOutcome {
  return isInterrupted(outcome)
    ? { ...outcome, error: truncate(`it says: ${outcome.error}`, TEXT_CHARS_MAX) }
    : outcome
}
