/**
 * Lease acknowledgements tell a worker, for each of its leases, how far frames are on disk and how much longer the lease
 * lives. They are built from what is already on disk, so a full disk delays no heartbeat.
 */
import { leaseDeadline } from '../../core/lease/deadline.ts'
import type { Clock } from '../../core/ports.ts'
import type { MonotonicTimers } from '../runtime/monotonic-timers.ts'
import type { WorkerConnection, WorkerConnections } from '../workers/worker-connections.ts'
import type { EnrolledWorker, WorkerRegistry } from '../workers/worker-registry.ts'
import type { FrameReceiver } from './frame-receiver.ts'
import type { LeaseContext } from './lease.machine.ts'

export interface LeaseAcknowledgementsPorts {
  readonly clock: Clock
  readonly timers: MonotonicTimers
  readonly workers: WorkerRegistry
  readonly connections: WorkerConnections
  readonly frameReceiver: FrameReceiver
}

export class LeaseAcknowledgements {
  readonly #ports: LeaseAcknowledgementsPorts

  constructor(ports: LeaseAcknowledgementsPorts) {
    this.#ports = ports
  }

  /** Each of its leases with what is on disk of it, and how much longer it lives. */
  acknowledgeAll(connection: WorkerConnection, worker: EnrolledWorker, echo: number | undefined): void {
    const leases = []
    for (const id of worker.leases) {
      const lease = this.#ports.workers.lease(id)
      if (lease !== undefined && this.#ports.frameReceiver.isAccepted(id))
        leases.push(this.#acknowledgementOf(lease, worker))
    }
    this.#ports.connections.send(connection, {
      type: 'lease-ack',
      leases,
      ...(echo === undefined ? {} : { echo }),
    })
  }

  /** Enough of one lease is on disk to say so before the next heartbeat. */
  acknowledgeLease(workerId: string, leaseId: string): void {
    const { workers, connections } = this.#ports
    const worker = workers.get(workerId)
    const lease = workers.lease(leaseId)
    const connection = connections.ofWorker(worker)
    if (worker === undefined || lease === undefined || connection === undefined) return
    connections.send(connection, { type: 'lease-ack', leases: [this.#acknowledgementOf(lease, worker)] })
  }

  #acknowledgementOf(lease: LeaseContext, worker: EnrolledWorker) {
    const { timers, clock, frameReceiver } = this.#ports
    const remainingMs = Math.max(
      0,
      Math.floor(leaseDeadline(worker.lastFrameAt, lease.termMs) - timers.now()),
    )
    return {
      leaseId: lease.id,
      seq: frameReceiver.acknowledge(lease.id),
      expiresAt: new Date(clock.now() + remainingMs).toISOString(),
      remainingMs,
    }
  }
}
