/**
 * LeaseTerms computes in true time how long each worker may execute a lease, from the frames alone.
 *
 * An acknowledgement counts from when the echoed heartbeat was sent, or from `register` when it echoes none. A
 * dispatch counts from its arrival. A worker uses nine tenths of the promise, on a clock that may be slightly fast
 * or slow.
 */
import type { HostFrame, WorkerFrame } from '../../protocol/frames.ts'
import type { SimConnection } from './sim-connection.ts'

const OWN_SHARE = 0.9

interface SentFrames {
  registeredAt: number
  /** When each heartbeat was sent, by the `sentAt` that the host echoes. */
  readonly heartbeatsAt: Map<number, number>
}

export class LeaseTerms {
  readonly #sentOn = new WeakMap<SimConnection, SentFrames>()
  readonly #endsAt = new Map<string, number>()

  /** @param now true time */
  onWorkerSends(connection: SimConnection, frame: WorkerFrame, now: number): void {
    if (frame.type === 'register')
      this.#sentOn.set(connection, { registeredAt: now, heartbeatsAt: new Map() })
    if (frame.type !== 'heartbeat') return
    const heartbeatsAt = this.#sentOn.get(connection)?.heartbeatsAt
    if (heartbeatsAt?.has(frame.sentAt) === false) heartbeatsAt.set(frame.sentAt, now)
  }

  /** @param rate of the worker's clock */
  onWorkerReceives(connection: SimConnection, frame: HostFrame, now: number, rate: number): void {
    if (frame.type === 'dispatch' && !this.#endsAt.has(frame.lease.id))
      this.#endsAt.set(frame.lease.id, now + (frame.lease.remainingMs * OWN_SHARE) / rate)
    if (frame.type !== 'lease-ack') return
    const frames = this.#sentOn.get(connection)
    if (frames === undefined) return
    const since =
      (frame.echo === undefined ? undefined : frames.heartbeatsAt.get(frame.echo)) ?? frames.registeredAt
    for (const { leaseId, remainingMs } of frame.leases) {
      const until = since + (remainingMs * OWN_SHARE) / rate
      this.#endsAt.set(leaseId, Math.max(until, this.endOf(leaseId)))
    }
  }

  endOf(leaseId: string): number {
    return this.#endsAt.get(leaseId) ?? 0
  }
}
