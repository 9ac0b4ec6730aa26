/**
 * The worker channel, as the host hears it: from text to what it means, and to whom it matters.
 *
 * A thin shell around the lives. It reads a frame, finds out whose it is, and hands reports to the book and all else
 * to where it is meant. Only the current line of a worker is listened to; a line that is being closed is deaf.
 */
import type { Log, Meters, UsageArchive } from '../../core/ports.ts'
import { type Result, yes } from '../../core/result.ts'
import { readAttachData } from '../../protocol/attach-text.ts'
import { readWorkerFrame, type WorkerFrame, type WorkerFrameOf } from '../../protocol/frames.ts'
import { WORKER_FRAME_BYTES_MAX, WORKER_UNREGISTERED_FRAME_BYTES_MAX } from '../../protocol/limits.ts'
import type { WorkerLine, WorkerLink } from '../api/host-api.ts'
import type { Book } from '../leases/frame-receiver.ts'
import { Counter } from '../runtime/counter.ts'
import type { MonotonicTimers } from '../runtime/monotonic-timers.ts'
import type { SessionCosts } from '../terminals/session-costs.ts'
import type { AttachRoom } from '../terminals/terminal-sessions.ts'
import type { Holds } from './dispatch-backoff.ts'
import type { Heartbeats } from './heartbeats.ts'
import type { Claims } from './lease-reconciliation.ts'
import { LooseUsage } from './unleased-usage.ts'
import type { Connection, Lines } from './worker-connections.ts'
import type { Introductions } from './worker-registration.ts'
import type { Fleet, Member } from './worker-registry.ts'

export interface ChannelPorts {
  /** The wall clock, as records write it down. */
  readonly instant: () => string
  readonly log: Log
  readonly fleet: Fleet
  readonly book: Book
  readonly timers: MonotonicTimers
  readonly lines: Lines
  readonly introductions: Introductions
  readonly heartbeats: Heartbeats
  readonly claims: Claims
  readonly holds: Holds
  readonly usage: UsageArchive
  readonly attach: AttachRoom
  readonly sessionCosts: SessionCosts
}

export class Channel {
  readonly #ports: ChannelPorts
  readonly #loose: LooseUsage
  readonly #frames = new Counter('frames_total', 'type')

  constructor(ports: ChannelPorts) {
    this.#ports = ports
    this.#loose = new LooseUsage(ports)
  }

  measure(meters: Meters): void {
    this.#frames.report(meters)
  }

  connect(link: WorkerLink): Result<WorkerLine> {
    const connected = this.#ports.lines.connect(link)
    return connected.ok ? yes(new ChannelLine(this, connected.value)) : connected
  }

  closed(connection: Connection): void {
    this.#ports.lines.closed(connection)
  }

  frameBytesMax(connection: Connection): number {
    return connection.workerId === undefined ? WORKER_UNREGISTERED_FRAME_BYTES_MAX : WORKER_FRAME_BYTES_MAX
  }

  hear(connection: Connection, text: string): void {
    if (connection.deaf) return
    if (text.length > this.frameBytesMax(connection)) {
      this.#ports.lines.refuse(
        connection,
        'malformed',
        `a frame has at most ${this.frameBytesMax(connection)} bytes`,
      )
      return
    }
    connection.heardAt = this.#ports.timers.now()
    if (connection.workerId === undefined) this.#ports.introductions.introduce(connection, text)
    else this.#frame(connection, connection.workerId, text)
  }

  unreadable(connection: Connection, reason: string): void {
    if (!connection.deaf) this.#ports.lines.refuse(connection, 'malformed', reason)
  }

  #frame(connection: Connection, workerId: string, text: string): void {
    const { fleet } = this.#ports
    const member = fleet.member(workerId)
    if (member === undefined || member.line?.connection !== connection.number) return
    member.heardAt = connection.heardAt
    const shown = readAttachData(text)
    if (shown !== undefined) {
      this.#frames.add('attach-data')
      this.#ports.attach.printed(member.id, shown)
      return
    }
    const read = readWorkerFrame(text, true)
    if (!read.ok) {
      this.#frames.add('malformed')
      this.#ports.lines.refuse(connection, 'malformed', read.error)
      return
    }
    this.#frames.add(read.value.type)
    this.#mean(connection, member, read.value, text.length)
  }

  #mean(connection: Connection, member: Member, frame: WorkerFrame, bytes: number): void {
    switch (frame.type) {
      case 'run-event':
      case 'run-patch':
      case 'run-artifact':
      case 'run-memories':
      case 'run-complete':
      case 'lease-gap':
        if (!this.#ports.book.receive(member.id, frame, bytes))
          this.#ports.claims.late(connection, frame.leaseId, frame.type)
        return
      case 'run-usage-snapshot':
        this.#usage(connection, member, frame, bytes)
        return
      case 'heartbeat':
        this.#ports.heartbeats.beat(connection, member, frame)
        return
      case 'dispatch-accepted':
        this.#accepted(connection, member, frame.leaseId)
        return
      case 'dispatch-rejected':
        this.#rejected(connection, member, frame)
        return
      case 'sandbox-ready':
      case 'sandbox-failed':
      case 'attach-data':
      case 'attach-exit':
      case 'attach-error':
      case 'attach-taken':
        this.#ports.attach.heard(member.id, frame)
        return
      case 'register':
      // Refused while reading: this line is registered already.
    }
  }

  #accepted(connection: Connection, member: Member, leaseId: string): void {
    const at = this.#ports.instant()
    this.#ports.claims.answered(connection, member, leaseId, { type: 'accepted', at })
  }

  #rejected(connection: Connection, member: Member, frame: WorkerFrameOf<'dispatch-rejected'>): void {
    const had = member.leases.has(frame.leaseId)
    this.#ports.claims.answered(connection, member, frame.leaseId, {
      type: 'rejected',
      at: this.#ports.instant(),
      reason: frame.reason,
    })
    // One that was accepted stays, and is no reason to leave the worker alone.
    if (had && !member.leases.has(frame.leaseId)) this.#ports.holds.refused(member, frame.reason)
  }

  // ---- usage -------------------------------------------------------------------------------------------------------

  #usage(
    connection: Connection,
    member: Member,
    frame: WorkerFrameOf<'run-usage-snapshot'>,
    bytes: number,
  ): void {
    const { leaseId, seq } = frame
    if (leaseId !== undefined && seq !== undefined) {
      if (!this.#ports.book.receive(member.id, { ...frame, leaseId, seq }, bytes))
        this.#ports.claims.late(connection, leaseId, frame.type)
      return
    }
    this.#loose.came(member.id, frame.snapshot)
  }
}

/** What the door holds of a connection. */
class ChannelLine implements WorkerLine {
  readonly #channel: Channel
  readonly #connection: Connection

  constructor(channel: Channel, connection: Connection) {
    this.#channel = channel
    this.#connection = connection
  }

  receive(text: string): void {
    this.#channel.hear(this.#connection, text)
  }

  unreadable(reason: string): void {
    this.#channel.unreadable(this.#connection, reason)
  }

  closed(): void {
    this.#channel.closed(this.#connection)
  }

  frameBytesMax(): number {
    return this.#channel.frameBytesMax(this.#connection)
  }
}
