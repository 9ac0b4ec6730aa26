/**
 * The open lines: which there are, whose each is, and what is said on them.
 *
 * A line is nobody's until it has said who it is, and then the one line of its worker until a newer one takes its
 * place. It goes deaf before it closes: from then on nothing that still comes of it counts. What is heard on a line is
 * the channel's to understand.
 */
import { heartbeatTimeoutMs, type LeaseTimeouts } from '../../core/lease/deadline.ts'
import type { Clock, Log, Meters } from '../../core/ports.ts'
import { no, type Result, yes } from '../../core/result.ts'
import type { HostFrame, RejectionCode, RunLease } from '../../protocol/frames.ts'
import { WORKER_FIRST_FRAME_MS, WORKERS_UNREGISTERED_MAX } from '../../protocol/limits.ts'
import type { WorkerLink } from '../api/host-api.ts'
import type { ActorSystem } from '../runtime/actor-system.ts'
import type { MonotonicTimers } from '../runtime/monotonic-timers.ts'
import type { ConnectionEffect, ConnectionEvent } from './connection.machine.ts'
import { CONNECTION } from './fleet.names.ts'
import type { Fleet, Member } from './worker-registry.ts'

/** What is said once something is on disk. */
export type FleetEffect =
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
  /** People are shown the fleet as it is now. */
  | { readonly type: 'fleet.push workers' }

export interface Connection {
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

export interface LinesPorts {
  readonly clock: Clock
  /** The wall clock, as records write it down. */
  readonly instant: () => string
  readonly log: Log
  readonly meters: Meters
  readonly system: ActorSystem
  readonly fleet: Fleet
  readonly timers: MonotonicTimers
  readonly timeouts: () => LeaseTimeouts
  /** Lines may come in. */
  readonly open: () => boolean
}

const CLOSE_POLICY = 1008
const CLOSE_TRY_AGAIN = 1013

export class Lines {
  readonly #ports: LinesPorts
  readonly #connections = new Map<number, Connection>()
  #next = 1
  #unregistered = 0

  constructor(ports: LinesPorts) {
    this.#ports = ports
  }

  // ---- lines come and go -------------------------------------------------------------------------------------------

