/**
 * How long a lease lives without its worker.
 *
 * A worker that falls silent has the timeout until it is noticed and the grace to come back. All of it is counted on
 * clocks that never jump; the wall clock's form is for people. A promise once made is kept: the term is fixed when
 * the lease is granted, whatever the configuration says later.
 */
import { DISPATCH_ANSWER_MS } from '../../protocol/limits.ts'

export interface LeaseTimeouts {
  readonly heartbeatTimeoutSeconds: number
  readonly reconnectGraceSeconds: number
}

export const heartbeatTimeoutMs = (timeouts: LeaseTimeouts): number => timeouts.heartbeatTimeoutSeconds * 1000

export const leaseTermMs = (timeouts: LeaseTimeouts): number =>
  (timeouts.heartbeatTimeoutSeconds + timeouts.reconnectGraceSeconds) * 1000

/** Until when a lease whose worker was heard of last at `heardAt` lives. */
export const leaseDeadline = (lastHeardAt: number, termMs: number): number => lastHeardAt + termMs

/**
 * The same for one whose dispatch may have arrived or not. The worker counts from the arrival, which the line may have
 * delayed for as long as the worker itself would have waited for a word of the host.
 */
export const unansweredLeaseDeadline = (sentAt: number, termMs: number, timeouts: LeaseTimeouts): number =>
  sentAt + DISPATCH_ANSWER_MS + heartbeatTimeoutMs(timeouts) + termMs

/**
 * Across a restart: no promise was made after the host went down, so counting anew from its start outlasts them all.
 * Of a dispatch that was never answered nobody knows when it left, or whether it did.
 */
export const restoredLeaseDeadline = (startedAt: number, termMs: number, timeouts: LeaseTimeouts): number =>
  unansweredLeaseDeadline(startedAt, termMs, timeouts)
