/**
 * How long a lease lives without its worker.
 *
 * A worker that falls silent has the timeout until it is noticed and the grace to come back. All of it is counted on
 * clocks that never jump; the wall clock's form is for people. A promise once made is kept: the term is fixed when
 * the lease is granted, whatever the configuration says later.
 */
import { DISPATCH_ANSWER_MS } from '../../protocol/limits.ts'

export interface Patience {
  readonly heartbeatTimeoutSeconds: number
  readonly reconnectGraceSeconds: number
}

export const timeoutMs = (patience: Patience): number => patience.heartbeatTimeoutSeconds * 1000

export const termMs = (patience: Patience): number =>
  (patience.heartbeatTimeoutSeconds + patience.reconnectGraceSeconds) * 1000

/** Until when a lease whose worker was heard of last at `heardAt` lives. */
export const livesUntil = (heardAt: number, term: number): number => heardAt + term

/**
 * The same for one whose dispatch may have arrived or not. The worker counts from the arrival, which the line may have
 * delayed for as long as the worker itself would have waited for a word of the host.
 */
export const livesUntilIfArrived = (sentAt: number, term: number, patience: Patience): number =>
  sentAt + DISPATCH_ANSWER_MS + timeoutMs(patience) + term

/**
 * Across a restart: no promise was made after the host went down, so counting anew from its start outlasts them all.
 * Of a dispatch that was never answered nobody knows when it left, or whether it did.
 */
export const livesAfterRestart = (startedAt: number, term: number, patience: Patience): number =>
  livesUntilIfArrived(startedAt, term, patience)
