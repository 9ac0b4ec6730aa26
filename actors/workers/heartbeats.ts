/**
 * Heartbeats answers the heartbeats of workers and acknowledges how far each of their leases is on disk.
 *
 * Answers use only what is already on disk and wait for no commit, so heartbeats continue when the disk is full.
 */
import { leaseDeadline } from '../../core/lease/deadline.ts'
import type { Clock } from '../../core/ports.ts'
import type { WorkerFrameOf } from '../../protocol/frames.ts'
import type { FrameReceiver } from '../leases/frame-receiver.ts'
import type { LeaseContext } from '../leases/lease.machine.ts'
import type { ActorSystem } from '../runtime/actor-system.ts'
import type { MonotonicTimers } from '../runtime/monotonic-timers.ts'
import type { LeaseReconciliation } from './lease-reconciliation.ts'
import type { WorkerEvent } from './worker.machine.ts'
import { WORKER } from './worker.names.ts'
import type { WorkerConnection, WorkerConnections } from './worker-connections.ts'
import type { EnrolledWorker, WorkerRegistry } from './worker-registry.ts'

export interface HeartbeatsPorts {
  readonly clock: Clock
  /** The current wall clock time as an ISO 8601 timestamp. */
  readonly instant: () => string
  readonly system: ActorSystem
  readonly workers: WorkerRegistry
  readonly frameReceiver: FrameReceiver
  readonly timers: MonotonicTimers
  readonly connections: WorkerConnections
  readonly reconciliation: LeaseReconciliation
  /** Something changed that may let a run be placed. */
  readonly requestScheduling: () => void
  /** Capabilities of a worker changed. */
  readonly onWorkersChanged: () => void
}

export class Heartbeats {
  readonly #ports: HeartbeatsPorts

  constructor(ports: HeartbeatsPorts) {
    this.#ports = ports
  }

  onHeartbeat(connection: WorkerConnection, worker: EnrolledWorker, frame: WorkerFrameOf<'heartbeat'>): void {
    const { clock, system, reconciliation, connections } = this.#ports
    worker.lastSeenAt = clock.now()
    worker.attachSessions = frame.attachSessions
    const { capabilities } = frame
    if (capabilities !== undefined && !isEqual(capabilities, worker.context.capabilities)) {
      const seen: WorkerEvent = { type: 'seen', at: this.#ports.instant(), capabilities }
      system.send(WORKER, worker.id, seen)
      this.#ports.onWorkersChanged()
      this.#ports.requestScheduling()
    }
    if (!worker.context.proven) {
      const proven: WorkerEvent = { type: 'proven' }
      system.send(WORKER, worker.id, proven)
    }
    reconciliation.reconcile(connection, worker, frame.leases)
    connections.send(connection, { type: 'heartbeat-ack', state: worker.state, echo: frame.sentAt })
    this.acknowledgeAll(connection, worker, frame.sentAt)
  }

  /** Sends the watermark and the remaining time of each of the worker's accepted leases. */
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

  /** Acknowledges one lease before the next heartbeat, because enough new frames of it are on disk. */
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

const isEqual = (a: object, b: object | null): boolean => JSON.stringify(a) === JSON.stringify(b)
