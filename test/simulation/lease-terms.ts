/**
 * How long each lease may be executed by its worker, counted from what crossed the wires and in true time.
 *
 * The promise of an acknowledgement counts from when the heartbeat that it echoes was sent; one that echoes nothing,
 * from when this connection's `register` was; a dispatch from its arrival. Of it a worker uses nine tenths, on a clock
 * that may be a little fast or slow.
 */
import type { HostFrame, WorkerFrame } from '../../protocol/frames.ts'
import type { SimWire } from './sim-wire.ts'

const OWN_SHARE = 0.9

interface SentFrames {
  registeredAt: number
  /** By the stamp that is echoed. */
  readonly heartbeatsAt: Map<number, number>
}

export class LeaseTerms {
  readonly #sentOn = new WeakMap<SimWire, SentFrames>()
  readonly #endsAt = new Map<string, number>()

  /** @param now true time */
  onWorkerSends(wire: SimWire, frame: WorkerFrame, now: number): void {
    if (frame.type === 'register') this.#sentOn.set(wire, { registeredAt: now, heartbeatsAt: new Map() })
    if (frame.type !== 'heartbeat') return
    const heartbeatsAt = this.#sentOn.get(wire)?.heartbeatsAt
    if (heartbeatsAt?.has(frame.sentAt) === false) heartbeatsAt.set(frame.sentAt, now)
  }

  /** @param rate of the worker's clock */
  onWorkerReceives(wire: SimWire, frame: HostFrame, now: number, rate: number): void {
    if (frame.type === 'dispatch' && !this.#endsAt.has(frame.lease.id))
      this.#endsAt.set(frame.lease.id, now + (frame.lease.remainingMs * OWN_SHARE) / rate)
    if (frame.type !== 'lease-ack') return
    const frames = this.#sentOn.get(wire)
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
