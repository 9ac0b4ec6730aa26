/**
 * The worker channel, as the host hears it: from text to what it means, and to whom it matters.
 *
 * A thin shell around the lives. It reads a frame, finds out whose it is, and hands reports to the book and all else
 * to where it is meant. Only the current line of a worker is listened to; a line that is being closed is deaf.
 */
import { isNativeError } from 'node:util/types'
import type { Log, Meters, UsageArchive, UsageKey } from '../../core/ports.ts'
import { type Answer, yes } from '../../core/refusal.ts'
import { usageToArchive } from '../../core/run/usage.ts'
import { readWorkerFrame, type WorkerFrame, type WorkerFrameOf } from '../../protocol/frames.ts'
import {
  LOOSE_USAGE_SNAPSHOTS_AT_ONCE,
  WORKER_FRAME_BYTES_MAX,
  WORKER_UNREGISTERED_FRAME_BYTES_MAX,
} from '../../protocol/limits.ts'
import { Counts } from '../kit/counts.ts'
import type { Book } from '../lease/book.ts'
import type { WorkerLine, WorkerLink } from '../root/front-desk.ts'
import type { Alarms } from './alarms.ts'
import type { Claims } from './claims.ts'
import type { Fleet, Member } from './fleet.ts'
import type { Heartbeats } from './heartbeats.ts'
import type { Holds } from './holds.ts'
import type { Introductions } from './introductions.ts'
import type { Connection, Lines } from './lines.ts'

export interface ChannelPorts {
  /** The wall clock, as records write it down. */
  readonly instant: () => string
  readonly log: Log
  readonly fleet: Fleet
  readonly book: Book
  readonly alarms: Alarms
  readonly lines: Lines
  readonly introductions: Introductions
  readonly heartbeats: Heartbeats
  readonly claims: Claims
  readonly holds: Holds
  readonly usage: UsageArchive
}

export class Channel {
  readonly #ports: ChannelPorts
  /** Usage snapshots outside any lease that are being put on disk. */
  #filing = 0
  readonly #frames = new Counts('frames_total', 'type')

  constructor(ports: ChannelPorts) {
    this.#ports = ports
  }

  measure(meters: Meters): void {
    this.#frames.tell(meters)
  }

  connect(link: WorkerLink): Answer<WorkerLine> {
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
    connection.heardAt = this.#ports.alarms.now()
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
      default:
        // Terminals and booted sandboxes: nobody has asked for one yet.
        this.#ports.log.debug({ worker: member.id, frame: frame.type }, 'a frame that nobody waits for')
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
    // At the end of a terminal session, without a lease: best effort.
    const usable = usageToArchive(frame.snapshot)
    if (!usable.ok) this.#usageNotKept(member, usable.refusal.message)
    else if (this.#filing >= LOOSE_USAGE_SNAPSHOTS_AT_ONCE) this.#usageNotKept(member, 'too many at once')
    else void this.#file(member, usable.value)
  }

  async #file(member: Member, { key, text }: { key: UsageKey; text: string }): Promise<void> {
    this.#filing += 1
    try {
      await this.#ports.usage.replace(key, text)
    } catch (error) {
      this.#usageNotKept(member, isNativeError(error) ? error.message : String(error))
    } finally {
      this.#filing -= 1
    }
  }

  #usageNotKept(member: Member, reason: string): void {
    this.#ports.log.warn({ worker: member.id, reason }, 'a usage snapshot was not kept')
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
