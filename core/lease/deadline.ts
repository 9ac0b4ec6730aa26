/**
 * Computes how long a lease lives without its worker at the host, and without its host at the worker.
 *
 * A silent worker has the heartbeat timeout until the host notices, then the grace period to reconnect. Both are
 * measured on monotonic clocks; wall times are only for people. The term is fixed when the lease is granted, so later
 * configuration changes do not shorten it.
 */
import { DISPATCH_ANSWER_MS } from '../../protocol/limits.ts'

export interface LeaseTimeouts {
  readonly heartbeatTimeoutSeconds: number
  readonly reconnectGraceSeconds: number
}

export const heartbeatTimeoutMs = (timeouts: LeaseTimeouts): number => timeouts.heartbeatTimeoutSeconds * 1000

export const leaseTermMs = (timeouts: LeaseTimeouts): number =>
  (timeouts.heartbeatTimeoutSeconds + timeouts.reconnectGraceSeconds) * 1000

const WORKER_TERM_SHARE = 0.9

/** The time after which a worker that hears nothing ends an execution by itself: before the host gives the lease up. */
export const workerTermMs = (remainingMs: number): number => remainingMs * WORKER_TERM_SHARE

/** The deadline of a lease whose worker sent its last frame at `lastFrameAt`. */
export const leaseDeadline = (lastFrameAt: number, termMs: number): number => lastFrameAt + termMs

/**
 * The deadline of a lease whose dispatch was not answered. The worker counts from the arrival of the dispatch, which
 * the connection may have delayed by up to the time in which the worker would have expected a word from the host.
 */
export const unansweredLeaseDeadline = (sentAt: number, termMs: number, timeouts: LeaseTimeouts): number =>
  sentAt + DISPATCH_ANSWER_MS + heartbeatTimeoutMs(timeouts) + termMs

/**
 * The deadline of a lease after a restart. The host made no promise while it was down, so a full term from the start
 * outlasts every earlier promise. For an unanswered dispatch the host does not know whether and when it was sent.
 */
export const restoredLeaseDeadline = (startedAt: number, termMs: number, timeouts: LeaseTimeouts): number =>
  unansweredLeaseDeadline(startedAt, termMs, timeouts)
