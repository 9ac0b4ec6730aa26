/**
 * LeaseAcknowledgements sends a worker, for each of its leases, how far frames are on disk and how much longer the
 * lease lives. Only values on disk are sent, so a full disk delays no heartbeat.
 */
import { leaseDeadline } from '../../core/lease/deadline.ts'
import type { HostContext } from '../host-context.ts'
import type { EnrolledWorker } from '../workers/enrolled-worker.ts'
import type { WorkerConnection, WorkerConnections } from '../workers/worker-connections.ts'
import type { WorkerRegistry } from '../workers/worker-registry.ts'
import type { FrameReceiver } from './frame-receiver.ts'
import type { LeaseContext } from './lease.machine.ts'

export interface LeaseAcknowledgementsPorts extends Pick<HostContext, 'clock' | 'timers'> {
  readonly workers: WorkerRegistry
  readonly connections: WorkerConnections
  readonly frameReceiver: FrameReceiver
}

export class LeaseAcknowledgements {
  readonly #ports: LeaseAcknowledgementsPorts

  constructor(ports: LeaseAcknowledgementsPorts) {
    this.#ports = ports
  }

  /** Acknowledges every accepted lease whose watermark is readable. `echo`: the instant of the heartbeat that is answered. */
  acknowledgeAll(connection: WorkerConnection, worker: EnrolledWorker, echo: number | undefined): void {
    const leases = []
    for (const id of worker.leases) {
      const lease = this.#ports.workers.lease(id)
      if (lease !== undefined && this.#ports.frameReceiver.mayAcknowledge(id))
        leases.push(this.#acknowledgementOf(lease, worker))
    }
    this.#ports.connections.send(connection, {
      type: 'lease-ack',
      leases,
      ...(echo === undefined ? {} : { echo }),
    })
  }

  /** Acknowledges one lease before the next heartbeat, because enough of its frames are on disk. */
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
