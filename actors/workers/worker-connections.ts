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
import { CONNECTION } from './worker.names.ts'
import type { EnrolledWorker, WorkerRegistry } from './worker-registry.ts'

/** What is said once something is on disk. */
export type WorkerEffect =
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

export interface WorkerConnection {
  readonly number: number
  readonly link: WorkerLink
  workerId: string | undefined
  lastFrameAt: number
  isClosing: boolean
  /** Leases it was told are lost; once is enough on one line. */
  reportedLost: Set<string> | undefined
  /** Until its enrollment is on disk: the credential it is given then, and the leases it claims. */
  pendingWelcome: { readonly credential: string; readonly claims: readonly RunLease[] } | undefined
  /** Found to be nobody, and told so once that is on disk. */
  refusalPending: boolean
}

export interface WorkerConnectionsPorts {
  readonly clock: Clock
  /** The wall clock, as records write it down. */
  readonly instant: () => string
  readonly log: Log
  readonly meters: Meters
  readonly system: ActorSystem
  readonly workers: WorkerRegistry
  readonly timers: MonotonicTimers
  readonly timeouts: () => LeaseTimeouts
  /** Lines may come in. */
  readonly mayConnect: () => boolean
}

const CLOSE_POLICY = 1008
const CLOSE_TRY_AGAIN = 1013

export class WorkerConnections {
  readonly #ports: WorkerConnectionsPorts
  readonly #connections = new Map<number, WorkerConnection>()
  #nextNumber = 1
  #unregistered = 0

  constructor(ports: WorkerConnectionsPorts) {
    this.#ports = ports
  }

  // ---- lines come and go -------------------------------------------------------------------------------------------

