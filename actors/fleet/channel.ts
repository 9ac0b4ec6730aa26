/**
 * The worker channel, as the host hears and speaks it: from text to what it means, and back.
 *
 * A thin shell around the lives. It reads a frame, finds out whose it is, and hands reports to the book and all else
 * to lives and scheduler. Only the current line of a worker is listened to; a line that is being closed is deaf. What
 * can be answered from what is on disk (heartbeats, acknowledgements, late frames) is answered at once, so that a full
 * disk stops no heart.
 */
import { isNativeError } from 'node:util/types'
import { admitRegister } from '../../core/fleet/admission.ts'
import { workerNameOr } from '../../core/fleet/naming.ts'
import { holdAfter, holdEndsAt, rejectionOf, stillCounting } from '../../core/fleet/rejection.ts'
import { hashOf, newCredential, newWorkerId, sameHash } from '../../core/fleet/token.ts'
import { livesUntil, type Patience, timeoutMs } from '../../core/lease/deadline.ts'
import type { Chance, Clock, Log, Meters, UsageArchive, UsageKey } from '../../core/ports.ts'
import { type Answer, no, yes } from '../../core/refusal.ts'
import { usageToArchive } from '../../core/run/usage.ts'
import {
  type HostFrame,
  type RejectionCode,
  type RunLease,
  readRegister,
  readWorkerFrame,
  type WorkerFrame,
  type WorkerFrameOf,
} from '../../protocol/frames.ts'
import {
  LOOSE_USAGE_SNAPSHOTS_AT_ONCE,
  PROTOCOL_VERSION,
  WORKER_FIRST_FRAME_MS,
  WORKER_FRAME_BYTES_MAX,
  WORKER_HEARTBEAT_MS,
  WORKER_REFUSED_PAUSE_MS,
  WORKER_UNREGISTERED_FRAME_BYTES_MAX,
  WORKERS_MAX,
  WORKERS_UNREGISTERED_MAX,
} from '../../protocol/limits.ts'
import type { ActorHost } from '../kit/host.ts'
import type { Book } from '../lease/book.ts'
import type { EndedLeases } from '../lease/ended.ts'
import type { LeaseContext, LeaseEvent } from '../lease/lease.machine.ts'
import { LEASE } from '../lease/lease.names.ts'
import type { WorkerLine, WorkerLink } from '../root/front-desk.ts'
import type { Alarms } from './alarms.ts'
import type { ConnectionEffect, ConnectionEvent } from './connection.machine.ts'
import type { Enrollment } from './enrollment.ts'
import { CONNECTION, WORKER } from './fleet.names.ts'
import type { Fleet, Member } from './fleet.ts'
import type { WorkerEvent, WorkerInput } from './worker.machine.ts'

export type ChannelEffect =
  | ConnectionEffect
  /** An enrollment is on disk: its worker may be told. */
  | { readonly type: 'fleet.welcome'; readonly connection: number }
  | {
      readonly type: 'fleet.refuse'
      readonly connection: number
      readonly code: RejectionCode
      readonly reason: string
    }
  | { readonly type: 'fleet.part'; readonly connection: number; readonly reason: string }
  | { readonly type: 'fleet.tell state'; readonly workerId: string }

export interface ChannelPorts {
  readonly clock: Clock
  /** The wall clock, as records write it down. */
  readonly instant: () => string
  readonly chance: Chance
  readonly log: Log
  readonly meters: Meters
  readonly host: ActorHost
  readonly fleet: Fleet
  readonly book: Book
  readonly ended: EndedLeases
  readonly alarms: Alarms
  readonly enrollment: Enrollment
  readonly usage: UsageArchive
  readonly patience: () => Patience
  readonly version: string
  /** Something that may let a run be placed. */
  readonly look: () => void
  /** Capabilities, connections: what people see of workers. */
  readonly changed: () => void
  /** It is back: what it was to be told while it was away. */
  readonly returned: (workerId: string) => void
  readonly open: () => boolean
}

interface Connection {
  readonly number: number
  readonly link: WorkerLink
  workerId: string | undefined
  heardAt: number
  deaf: boolean
  /** Leases it was told are lost; once is enough on one line. */
  told: Set<string> | undefined
  /** Until its enrollment is on disk: the credential it is given then, and the leases it claims. */
  welcome: { readonly credential: string; readonly claims: readonly RunLease[] } | undefined
  /** Found to be nobody, and told so once that is on disk. */
  stranger: boolean
}

