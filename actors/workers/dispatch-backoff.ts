/**
 * DispatchBackoff keeps workers that rejected a dispatch from receiving another one for a while.
 *
 * A rejection pauses the worker briefly. Repeated rejections for the same reason put the worker on hold until a
 * person enables it again or the hold expires. This state is in memory only, so a restart clears it. The full disk of a
 * worker is a known trouble until the worker takes a run.
 */

import { holdEndsAt, holdReason, parseRejection, relevantRejections } from '../../core/fleet/rejection.ts'
import { WORKER_BACKOFF_MS } from '../../protocol/limits.ts'
import type { KnownTroubles } from '../attention/known-troubles.ts'
import type { HostContext } from '../host-context.ts'
import { timerKind } from '../runtime/timer-kind.ts'
import type { EnrolledWorker } from './enrolled-worker.ts'
import type { WorkerRegistry } from './worker-registry.ts'

export const WORKER_TIMER = timerKind<'pause' | 'hold'>('worker')

export class DispatchBackoff {
  readonly #context: HostContext
  readonly #workers: WorkerRegistry
  readonly #troubles: KnownTroubles
  /** Ids of workers that rejected a dispatch because they were draining. */
  readonly #draining = new Set<string>()

  constructor(context: HostContext, workers: WorkerRegistry, troubles: KnownTroubles) {
    this.#context = context
    this.#workers = workers
    this.#troubles = troubles
  }

  /** The worker rejected a dispatch: pauses it, and puts it on hold after repeated rejections. */
  onRejected(worker: EnrolledWorker, reason: string): void {
    const { timers, log } = this.#context
    const now = timers.now()
    const rejection = parseRejection(reason)
    worker.pausedUntil = now + WORKER_BACKOFF_MS
    worker.refusal = rejection.detail === '' ? rejection.class : rejection.detail
    timers.set(WORKER_TIMER.key(worker.id), 'pause', worker.pausedUntil)
    if (rejection.class === 'draining') this.#draining.add(worker.id)
    else this.#draining.delete(worker.id)
    if (rejection.class === 'disk') this.#noteFullDisk(worker, rejection.detail)
    else if (rejection.class === 'sandbox') this.#forgetFullDisk(worker)
    const history = relevantRejections([...worker.refusals, { at: now, ...rejection }], now)
    worker.refusals.splice(0, Number.POSITIVE_INFINITY, ...history)
    const hold = holdReason(history, now)
    if (hold === undefined) return
    worker.hold = hold
    timers.set(WORKER_TIMER.key(worker.id), 'hold', holdEndsAt(history, now) ?? now)
    log.warn(
      { worker: worker.id, reason: hold },
      'a worker is on hold after repeated rejections; enable it to clear the hold',
    )
  }

  #noteFullDisk(worker: EnrolledWorker, detail: string): void {
    worker.fullDisk = detail
    const since = this.#context.instant()
    this.#troubles.begin('worker-disk', worker.id, { since, reason: detail })
  }

  /** The worker took a run. */
  onAccepted(worker: EnrolledWorker): void {
    this.#forgetFullDisk(worker)
  }

  #forgetFullDisk(worker: EnrolledWorker): void {
    delete worker.fullDisk
    this.#troubles.end('worker-disk', worker.id)
  }

  /** The pause or the hold of a worker is over. */
  onTimer(workerId: string, name: 'pause' | 'hold'): void {
    const worker = this.#workers.get(workerId)
    if (worker !== undefined && name === 'hold') delete worker.hold
    this.#context.requestScheduling()
  }

  /** The worker registered again. A worker that was draining has restarted and may get work at once. */
  onReconnected(worker: EnrolledWorker): void {
    if (!this.#draining.delete(worker.id)) return
    worker.pausedUntil = 0
  }

  /** A person enabled the worker: ends its pause and hold. */
  clear(worker: EnrolledWorker): void {
    delete worker.hold
    delete worker.fullDisk
    worker.pausedUntil = 0
    worker.refusals.length = 0
    this.remove(worker.id)
    this.#context.requestScheduling()
  }

  /** The worker is no longer enrolled. */
  remove(workerId: string): void {
    this.#draining.delete(workerId)
    this.#context.timers.cancelAll(WORKER_TIMER.key(workerId))
  }
}
