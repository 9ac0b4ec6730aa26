/**
 * LeaseAcknowledgements sends a worker, for each of its leases, how far frames are on disk and how much longer the
 * lease lives. Only values on disk are sent, so a full disk delays no heartbeat.
 */
import { leaseDeadline } from '../../core/lease/deadline.ts'
import type { HostContext } from '../host-context.ts'
import type { EnrolledWorker } from '../workers/enrolled-worker.ts'
import type { WorkersView } from '../workers/module.ts'
import type { WorkerConnection } from '../workers/worker-connections.ts'
import type { FrameReceiver } from './frame-receiver.ts'
import type { LeaseContext } from './lease.machine.ts'

export class LeaseAcknowledgements {
  readonly #context: HostContext
  readonly #workers: WorkersView
  readonly #frameReceiver: FrameReceiver

  constructor(context: HostContext, workers: WorkersView, frameReceiver: FrameReceiver) {
    this.#context = context
    this.#workers = workers
    this.#frameReceiver = frameReceiver
  }

  /** Acknowledges every accepted lease whose watermark is readable. `echo`: the instant of the heartbeat that is answered. */
  acknowledgeAll(connection: WorkerConnection, worker: EnrolledWorker, echo: number | undefined): void {
    const leases = []
    for (const id of worker.leases) {
      const lease = this.#workers.registry.lease(id)
      if (lease !== undefined && this.#frameReceiver.mayAcknowledge(id))
        leases.push(this.#acknowledgementOf(lease, worker))
    }
    this.#workers.connections.send(connection, {
      type: 'lease-ack',
      leases,
      ...(echo === undefined ? {} : { echo }),
    })
  }

  /** Acknowledges one lease before the next heartbeat, because enough of its frames are on disk. */
  acknowledgeLease(workerId: string, leaseId: string): void {
    const { registry, connections } = this.#workers
    const worker = registry.get(workerId)
    const lease = registry.lease(leaseId)
    const connection = connections.ofWorker(worker)
    if (worker === undefined || lease === undefined || connection === undefined) return
    connections.send(connection, { type: 'lease-ack', leases: [this.#acknowledgementOf(lease, worker)] })
  }

  #acknowledgementOf(lease: LeaseContext, worker: EnrolledWorker) {
    const { timers, clock } = this.#context
    const remainingMs = Math.max(
      0,
      Math.floor(leaseDeadline(worker.lastFrameAt, lease.termMs) - timers.now()),
    )
    return {
      leaseId: lease.id,
      seq: this.#frameReceiver.acknowledge(lease.id),
      expiresAt: new Date(clock.now() + remainingMs).toISOString(),
      remainingMs,
    }
  }
}
