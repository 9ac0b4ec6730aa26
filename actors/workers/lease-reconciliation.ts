/**
 * LeaseReconciliation compares the leases a worker claims with the leases it holds, and refuses frames of other leases.
 *
 * A live lease of the worker receives an event for each claim or answer. A frame of a completed lease is answered with
 * `run-complete-ack`, and for any other lease the worker receives `lease-lost` once per connection. While the end of a
 * lease is being committed, no answer is sent: it follows the commit.
 */
import type { RunLease } from '../../protocol/frames.ts'
import type { HostContext } from '../host-context.ts'
import type { EndedLeases } from '../leases/ended-leases.ts'
import type { LeaseEvent } from '../leases/lease.machine.ts'
import { LEASE } from '../leases/lease.names.ts'
import type { EnrolledWorker } from './enrolled-worker.ts'
import type { WorkerConnection, WorkerConnections } from './worker-connections.ts'

const REPORTED_LOST_MAX = 4_096

export class LeaseReconciliation {
  readonly #context: HostContext
  readonly #connections: WorkerConnections
  readonly #ended: EndedLeases

  constructor(context: HostContext, connections: WorkerConnections, ended: EndedLeases) {
    this.#context = context
    this.#connections = connections
    this.#ended = ended
  }

  /** Compares all leases that the worker claims with all that it holds. */
  reconcile(connection: WorkerConnection, worker: EnrolledWorker, claims: readonly RunLease[]): void {
    const claimed = new Set<string>()
    for (const { id } of claims) {
      if (claimed.has(id)) continue
      claimed.add(id)
      if (worker.leases.has(id))
        this.#sendEvent(id, {
          type: 'worker claimed lease',
          at: this.#context.instant(),
          workerName: worker.name,
        })
      else this.answerStale(connection, id)
    }
    for (const id of [...worker.leases])
      if (!claimed.has(id)) this.#sendEvent(id, { type: 'worker denied lease', at: this.#context.instant() })
  }

  /** Passes the worker's answer to its lease, or refuses it when the lease is not its own. */
  sendLeaseEvent(
    connection: WorkerConnection,
    worker: EnrolledWorker,
    leaseId: string,
    event: LeaseEvent,
  ): void {
    if (worker.leases.has(leaseId)) this.#sendEvent(leaseId, event)
    else this.answerStale(connection, leaseId)
  }

  /** Answers a frame for a lease that has ended or belongs to another worker. */
  answerStale(connection: WorkerConnection, leaseId: string): void {
    const howItEnded = this.#ended.endOf(leaseId)
    if (howItEnded === 'uncommitted') return
    if (howItEnded === 'completed') {
      this.#connections.send(connection, { type: 'run-complete-ack', leaseId })
      return
    }
    connection.reportedLost ??= new Set()
    if (connection.reportedLost.has(leaseId)) return
    if (connection.reportedLost.size >= REPORTED_LOST_MAX) connection.reportedLost.clear()
    connection.reportedLost.add(leaseId)
    this.#connections.send(connection, {
      type: 'lease-lost',
      leaseId,
      reason:
        howItEnded === undefined
          ? 'the host does not know this lease'
          : `this lease has ended: ${howItEnded}`,
    })
  }

  #sendEvent(leaseId: string, event: LeaseEvent): void {
    this.#context.system.send(LEASE, leaseId, event)
  }
}
