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
import type { Connection, Lines } from './worker-connections.ts'
import type { Member } from './worker-registry.ts'

export interface ClaimPorts {
  /** The wall clock, as records write it down. */
  readonly instant: () => string
  readonly system: ActorSystem
  readonly ended: EndedLeases
  readonly lines: Lines
}

const TOLD_MAX = 4_096

export class Claims {
  readonly #ports: ClaimPorts

  constructor(ports: ClaimPorts) {
    this.#ports = ports
  }

  /** All that it says it has, against all that it has. */
  compare(connection: Connection, member: Member, claims: readonly RunLease[]): void {
    const claimed = new Set<string>()
    for (const { id } of claims) {
      if (claimed.has(id)) continue
      claimed.add(id)
      if (member.leases.has(id)) this.#tell(id, { type: 'worker claims', at: this.#ports.instant() })
      else this.late(connection, id, 'claim')
    }
    for (const id of [...member.leases])
      if (!claimed.has(id)) this.#tell(id, { type: 'worker denies', at: this.#ports.instant() })
  }

  /** What it says of one lease. */
  answered(connection: Connection, member: Member, leaseId: string, event: LeaseEvent): void {
    if (member.leases.has(leaseId)) this.#tell(leaseId, event)
    else this.late(connection, leaseId, event.type)
  }

  /** It came too late, or of a lease that is not its own. */
  late(connection: Connection, leaseId: string, what: string): void {
    const how = this.#ports.ended.how(leaseId)
    if (how === 'landing') return
    if (how === 'completed' && (what === 'run-complete' || what === 'claim')) {
      this.#ports.lines.send(connection, { type: 'run-complete-ack', leaseId })
      return
    }
    connection.told ??= new Set()
    if (connection.told.has(leaseId)) return
    if (connection.told.size >= TOLD_MAX) connection.told.clear()
    connection.told.add(leaseId)
    this.#ports.lines.send(connection, {
      type: 'lease-lost',
      leaseId,
      reason: how === undefined ? 'this lease is not known here' : `this lease has ended: ${how}`,
    })
  }

  #tell(leaseId: string, event: LeaseEvent): void {
    this.#ports.system.send(LEASE, leaseId, event)
  }
}