  connect(link: WorkerLink): Result<WorkerConnection> {
    if (!this.#ports.mayConnect()) return no('unavailable', 'the service is stopping')
    if (this.#unregistered >= WORKERS_UNREGISTERED_MAX)
      return no('unavailable', 'too many connections have not said who they are; try again later')
    const number = this.#nextNumber++
    const connection: WorkerConnection = {
      number,
      link,
      workerId: undefined,
      lastFrameAt: this.#ports.timers.now(),
      isClosing: false,
      reportedLost: undefined,
      pendingWelcome: undefined,
      refusalPending: false,
    }
    this.#connections.set(number, connection)
    this.#unregistered += 1
    this.#ports.system.spawn(CONNECTION, keyOf(number), { number })
    this.#ports.timers.set(timerKeyOf(number), 'first frame', connection.lastFrameAt + WORKER_FIRST_FRAME_MS)
    return yes(connection)
  }

  /** It has said who it is, and that is true. From now on it is this worker's line, and an older one is not. */
  markRegistered(connection: WorkerConnection, workerId: string): void {
    const { timers, workers, timeouts } = this.#ports
    const older = workers.get(workerId)?.connection
    if (older !== undefined) this.sendEvent(older.number, { type: 'replaced' })
    connection.workerId = workerId
    this.#unregistered -= 1
    timers.cancelAll(timerKeyOf(connection.number))
    timers.set(
      timerKeyOf(connection.number),
      'silence',
      connection.lastFrameAt + heartbeatTimeoutMs(timeouts()),
    )
    this.sendEvent(connection.number, { type: 'registered', workerId, at: this.#ports.instant() })
    const worker = workers.get(workerId)
    if (worker !== undefined) {
      worker.lastFrameAt = connection.lastFrameAt
      worker.lastSeenAt = this.#ports.clock.now()
    }
  }

  /** An alarm that was set here came due. */
  onTimer(key: string, name: string): void {
    const connection = this.#connections.get(Number(key.slice(TIMER_PREFIX.length)))
    if (connection === undefined) return
    if (name === 'first frame') {
      this.#onRegistrationTimeout(connection)
      return
    }
    const until = connection.lastFrameAt + heartbeatTimeoutMs(this.#ports.timeouts())
    if (this.#ports.timers.now() >= until) this.sendEvent(connection.number, { type: 'fell silent' })
    else this.#ports.timers.set(key, 'silence', until)
  }

  #onRegistrationTimeout(connection: WorkerConnection): void {
    if (connection.refusalPending) {
      this.closeForRetry(connection, 'who it is could not be made sure of in time')
      return
    }
    this.#ports.meters.count('worker_registrations_total', { outcome: 'late' })
    this.refuse(connection, 'malformed', `no register within ${WORKER_FIRST_FRAME_MS / 1000} seconds`)
  }

  /** The life of a line ended, for whatever reason. */
  stopReading(number: number): void {
    const connection = this.#connections.get(number)
    if (connection === undefined || connection.isClosing) return
    connection.isClosing = true
    this.#ports.timers.cancelAll(timerKeyOf(number))
    if (connection.workerId === undefined) this.#unregistered -= 1
  }

  /** The wire is gone. */
  onClosed({ number }: WorkerConnection): void {
    this.stopReading(number)
    this.#connections.delete(number)
    this.sendEvent(number, { type: 'gone' })
  }

  /** The patience may be another now: whoever is connected is measured by the new one. */
  onConfigChange(): void {
    const timeout = heartbeatTimeoutMs(this.#ports.timeouts())
    for (const { number, workerId, isClosing: deaf, lastFrameAt: heardAt } of this.#connections.values())
      if (workerId !== undefined && !deaf)
        this.#ports.timers.set(timerKeyOf(number), 'silence', heardAt + timeout)
  }

  /** Nothing that this worker says counts any more; it is told once that is on disk. */
  closeRevoked(workerId: string, reason: string): void {
    for (const connection of this.#connections.values()) {
      if (connection.workerId !== workerId || connection.isClosing) continue
      connection.isClosing = true
      this.#ports.timers.cancelAll(timerKeyOf(connection.number))
      const revoke: WorkerEffect = { type: 'fleet.part', connection: connection.number, reason }
      this.#ports.system.runAfterCommit(revoke)
    }
  }

  /** Nobody listens to this worker any more. It may come back: what is on disk of it is not lost. */
  closeWorker(workerId: string, reason: string): void {
    for (const connection of this.#connections.values())
      if (connection.workerId === workerId && !connection.isClosing) this.closeForRetry(connection, reason)
  }

  // ---- asking ------------------------------------------------------------------------------------------------------

  get size(): number {
    return this.#connections.size
  }

  get(number: number): WorkerConnection | undefined {
    return this.#connections.get(number)
  }

  /** A worker's current line, if it has one. */
  ofWorker(worker: EnrolledWorker | undefined): WorkerConnection | undefined {
    return worker?.connection === undefined ? undefined : this.#connections.get(worker.connection.number)
  }

  // ---- speaking ----------------------------------------------------------------------------------------------------

  send(connection: WorkerConnection, frame: HostFrame): boolean {
    // Before the credential has left, nothing else may.
    if (connection.isClosing || connection.pendingWelcome !== undefined) return false
    return connection.link.send(JSON.stringify(frame))
  }

  /** To the worker's current line, if it has one. Answers whether it was taken. */
  sendToWorker(workerId: string, frame: HostFrame): boolean {
    const connection = this.ofWorker(this.#ports.workers.get(workerId))
    return connection !== undefined && this.send(connection, frame)
  }

  /** The same for a frame that is text already. */
  sendTextToWorker(workerId: string, text: string): boolean {
    const connection = this.ofWorker(this.#ports.workers.get(workerId))
    if (connection === undefined || connection.isClosing || connection.pendingWelcome !== undefined)
      return false
    return connection.link.send(text)
  }

  /** The last word on a line, whether or not anybody still listens to it. */
  sendLast(number: number, frame: HostFrame, reason: string): void {
    const connection = this.#connections.get(number)
    if (connection === undefined) return
    connection.link.send(JSON.stringify(frame))
    connection.link.close(CLOSE_POLICY, reason)
  }

  /** Without another word. */
  close(number: number, reason: string): void {
    this.#connections.get(number)?.link.close(CLOSE_POLICY, reason)
  }

  refuse({ number }: WorkerConnection, code: RejectionCode, reason: string): void {
    this.sendEvent(number, { type: 'refused', code, reason })
  }

  /** It may try again: what is wrong is not its fault, or not for ever. */
  closeForRetry(connection: WorkerConnection, reason: string): void {
    this.#ports.log.warn({ reason }, 'a worker was sent away')
    this.stopReading(connection.number)
    connection.link.close(CLOSE_TRY_AGAIN, reason)
  }

  /** To the life of a line. */
  sendEvent(number: number, event: ConnectionEvent): void {
    this.#ports.system.send(CONNECTION, keyOf(number), event)
  }
}

const TIMER_PREFIX = 'connection '
const timerKeyOf = (number: number): string => `${TIMER_PREFIX}${number}`
const keyOf = (number: number): string => `c${number}`
