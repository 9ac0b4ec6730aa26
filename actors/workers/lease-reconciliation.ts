/**
 * Which leases a worker may speak of: what it says it has, brought together with what it has.
 *
 * A lease that is its own hears of it; any other is over, or never was. Then the worker is told so, once on each line,
 * except where the end is on its way to the disk: what follows from that is said when it has arrived.
 */
import type { RunLease } from '../../protocol/frames.ts'
import type { EndedLeases } from '../leases/ended-leases.ts'
import type { LeaseEvent } from '../leases/lease.machine.ts'
import { LEASE } from '../leases/lease.names.ts'
import type { ActorSystem } from '../runtime/actor-system.ts'
import type { WorkerConnection, WorkerConnections } from './worker-connections.ts'
import type { EnrolledWorker } from './worker-registry.ts'

export interface LeaseReconciliationPorts {
  /** The wall clock, as records write it down. */
  readonly instant: () => string
  readonly system: ActorSystem
  readonly ended: EndedLeases
  readonly connections: WorkerConnections
}

const REPORTED_LOST_MAX = 4_096

export class LeaseReconciliation {
  readonly #ports: LeaseReconciliationPorts

  constructor(ports: LeaseReconciliationPorts) {
    this.#ports = ports
  }

  /** All that it says it has, against all that it has. */
  reconcile(connection: WorkerConnection, worker: EnrolledWorker, claims: readonly RunLease[]): void {
    const claimed = new Set<string>()
    for (const { id } of claims) {
      if (claimed.has(id)) continue
      claimed.add(id)
      if (worker.leases.has(id))
        this.#sendEvent(id, { type: 'worker claimed lease', at: this.#ports.instant() })
      else this.refuseStale(connection, id, 'claim')
    }
    for (const id of [...worker.leases])
      if (!claimed.has(id)) this.#sendEvent(id, { type: 'worker denied lease', at: this.#ports.instant() })
  }

  /** What it says of one lease. */
  sendLeaseEvent(
    connection: WorkerConnection,
    worker: EnrolledWorker,
    leaseId: string,
    event: LeaseEvent,
  ): void {
    if (worker.leases.has(leaseId)) this.#sendEvent(leaseId, event)
    else this.refuseStale(connection, leaseId, event.type)
  }

  /** It came too late, or of a lease that is not its own. */
  refuseStale(connection: WorkerConnection, leaseId: string, frameType: string): void {
    const howItEnded = this.#ports.ended.endOf(leaseId)
    if (howItEnded === 'uncommitted') return
    if (howItEnded === 'completed' && (frameType === 'run-complete' || frameType === 'claim')) {
      this.#ports.connections.send(connection, { type: 'run-complete-ack', leaseId })
      return
    }
    connection.reportedLost ??= new Set()
    if (connection.reportedLost.has(leaseId)) return
    if (connection.reportedLost.size >= REPORTED_LOST_MAX) connection.reportedLost.clear()
    connection.reportedLost.add(leaseId)
    this.#ports.connections.send(connection, {
      type: 'lease-lost',
      leaseId,
      reason:
        howItEnded === undefined ? 'this lease is not known here' : `this lease has ended: ${howItEnded}`,
    })
  }

  #sendEvent(leaseId: string, event: LeaseEvent): void {
    this.#ports.system.send(LEASE, leaseId, event)
  }
}