  connect(link: WorkerLink): Result<Connection> {
    if (!this.#ports.open()) return no('unavailable', 'the service is stopping')
    if (this.#unregistered >= WORKERS_UNREGISTERED_MAX)
      return no('unavailable', 'too many connections have not said who they are; try again later')
    const number = this.#next++
    const connection: Connection = {
      number,
      link,
      workerId: undefined,
      heardAt: this.#ports.timers.now(),
      deaf: false,
      told: undefined,
      welcome: undefined,
      stranger: false,
    }
    this.#connections.set(number, connection)
    this.#unregistered += 1
    this.#ports.system.spawn(CONNECTION, keyOf(number), { number })
    this.#ports.timers.set(alarmOf(number), 'first frame', connection.heardAt + WORKER_FIRST_FRAME_MS)
    return yes(connection)
  }

  /** It has said who it is, and that is true. From now on it is this worker's line, and an older one is not. */
  registered(connection: Connection, workerId: string): void {
    const { timers, fleet, timeouts } = this.#ports
    const older = fleet.member(workerId)?.line
    if (older !== undefined) this.tell(older.connection, { type: 'replaced' })
    connection.workerId = workerId
    this.#unregistered -= 1
    timers.cancelAll(alarmOf(connection.number))
    timers.set(alarmOf(connection.number), 'silence', connection.heardAt + heartbeatTimeoutMs(timeouts()))
    this.tell(connection.number, { type: 'registered', workerId, at: this.#ports.instant() })
    const member = fleet.member(workerId)
    if (member !== undefined) {
      member.heardAt = connection.heardAt
      member.lastSeenAt = this.#ports.clock.now()
    }
  }

  /** An alarm that was set here came due. */
  rang(key: string, name: string): void {
    const connection = this.#connections.get(Number(key.slice(ALARM.length)))
    if (connection === undefined) return
    if (name === 'first frame') {
      this.#neverSaid(connection)
      return
    }
    const until = connection.heardAt + heartbeatTimeoutMs(this.#ports.timeouts())
    if (this.#ports.timers.now() >= until) this.tell(connection.number, { type: 'fell silent' })
    else this.#ports.timers.set(key, 'silence', until)
  }

  #neverSaid(connection: Connection): void {
    if (connection.stranger) {
      this.hangUp(connection, 'who it is could not be made sure of in time')
      return
    }
    this.#ports.meters.count('worker_registrations_total', { outcome: 'late' })
    this.refuse(connection, 'malformed', `no register within ${WORKER_FIRST_FRAME_MS / 1000} seconds`)
  }

  /** The life of a line ended, for whatever reason. */
  over(number: number): void {
    const connection = this.#connections.get(number)
    if (connection === undefined || connection.deaf) return
    connection.deaf = true
    this.#ports.timers.cancelAll(alarmOf(number))
    if (connection.workerId === undefined) this.#unregistered -= 1
  }

  /** The wire is gone. */
  closed({ number }: Connection): void {
    this.over(number)
    this.#connections.delete(number)
    this.tell(number, { type: 'gone' })
  }

  /** The patience may be another now: whoever is connected is measured by the new one. */
  configured(): void {
    const timeout = heartbeatTimeoutMs(this.#ports.timeouts())
    for (const { number, workerId, deaf, heardAt } of this.#connections.values())
      if (workerId !== undefined && !deaf)
        this.#ports.timers.set(alarmOf(number), 'silence', heardAt + timeout)
  }

  /** Nothing that this worker says counts any more; it is told once that is on disk. */
  revoked(workerId: string, reason: string): void {
    for (const connection of this.#connections.values()) {
      if (connection.workerId !== workerId || connection.deaf) continue
      connection.deaf = true
      this.#ports.timers.cancelAll(alarmOf(connection.number))
      const part: FleetEffect = { type: 'fleet.part', connection: connection.number, reason }
      this.#ports.system.runAfterCommit(part)
    }
  }

  /** Nobody listens to this worker any more. It may come back: what is on disk of it is not lost. */
  sendAway(workerId: string, reason: string): void {
    for (const connection of this.#connections.values())
      if (connection.workerId === workerId && !connection.deaf) this.hangUp(connection, reason)
  }

  // ---- asking ------------------------------------------------------------------------------------------------------

  get size(): number {
    return this.#connections.size
  }

  at(number: number): Connection | undefined {
    return this.#connections.get(number)
  }

  /** A worker's current line, if it has one. */
  of(member: Member | undefined): Connection | undefined {
    return member?.line === undefined ? undefined : this.#connections.get(member.line.connection)
  }

  // ---- speaking ----------------------------------------------------------------------------------------------------

  send(connection: Connection, frame: HostFrame): boolean {
    // Before the credential has left, nothing else may.
    if (connection.deaf || connection.welcome !== undefined) return false
    return connection.link.send(JSON.stringify(frame))
  }

  /** To the worker's current line, if it has one. Answers whether it was taken. */
  sendTo(workerId: string, frame: HostFrame): boolean {
    const connection = this.of(this.#ports.fleet.member(workerId))
    return connection !== undefined && this.send(connection, frame)
  }

  /** The same for a frame that is text already. */
  sendText(workerId: string, text: string): boolean {
    const connection = this.of(this.#ports.fleet.member(workerId))
    if (connection === undefined || connection.deaf || connection.welcome !== undefined) return false
    return connection.link.send(text)
  }

  /** The last word on a line, whether or not anybody still listens to it. */
  last(number: number, frame: HostFrame, reason: string): void {
    const connection = this.#connections.get(number)
    if (connection === undefined) return
    connection.link.send(JSON.stringify(frame))
    connection.link.close(CLOSE_POLICY, reason)
  }

  /** Without another word. */
  close(number: number, reason: string): void {
    this.#connections.get(number)?.link.close(CLOSE_POLICY, reason)
  }

  refuse({ number }: Connection, code: RejectionCode, reason: string): void {
    this.tell(number, { type: 'refused', code, reason })
  }

  /** It may try again: what is wrong is not its fault, or not for ever. */
  hangUp(connection: Connection, reason: string): void {
    this.#ports.log.warn({ reason }, 'a worker was sent away')
    this.over(connection.number)
    connection.link.close(CLOSE_TRY_AGAIN, reason)
  }

  /** To the life of a line. */
  tell(number: number, event: ConnectionEvent): void {
    this.#ports.system.send(CONNECTION, keyOf(number), event)
  }
}

const ALARM = 'connection '
const alarmOf = (number: number): string => `${ALARM}${number}`
const keyOf = (number: number): string => `c${number}`