/** Of the right form, and nobody's. */
const NOBODYS_HASH = '0'.repeat(64)
const CLOSE_POLICY = 1008
const CLOSE_TRY_AGAIN = 1013
const TOLD_MAX = 4_096

export class Channel {
  readonly #ports: ChannelPorts
  readonly #connections = new Map<number, Connection>()
  #next = 1
  #unregistered = 0
  /** Usage snapshots outside any lease that are being put on disk. */
  #filing = 0

  constructor(ports: ChannelPorts) {
    this.#ports = ports
  }

  // ---- lines come and go -------------------------------------------------------------------------------------------

  connect(link: WorkerLink): Answer<WorkerLine> {
    if (!this.#ports.open()) return no('unavailable', 'the service is stopping')
    if (this.#unregistered >= WORKERS_UNREGISTERED_MAX)
      return no('unavailable', 'too many connections have not said who they are; try again later')
    const number = this.#next++
    const connection: Connection = {
      number,
      link,
      workerId: undefined,
      heardAt: this.#ports.alarms.now(),
      deaf: false,
      told: undefined,
      welcome: undefined,
      stranger: false,
    }
    this.#connections.set(number, connection)
    this.#unregistered += 1
    this.#ports.host.bear(CONNECTION, keyOf(number), { number })
    this.#ports.alarms.set(alarmOf(number), 'first frame', connection.heardAt + WORKER_FIRST_FRAME_MS)
    return yes(new ChannelLine(this, connection))
  }

  /** An alarm that was set here came due. */
  rang(key: string, name: string): void {
    const connection = this.#connections.get(Number(key.slice(ALARM.length)))
    if (connection === undefined) return
    if (name === 'first frame') {
      if (connection.stranger) {
        this.#hangUp(connection, 'who it is could not be made sure of in time')
        return
      }
      this.#ports.meters.count('worker_registrations_total', { outcome: 'late' })
      this.#refuse(connection, 'malformed', `no register within ${WORKER_FIRST_FRAME_MS / 1000} seconds`)
      return
    }
    const until = connection.heardAt + timeoutMs(this.#ports.patience())
    if (this.#ports.alarms.now() >= until) this.#tell(connection, { type: 'fell silent' })
    else this.#ports.alarms.set(key, 'silence', until)
  }

  /** The life of a line ended, for whatever reason. */
  over(number: number): void {
    const connection = this.#connections.get(number)
    if (connection === undefined || connection.deaf) return
    connection.deaf = true
    this.#ports.alarms.cancelAll(alarmOf(number))
    if (connection.workerId === undefined) this.#unregistered -= 1
  }

  /** The patience may be another now: whoever is connected is measured by the new one. */
  configured(): void {
    const timeout = timeoutMs(this.#ports.patience())
    for (const { number, workerId, deaf, heardAt } of this.#connections.values())
      if (workerId !== undefined && !deaf)
        this.#ports.alarms.set(alarmOf(number), 'silence', heardAt + timeout)
  }

  /** Nothing that this worker says counts any more; it is told once that is on disk. */
  revoked(workerId: string, reason: string): void {
    for (const connection of this.#connections.values()) {
      if (connection.workerId !== workerId || connection.deaf) continue
      connection.deaf = true
      this.#ports.alarms.cancelAll(alarmOf(connection.number))
      this.#ports.host.afterwards({
        type: 'fleet.part',
        connection: connection.number,
        reason,
      } as ChannelEffect)
    }
  }

  /** Nobody listens to this worker any more. It may come back: what is on disk of it is not lost. */
  sendAway(workerId: string, reason: string): void {
    for (const connection of this.#connections.values())
      if (connection.workerId === workerId && !connection.deaf) this.#hangUp(connection, reason)
  }

  closed(connection: Connection): void {
    this.over(connection.number)
    this.#connections.delete(connection.number)
    this.#tell(connection, { type: 'gone' })
  }

  get size(): number {
    return this.#connections.size
  }

  // ---- hearing -----------------------------------------------------------------------------------------------------

  frameBytesMax(connection: Connection): number {
    return connection.workerId === undefined ? WORKER_UNREGISTERED_FRAME_BYTES_MAX : WORKER_FRAME_BYTES_MAX
  }

  hear(connection: Connection, text: string): void {
    if (connection.deaf) return
    if (text.length > this.frameBytesMax(connection)) {
      this.#refuse(connection, 'malformed', `a frame has at most ${this.frameBytesMax(connection)} bytes`)
      return
    }
    connection.heardAt = this.#ports.alarms.now()
    if (connection.workerId === undefined) this.#introduce(connection, text)
    else this.#frame(connection, connection.workerId, text)
  }

  unreadable(connection: Connection, reason: string): void {
    if (!connection.deaf) this.#refuse(connection, 'malformed', reason)
  }

  #frame(connection: Connection, workerId: string, text: string): void {
    const { fleet, meters } = this.#ports
    const member = fleet.member(workerId)
    if (member === undefined || member.line?.connection !== connection.number) return
    member.heardAt = connection.heardAt
    const read = readWorkerFrame(text, true)
    if (!read.ok) {
      meters.count('frames_total', { type: 'malformed' })
      this.#refuse(connection, 'malformed', read.error)
      return
    }
    meters.count('frames_total', { type: read.value.type })
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
          this.#late(connection, frame.leaseId, frame.type)
        return
      case 'run-usage-snapshot':
        this.#usage(connection, member, frame, bytes)
        return
      case 'heartbeat':
        this.#beat(connection, member, frame)
        return
      case 'dispatch-accepted':
        this.#answered(connection, member, frame.leaseId, { type: 'accepted', at: this.#ports.instant() })
        return
      case 'dispatch-rejected':
        this.#rejected(connection, member, frame)
        return
      default:
        // Terminals and booted sandboxes: nobody has asked for one yet.
        this.#ports.log.debug({ worker: member.id, frame: frame.type }, 'a frame that nobody waits for')
    }
  }

  #usage(
    connection: Connection,
    member: Member,
    frame: WorkerFrameOf<'run-usage-snapshot'>,
    bytes: number,
  ): void {
    const { leaseId, seq } = frame
    if (leaseId !== undefined && seq !== undefined) {
      if (!this.#ports.book.receive(member.id, { ...frame, leaseId, seq }, bytes))
        this.#late(connection, leaseId, frame.type)
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

  // ---- who it is ---------------------------------------------------------------------------------------------------

  #introduce(connection: Connection, text: string): void {
    if (connection.stranger) return
    const read = readRegister(text)
    if (read.is !== 'register') {
      this.#count(read.is)
      this.#refuse(connection, read.is, read.reason)
      return
    }
    const { frame } = read
    if (frame.auth.kind === 'pairing') this.#enroll(connection, frame, frame.auth.token)
    else this.#recognise(connection, frame, frame.auth.workerId, frame.auth.secret)
  }

  #enroll(connection: Connection, frame: WorkerFrameOf<'register'>, token: string): void {
    const { host, fleet, chance, enrollment } = this.#ports
    if (fleet.size >= WORKERS_MAX) {
      this.#refuse(connection, 'protocol', `this host has ${WORKERS_MAX} workers already; revoke one`)
      return
    }
    const redeemed = enrollment.redeem(token)
    const verdict = admitRegister(redeemed)
    this.#count(verdict.ok ? 'enrolled' : verdict.code)
    if (!verdict.ok) {
      this.#refuse(connection, verdict.code, verdict.reason)
      return
    }
    const id = newWorkerId(chance.bytes(8))
    const credential = newCredential(chance.bytes(32))
    const input: WorkerInput = {
      id,
      name: workerNameOr(frame.name, id),
      hash: hashOf(credential),
      enrolledAt: this.#ports.instant(),
      local: verdict.local,
      capabilities: frame.capabilities,
    }
    if (!host.bear(WORKER, id, input).ok) {
      this.#hangUp(connection, 'the enrollment could not be recorded')
      return
    }
    connection.welcome = { credential, claims: frame.activeLeases }
    this.#ports.alarms.cancelAll(alarmOf(connection.number))
    this.#registered(connection, id)
    host.afterwards({ type: 'fleet.welcome', connection: connection.number } as ChannelEffect)
  }

  #recognise(
    connection: Connection,
    frame: WorkerFrameOf<'register'>,
    workerId: string,
    secret: string,
  ): void {
    const { host, fleet } = this.#ports
    // Somebody's record could not be read: nobody can say that it is not enrolled.
    if (host.isDamaged(WORKER, workerId)) {
      this.#hangUp(connection, 'the enrollment could not be read')
      return
    }
    const member = fleet.member(workerId)
    const proved = this.proves(member, secret)
    if (member === undefined || !proved) {
      this.#count('unauthorized')
      connection.stranger = true
      // The worker deletes its credential on this word, so it is said only of what is on disk.
      host.afterwards({
        type: 'fleet.refuse',
        connection: connection.number,
        code: 'unauthorized',
        reason: 'this worker is not enrolled here, or its credential is another',
      } as ChannelEffect)
      return
    }
    this.#count('ok')
    const seen: WorkerEvent = { type: 'seen', at: this.#ports.instant(), capabilities: frame.capabilities }
    host.tell(WORKER, workerId, seen)
    this.#registered(connection, workerId)
    this.#greet(connection, member, undefined)
    this.#settle(connection, member, frame.activeLeases)
  }

  /** Somebody unknown takes as long as somebody known. */
  proves(member: Member | undefined, secret: string): boolean {
    const hash = hashOf(secret)
    return sameHash(hash, member?.context.hash ?? NOBODYS_HASH) && member !== undefined
  }

  #registered(connection: Connection, workerId: string): void {
    const { alarms, fleet, host } = this.#ports
    const older = fleet.member(workerId)?.line
    if (older !== undefined) {
      const event: ConnectionEvent = { type: 'replaced' }
      host.tell(CONNECTION, keyOf(older.connection), event)
    }
    connection.workerId = workerId
    this.#unregistered -= 1
    alarms.cancelAll(alarmOf(connection.number))
    alarms.set(alarmOf(connection.number), 'silence', connection.heardAt + timeoutMs(this.#ports.patience()))
    this.#tell(connection, { type: 'registered', workerId, at: this.#ports.instant() })
    const member = fleet.member(workerId)
    if (member !== undefined) {
      member.heardAt = connection.heardAt
      member.lastSeenAt = this.#ports.clock.now()
    }
  }

  /** For the fleet's books: where a connection comes from. */
  addressOf(number: number): string {
    return this.#connections.get(number)?.link.address ?? ''
  }

  #greet(connection: Connection, member: Member, credential: string | undefined): void {
    this.#send(connection, {
      type: 'registered',
      protocolVersion: PROTOCOL_VERSION,
      heartbeatIntervalMs: WORKER_HEARTBEAT_MS,
      hostVersion: this.#ports.version,
      workerId: member.id,
      name: member.name,
      state: member.state,
      ...(credential === undefined ? {} : { credential }),
    })
  }

  /** What it claims and what it has, brought together; then how far each of its leases is on disk. */
  #settle(connection: Connection, member: Member, claims: readonly RunLease[]): void {
    this.#compare(connection, member, claims)
    this.#acknowledge(connection, member, undefined)
    this.#ports.returned(member.id)
    this.#ports.look()
    this.#ports.changed()
  }

