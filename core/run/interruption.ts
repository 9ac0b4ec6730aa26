/**
 * Work that was cut off by nothing of its own: its worker ended, or its lease was lost. Workers and hosts say so in the
 * same words, in front of the reason, and know it by them.
 */
import type { RunOutcome } from '../../protocol/frames.ts'

const INTERRUPTED = 'interrupted: '

export const interruption = (why: string): string => `${INTERRUPTED}${why}`

export function wasInterrupted({ status, error }: Pick<RunOutcome, 'status' | 'error'>): boolean {
  return status === 'failed' && error?.startsWith(INTERRUPTED) === true
}
