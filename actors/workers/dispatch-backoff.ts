/**
 * Workers that are left alone for a while, because they did not take what they were given.
 *
 * Once refused, a worker rests for a moment; refused over and over for the same reason, its machine seems to be that
 * reason, and it is on hold until somebody looks after it or enough time has passed. Kept in memory only: a restart
 * gives everybody another chance.
 */
import { holdEndsAt, holdReason, parseRejection, relevantRejections } from '../../core/fleet/rejection.ts'
import type { Log } from '../../core/ports.ts'
import { WORKER_BACKOFF_MS } from '../../protocol/limits.ts'
import type { MonotonicTimers } from '../runtime/monotonic-timers.ts'
import type { EnrolledWorker, WorkerRegistry } from './worker-registry.ts'

export interface DispatchBackoffPorts {
  readonly log: Log
  readonly workers: WorkerRegistry
  readonly timers: MonotonicTimers
  /** Something that may let a run be placed. */
  readonly requestScheduling: () => void
}

const timerKeyOf = (workerId: string): string => `worker ${workerId}`

export class DispatchBackoff {
  readonly #ports: DispatchBackoffPorts
  /** Rest because they were about to end; by worker. */
  readonly #draining = new Set<string>()

  constructor(ports: DispatchBackoffPorts) {
    this.#ports = ports
  }

  /** It did not take a run: it is left alone for a while, and longer when its machine seems to be the reason. */
  onRejected(worker: EnrolledWorker, reason: string): void {
    const { timers, log } = this.#ports
    const now = timers.now()
    const rejection = parseRejection(reason)
    worker.pausedUntil = now + WORKER_BACKOFF_MS
    timers.set(timerKeyOf(worker.id), 'pause', worker.pausedUntil)
    if (rejection.class === 'draining') this.#draining.add(worker.id)
    else this.#draining.delete(worker.id)
    const history = relevantRejections([...worker.refusals, { at: now, ...rejection }], now)
    worker.refusals.splice(0, Number.POSITIVE_INFINITY, ...history)
    const hold = holdReason(history, now)
    if (hold === undefined) return
    worker.hold = hold
    timers.set(timerKeyOf(worker.id), 'hold', holdEndsAt(history, now) ?? now)
    log.warn({ worker: worker.id, reason: hold }, 'a worker is put on hold for dispatch')
  }

  /** An alarm that was set here came due: its pause or its hold is over. */
  onTimer(key: string, name: string): void {
    const worker = this.#ports.workers.get(key.slice('worker '.length))
    if (worker !== undefined && name === 'hold') delete worker.hold
    this.#ports.requestScheduling()
  }

  /** It registered anew. What was about to end has been started again, and may be asked at once. */
  onReconnected(worker: EnrolledWorker): void {
    if (!this.#draining.delete(worker.id)) return
    worker.pausedUntil = 0
  }

  /** Somebody has looked after it. */
  clear(worker: EnrolledWorker): void {
    delete worker.hold
    worker.pausedUntil = 0
    worker.refusals.length = 0
    this.remove(worker.id)
    this.#ports.requestScheduling()
  }

  /** It is enrolled no more. */
  remove(workerId: string): void {
    this.#draining.delete(workerId)
    this.#ports.timers.cancelAll(timerKeyOf(workerId))
  }
}