  #compare(connection: Connection, member: Member, claims: readonly RunLease[]): void {
    const claimed = new Set<string>()
    for (const { id } of claims) {
      if (claimed.has(id)) continue
      claimed.add(id)
      if (member.leases.has(id)) this.#tellLease(id, { type: 'worker claims', at: this.#ports.instant() })
      else this.#late(connection, id, 'claim')
    }
    for (const id of [...member.leases])
      if (!claimed.has(id)) this.#tellLease(id, { type: 'worker denies', at: this.#ports.instant() })
  }

  // ---- heartbeats --------------------------------------------------------------------------------------------------

  #beat(connection: Connection, member: Member, frame: WorkerFrameOf<'heartbeat'>): void {
    const { clock, host } = this.#ports
    member.lastSeenAt = clock.now()
    member.attachSessions = frame.attachSessions
    const { capabilities } = frame
    if (capabilities !== undefined && !same(capabilities, member.context.capabilities)) {
      const seen: WorkerEvent = { type: 'seen', at: this.#ports.instant(), capabilities }
      host.tell(WORKER, member.id, seen)
      this.#ports.changed()
      this.#ports.look()
    }
    if (!member.context.proven) {
      const proven: WorkerEvent = { type: 'proven' }
      host.tell(WORKER, member.id, proven)
    }
    this.#compare(connection, member, frame.leases)
    this.#send(connection, { type: 'heartbeat-ack', state: member.state, echo: frame.sentAt })
    this.#acknowledge(connection, member, frame.sentAt)
  }

  /** Each of its leases with what is on disk of it, and how much longer it lives. */
  #acknowledge(connection: Connection, member: Member, echo: number | undefined): void {
    const leases = []
    for (const id of member.leases) {
      const lease = this.#ports.fleet.lease(id)
      if (lease !== undefined && this.#ports.book.isAccepted(id)) leases.push(this.#standing(lease, member))
    }
    this.#send(connection, { type: 'lease-ack', leases, ...(echo === undefined ? {} : { echo }) })
  }

  #standing(lease: LeaseContext, member: Member) {
    const { alarms, clock, book } = this.#ports
    const remainingMs = Math.max(0, Math.floor(livesUntil(member.heardAt, lease.termMs) - alarms.now()))
    return {
      leaseId: lease.id,
      seq: book.acknowledge(lease.id),
      expiresAt: new Date(clock.now() + remainingMs).toISOString(),
      remainingMs,
    }
  }

  /** Enough of one lease is on disk to say so before the next heartbeat. */
  acknowledgeProgress(workerId: string, leaseId: string): void {
    const member = this.#ports.fleet.member(workerId)
    const lease = this.#ports.fleet.lease(leaseId)
    const connection = this.#lineOf(member)
    if (member === undefined || lease === undefined || connection === undefined) return
    this.#send(connection, { type: 'lease-ack', leases: [this.#standing(lease, member)] })
  }

  // ---- answers to dispatches ---------------------------------------------------------------------------------------

  #answered(connection: Connection, member: Member, leaseId: string, event: LeaseEvent): void {
    if (member.leases.has(leaseId)) this.#tellLease(leaseId, event)
    else this.#late(connection, leaseId, event.type)
  }

  #rejected(connection: Connection, member: Member, frame: WorkerFrameOf<'dispatch-rejected'>): void {
    const had = member.leases.has(frame.leaseId)
    this.#answered(connection, member, frame.leaseId, {
      type: 'rejected',
      at: this.#ports.instant(),
      reason: frame.reason,
    })
    // One that was accepted stays, and is no reason to leave the worker alone.
    if (had && !member.leases.has(frame.leaseId)) this.refused(member, frame.reason)
  }

  /** It did not take a run: it is left alone for a while, and longer when its machine seems to be the reason. */
  refused(member: Member, reason: string): void {
    const { alarms, log } = this.#ports
    const now = alarms.now()
    const rejection = rejectionOf(reason)
    member.pausedUntil = now + WORKER_REFUSED_PAUSE_MS
    alarms.set(`worker ${member.id}`, 'pause', member.pausedUntil)
    const history = stillCounting([...member.refusals, { at: now, ...rejection }], now)
    member.refusals.splice(0, Number.POSITIVE_INFINITY, ...history)
    const hold = holdAfter(history, now)
    if (hold === undefined) return
    member.hold = hold
    alarms.set(`worker ${member.id}`, 'hold', holdEndsAt(history, now) ?? now)
    log.warn({ worker: member.id, reason: hold }, 'a worker is put on hold for dispatch')
  }

  /** Its pause or its hold is over. */
  rested(workerId: string, name: string): void {
    const member = this.#ports.fleet.member(workerId)
    if (member !== undefined && name === 'hold') delete member.hold
    this.#ports.look()
  }

  // ---- what comes too late -----------------------------------------------------------------------------------------

  #late(connection: Connection, leaseId: string, what: string): void {
    const how = this.#ports.ended.how(leaseId)
    if (how === 'landing') return
    if (how === 'completed' && (what === 'run-complete' || what === 'claim')) {
      this.#send(connection, { type: 'run-complete-ack', leaseId })
      return
    }
    connection.told ??= new Set()
    if (connection.told.has(leaseId)) return
    if (connection.told.size >= TOLD_MAX) connection.told.clear()
    connection.told.add(leaseId)
    this.#send(connection, {
      type: 'lease-lost',
      leaseId,
      reason: how === undefined ? 'this lease is not known here' : `this lease has ended: ${how}`,
    })
  }

  // ---- speaking ----------------------------------------------------------------------------------------------------

  do(effect: ChannelEffect): void {
    switch (effect.type) {
      case 'fleet.tell state':
        this.#tellState(effect.workerId)
        return
      case 'fleet.refuse': {
        const connection = this.#connections.get(effect.connection)
        if (connection !== undefined && !connection.deaf) this.#refuse(connection, effect.code, effect.reason)
        return
      }
      case 'fleet.welcome': {
        const connection = this.#connections.get(effect.connection)
        if (connection !== undefined) this.#welcome(connection)
        return
      }
      case 'fleet.part':
        this.#ports.host.tell(CONNECTION, keyOf(effect.connection), {
          type: 'revoked',
          reason: effect.reason,
        } as ConnectionEvent)
        return
      case 'fleet.reject':
        this.#last(
          effect.connection,
          { type: 'rejected', code: effect.code, reason: effect.reason },
          effect.reason,
        )
        return
      case 'fleet.say revoked':
        this.#last(effect.connection, { type: 'revoked', reason: effect.reason }, effect.reason)
        return
      case 'fleet.hang up':
        this.#connections.get(effect.connection)?.link.close(CLOSE_POLICY, effect.reason)
        return
    }
  }

  #welcome(connection: Connection): void {
    const { welcome, workerId } = connection
    const member = workerId === undefined ? undefined : this.#ports.fleet.member(workerId)
    connection.welcome = undefined
    if (welcome === undefined || member === undefined || connection.deaf) return
    this.#greet(connection, member, welcome.credential)
    this.#settle(connection, member, welcome.claims)
  }

  #tellState(workerId: string): void {
    const member = this.#ports.fleet.member(workerId)
    const connection = this.#lineOf(member)
    if (member !== undefined && connection !== undefined)
      this.#send(connection, { type: 'worker-state', state: member.state })
  }

  #last(number: number, frame: HostFrame, reason: string): void {
    const connection = this.#connections.get(number)
    if (connection === undefined) return
    connection.link.send(JSON.stringify(frame))
    connection.link.close(CLOSE_POLICY, reason)
  }

  /** To the worker's current line, if it has one. Answers whether it was taken. */
  sendTo(workerId: string, frame: HostFrame): boolean {
    const connection = this.#lineOf(this.#ports.fleet.member(workerId))
    return connection !== undefined && this.#send(connection, frame)
  }

  /** The same for a frame that is text already. */
  sendText(workerId: string, text: string): boolean {
    const connection = this.#lineOf(this.#ports.fleet.member(workerId))
    if (connection === undefined || connection.deaf || connection.welcome !== undefined) return false
    return connection.link.send(text)
  }

  #lineOf(member: Member | undefined): Connection | undefined {
    return member?.line === undefined ? undefined : this.#connections.get(member.line.connection)
  }

  #send(connection: Connection, frame: HostFrame): boolean {
    // Before the credential has left, nothing else may.
    if (connection.deaf || connection.welcome !== undefined) return false
    return connection.link.send(JSON.stringify(frame))
  }

  #refuse(connection: Connection, code: RejectionCode, reason: string): void {
    this.#tell(connection, { type: 'refused', code, reason })
  }

  #hangUp(connection: Connection, reason: string): void {
    this.#ports.log.warn({ reason }, 'a worker was sent away')
    this.over(connection.number)
    connection.link.close(CLOSE_TRY_AGAIN, reason)
  }

  #count(outcome: string): void {
    this.#ports.meters.count('worker_registrations_total', { outcome })
  }

  #tell(connection: Connection, event: ConnectionEvent): void {
    this.#ports.host.tell(CONNECTION, keyOf(connection.number), event)
  }

  #tellLease(leaseId: string, event: LeaseEvent): void {
    this.#ports.host.tell(LEASE, leaseId, event)
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

const ALARM = 'connection '
const alarmOf = (number: number): string => `${ALARM}${number}`
const keyOf = (number: number): string => `c${number}`
const same = (a: object, b: object | null): boolean => JSON.stringify(a) === JSON.stringify(b)
