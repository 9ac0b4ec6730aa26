/**
 * Heartbeats and acknowledgements: a worker says what it has, the host how far each lease is on disk and how much
 * longer it lives.
 *
 * All of it is answered at once from what is on disk already, so that a full disk stops no heart.
 */
import { leaseDeadline } from '../../core/lease/deadline.ts'
import type { Clock } from '../../core/ports.ts'
import type { WorkerFrameOf } from '../../protocol/frames.ts'
import type { Book } from '../leases/frame-receiver.ts'
import type { LeaseContext } from '../leases/lease.machine.ts'
import type { ActorSystem } from '../runtime/actor-system.ts'
import type { MonotonicTimers } from '../runtime/monotonic-timers.ts'
import { WORKER } from './fleet.names.ts'
import type { Claims } from './lease-reconciliation.ts'
import type { WorkerEvent } from './worker.machine.ts'
import type { Connection, Lines } from './worker-connections.ts'
import type { Fleet, Member } from './worker-registry.ts'

export interface HeartbeatPorts {
  readonly clock: Clock
  /** The wall clock, as records write it down. */
  readonly instant: () => string
  readonly system: ActorSystem
  readonly fleet: Fleet
  readonly book: Book
  readonly timers: MonotonicTimers
  readonly lines: Lines
  readonly claims: Claims
  /** Something that may let a run be placed. */
  readonly look: () => void
  /** Capabilities: what people see of workers. */
  readonly changed: () => void
}

export class Heartbeats {
  readonly #ports: HeartbeatPorts

  constructor(ports: HeartbeatPorts) {
    this.#ports = ports
  }

  beat(connection: Connection, member: Member, frame: WorkerFrameOf<'heartbeat'>): void {
    const { clock, system, claims, lines } = this.#ports
    member.lastSeenAt = clock.now()
    member.attachSessions = frame.attachSessions
    const { capabilities } = frame
    if (capabilities !== undefined && !same(capabilities, member.context.capabilities)) {
      const seen: WorkerEvent = { type: 'seen', at: this.#ports.instant(), capabilities }
      system.send(WORKER, member.id, seen)
      this.#ports.changed()
      this.#ports.look()
    }
    if (!member.context.proven) {
      const proven: WorkerEvent = { type: 'proven' }
      system.send(WORKER, member.id, proven)
    }
    claims.compare(connection, member, frame.leases)
    lines.send(connection, { type: 'heartbeat-ack', state: member.state, echo: frame.sentAt })
    this.acknowledge(connection, member, frame.sentAt)
  }

  /** Each of its leases with what is on disk of it, and how much longer it lives. */
  acknowledge(connection: Connection, member: Member, echo: number | undefined): void {
    const leases = []
    for (const id of member.leases) {
      const lease = this.#ports.fleet.lease(id)
      if (lease !== undefined && this.#ports.book.isAccepted(id)) leases.push(this.#standing(lease, member))
    }
    this.#ports.lines.send(connection, {
      type: 'lease-ack',
      leases,
      ...(echo === undefined ? {} : { echo }),
    })
  }

  /** Enough of one lease is on disk to say so before the next heartbeat. */
  acknowledgeProgress(workerId: string, leaseId: string): void {
    const { fleet, lines } = this.#ports
    const member = fleet.member(workerId)
    const lease = fleet.lease(leaseId)
    const connection = lines.of(member)
    if (member === undefined || lease === undefined || connection === undefined) return
    lines.send(connection, { type: 'lease-ack', leases: [this.#standing(lease, member)] })
  }

  #standing(lease: LeaseContext, member: Member) {
    const { timers, clock, book } = this.#ports
    const remainingMs = Math.max(0, Math.floor(leaseDeadline(member.heardAt, lease.termMs) - timers.now()))
    return {
      leaseId: lease.id,
      seq: book.acknowledge(lease.id),
      expiresAt: new Date(clock.now() + remainingMs).toISOString(),
      remainingMs,
    }
  }
}

const same = (a: object, b: object | null): boolean => JSON.stringify(a) === JSON.stringify(b)
