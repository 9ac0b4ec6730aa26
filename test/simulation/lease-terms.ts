/**
 * How long each lease may be executed by its worker, counted from what crossed the wires and in true time.
 *
 * The promise of an acknowledgement counts from when the heartbeat that it echoes was sent; one that echoes nothing,
 * from when this connection's `register` was; a dispatch from its arrival. Of it a worker uses nine tenths, on a clock
 * that may be a little fast or slow.
 */
import type { HostFrame, WorkerFrame } from '../../protocol/frames.ts'
import type { Wire } from './network.ts'

const OWN_SHARE = 0.9

interface Said {
  registeredAt: number
  /** By the stamp that is echoed. */
  readonly beats: Map<number, number>
}

export class Terms {
  readonly #said = new WeakMap<Wire, Said>()
  readonly #until = new Map<string, number>()

  /** @param now true time */
  sent(wire: Wire, frame: WorkerFrame, now: number): void {
    if (frame.type === 'register') this.#said.set(wire, { registeredAt: now, beats: new Map() })
    if (frame.type !== 'heartbeat') return
    const beats = this.#said.get(wire)?.beats
    if (beats?.has(frame.sentAt) === false) beats.set(frame.sentAt, now)
  }

  /** @param rate of the worker's clock */
  heard(wire: Wire, frame: HostFrame, now: number, rate: number): void {
    if (frame.type === 'dispatch' && !this.#until.has(frame.lease.id))
      this.#until.set(frame.lease.id, now + (frame.lease.remainingMs * OWN_SHARE) / rate)
    if (frame.type !== 'lease-ack') return
    const said = this.#said.get(wire)
    if (said === undefined) return
    const since = (frame.echo === undefined ? undefined : said.beats.get(frame.echo)) ?? said.registeredAt
    for (const { leaseId, remainingMs } of frame.leases) {
      const until = since + (remainingMs * OWN_SHARE) / rate
      this.#until.set(leaseId, Math.max(until, this.until(leaseId)))
    }
  }

  until(leaseId: string): number {
    return this.#until.get(leaseId) ?? 0
  }
}
