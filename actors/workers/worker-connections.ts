/**
 * WorkerConnections holds the open worker sockets, knows which worker each belongs to, and sends frames on them.
 *
 * A connection belongs to no worker until it registers, and is then its worker's current connection until a newer one
 * replaces it. Once a connection is closing, its further frames are ignored. Reading frames is left to the worker frame
 * router, and the life cycle of a connection to `connection.machine.ts`.
 */

import {
  chooseJoiningSeat,
  chooseProvenSeat,
  chooseUnprovenSeat,
  holderOfAddress,
  isJoinKeyHolder,
  type Seat,
  type SeatDecision,
} from '../../core/fleet/connection-seats.ts'
import { heartbeatTimeoutMs } from '../../core/lease/deadline.ts'
import type { WorkerSender } from '../../core/ports/connections.ts'
import type { Meters } from '../../core/ports/log.ts'
import { no, type Result, yes } from '../../core/result.ts'
import { firstFormText } from '../../protocol/first-form.ts'
import type { HostFrame, RejectionCode, RunLease } from '../../protocol/frames.ts'
import { WORKER_FIRST_FRAME_MS } from '../../protocol/limits.ts'
import type { HostContext } from '../host-context.ts'
import type { MonotonicTimers } from '../runtime/monotonic-timers.ts'
import { timerKind } from '../runtime/timer-kind.ts'
import { CONNECTION_REPLACED, type ConnectionEvent, type WorkerEffect } from './connection.machine.ts'
import type { EnrolledWorker } from './enrolled-worker.ts'
import { CONNECTION } from './worker.machine.ts'
import type { WorkerRegistry } from './worker-registry.ts'

export interface WorkerConnection {
  readonly number: number
  readonly link: WorkerSender
  workerId: string | undefined
  /** The worker may refuse keys that the first form lacks; its `register` may show that it does not. */
  isFirstForm: boolean
  /** Monotonic instant of the last frame. */
  lastFrameAt: number
  /** Frames that arrive from now on are ignored. */
  isClosing: boolean
  /** Leases reported as lost on this connection; each is reported once. */
  reportedLost: Set<string> | undefined
  /** Set until the enrollment is on disk: the credential to send then, and the leases that the worker claims. */
  pendingWelcome: { readonly credential: string; readonly claims: readonly RunLease[] } | undefined
  /** The frames and the dispatches that wait for the credential. */
  heldSends: (() => void)[] | undefined
  /** The credential is unknown; the refusal is sent after the next commit. */
  refusalPending: boolean
}

export const CONNECTION_TIMER = timerKind<'first frame' | 'silence'>('connection')
const CLOSE_POLICY = 1008
const CLOSE_TRY_AGAIN = 1013

export class WorkerConnections {
  readonly #context: HostContext
  readonly #workers: WorkerRegistry
  readonly #seats: UnregisteredSeats
  readonly #connections = new Map<number, WorkerConnection>()
  #nextNumber = 1

  constructor(context: HostContext, workers: WorkerRegistry, seats: UnregisteredSeats) {
    this.#context = context
    this.#workers = workers
    this.#seats = seats
  }

  // ---- opening and closing -----------------------------------------------------------------------------------------

  /** @param proof the holder of the secret that the upgrade carried: see `WorkerProofs` */
  connect(link: WorkerSender, proof?: string): Result<WorkerConnection> {
    if (!this.#context.isOpen()) return no('unavailable', 'the service is stopping')
    const number = this.#nextNumber++
    const seat = this.#seats.claim(number, link.address, proof)
    if (seat.is === 'full')
      return no('unavailable', 'too many connections wait for their registration; try again later')
    if (seat.is === 'displace') this.#displace(this.#connections.get(seat.number))
    const connection: WorkerConnection = {
      number,
      link,
      workerId: undefined,
      isFirstForm: true,
      lastFrameAt: this.#context.timers.now(),
      isClosing: false,
      reportedLost: undefined,
      pendingWelcome: undefined,
      heldSends: undefined,
      refusalPending: false,
    }
    this.#connections.set(number, connection)
    this.#context.system.spawn(CONNECTION, keyOf(number), { number })
    this.#context.timers.set(
      CONNECTION_TIMER.key(number),
      'first frame',
      connection.lastFrameAt + WORKER_FIRST_FRAME_MS,
    )
    return yes(connection)
  }

  /** Not logged, because a flood would fill the log. */
  #displace(connection: WorkerConnection | undefined): void {
    if (connection === undefined) return
    this.#context.meters.count('worker_registrations_total', { outcome: 'displaced' })
    this.stopReading(connection.number)
    connection.link.close(CLOSE_TRY_AGAIN, 'another connection needs this place; try again')
  }

  /** A dead process's `register` may arrive late, and must not end the connection that its successor opened after it. */
  refuseOutdated(connection: WorkerConnection, workerId: string): boolean {
    const current = this.#workers.get(workerId)?.connection
    if (current === undefined || current.number <= connection.number) return false
    this.#context.meters.count('worker_registrations_total', { outcome: 'replaced' })
    this.refuse(connection, 'protocol', CONNECTION_REPLACED)
    return true
  }

  /** The connection proved its identity: it becomes the worker's current connection and replaces an older one. */
  markRegistered(connection: WorkerConnection, workerId: string): void {
    const { timers, timeouts } = this.#context
    const older = this.#workers.get(workerId)?.connection
    if (older !== undefined) this.sendEvent(older.number, { type: 'replaced' })
    connection.workerId = workerId
    this.#seats.leave(connection.number)
    timers.cancelAll(CONNECTION_TIMER.key(connection.number))
    const silentAt = connection.lastFrameAt + heartbeatTimeoutMs(timeouts())
    timers.set(CONNECTION_TIMER.key(connection.number), 'silence', silentAt)
    this.sendEvent(connection.number, { type: 'registered', workerId, at: this.#context.instant() })
    const worker = this.#workers.get(workerId)
    if (worker !== undefined) {
      worker.lastFrameAt = connection.lastFrameAt
      worker.lastSeenAt = this.#context.clock.now()
    }
  }

  onTimer(number: number, name: 'first frame' | 'silence'): void {
    const connection = this.#connections.get(number)
    if (connection === undefined) return
    if (name === 'first frame') {
      this.#onRegistrationTimeout(connection)
      return
    }
    const until = connection.lastFrameAt + heartbeatTimeoutMs(this.#context.timeouts())
    if (this.#context.timers.now() >= until) this.sendEvent(connection.number, { type: 'fell silent' })
    else this.#context.timers.set(CONNECTION_TIMER.key(number), 'silence', until)
  }

  #onRegistrationTimeout(connection: WorkerConnection): void {
    if (connection.refusalPending) {
      this.closeForRetry(connection, 'the identity could not be verified in time')
      return
    }
    this.#context.meters.count('worker_registrations_total', { outcome: 'late' })
    this.refuse(connection, 'malformed', `no register within ${WORKER_FIRST_FRAME_MS / 1000} seconds`)
  }

  /** Ignores further frames of a connection whose actor ended. */
  stopReading(number: number): void {
    const connection = this.#connections.get(number)
    if (connection === undefined || connection.isClosing) return
    connection.isClosing = true
    this.#context.timers.cancelAll(CONNECTION_TIMER.key(number))
    this.#seats.leave(number)
  }

  /** The socket was closed. */
  onClosed({ number }: WorkerConnection): void {
    this.stopReading(number)
    this.#connections.delete(number)
    this.sendEvent(number, { type: 'socket closed' })
  }

  /** Applies a changed heartbeat timeout to the open connections. */
  onConfigChange(): void {
    const timeout = heartbeatTimeoutMs(this.#context.timeouts())
    for (const { number, workerId, isClosing, lastFrameAt } of this.#connections.values())
      if (workerId !== undefined && !isClosing)
        this.#context.timers.set(CONNECTION_TIMER.key(number), 'silence', lastFrameAt + timeout)
  }

  /** Ignores a revoked worker's frames at once, and closes its connections after the revocation is on disk. */
  closeRevoked(workerId: string, reason: string): void {
    for (const connection of this.#connections.values()) {
      if (connection.workerId !== workerId || connection.isClosing) continue
      connection.isClosing = true
      this.#context.timers.cancelAll(CONNECTION_TIMER.key(connection.number))
      const revoke: WorkerEffect = { type: 'worker.revoke connection', connection: connection.number, reason }
      this.#context.system.runAfterCommit(revoke)
    }
  }

  /** Closes a worker's connections. The worker may reconnect, because its record on disk remains. */
  closeWorker(workerId: string, reason: string): void {
    for (const connection of this.#connections.values())
      if (connection.workerId === workerId && !connection.isClosing) this.closeForRetry(connection, reason)
  }

  // ---- queries -----------------------------------------------------------------------------------------------------

  get size(): number {
    return this.#connections.size
  }

  get(number: number): WorkerConnection | undefined {
    return this.#connections.get(number)
  }

  /** A worker's current connection, if it is online. */
  ofWorker(worker: EnrolledWorker | undefined): WorkerConnection | undefined {
    return worker?.connection === undefined ? undefined : this.#connections.get(worker.connection.number)
  }

  // ---- sending ----------------------------------------------------------------------------------------------------

  send(connection: WorkerConnection, frame: HostFrame): boolean {
    return this.#sendText(connection, JSON.stringify(frame))
  }

  /** Sends on the worker's current connection. Returns whether the connection accepted the frame. */
  sendToWorker(workerId: string, frame: HostFrame): boolean {
    return this.sendTextToWorker(workerId, JSON.stringify(frame))
  }

  /** As `sendToWorker`, for a frame that is already JSON text. */
  sendTextToWorker(workerId: string, text: string): boolean {
    const connection = this.ofWorker(this.#workers.get(workerId))
    return connection !== undefined && this.#sendText(connection, text)
  }

  #sendText(connection: WorkerConnection, text: string): boolean {
    if (connection.isClosing) return false
    if (connection.pendingWelcome === undefined) return this.#write(connection, text)
    // The credential must be the first frame that a newly enrolled worker receives.
    return this.#hold(connection, () => void this.#sendText(connection, text))
  }

  #hold({ heldSends }: WorkerConnection, send: () => void): boolean {
    return heldSends !== undefined && heldSends.length < HELD_SENDS_MAX && heldSends.push(send) > 0
  }

  /** Further frames wait for the first one. */
  holdSends(connection: WorkerConnection): void {
    connection.heldSends = []
  }

  /**
   * Calls `send` once the worker has its credential, also when the connection has closed meanwhile. A promise to the
   * worker counts from the moment in which its frame is written. Returns whether `send` waits.
   */
  holdUntilFirst(workerId: string, send: () => void): boolean {
    const connection = this.ofWorker(this.#workers.get(workerId))
    return connection !== undefined && this.#hold(connection, send)
  }

  sendFirst(connection: WorkerConnection, sendFrame: () => void): void {
    const { heldSends = [] } = connection
    connection.pendingWelcome = undefined
    connection.heldSends = undefined
    sendFrame()
    for (const send of heldSends) send()
  }

  /** A frame that the worker's form lacks is not sent. */
  #write({ link, isFirstForm }: WorkerConnection, text: string): boolean {
    const readable = isFirstForm ? firstFormText(JSON.parse(text)) : text
    return readable !== undefined && this.#maySend() && link.send(readable)
  }

  /** Whether this host still owns its data directory, and can write to it. */
  #maySend(): boolean {
    return this.#context.store.database.state().is !== 'broken'
  }

  /** Sends a last frame and closes, also on a connection that is closing. */
  sendLast(number: number, frame: HostFrame, reason: string): void {
    const connection = this.#connections.get(number)
    if (connection !== undefined) this.#write(connection, JSON.stringify(frame))
    this.close(number, reason)
  }

  /** Closes without a frame. */
  close(number: number, reason: string): void {
    this.#connections.get(number)?.link.close(CLOSE_POLICY, reason)
  }

  refuse({ number }: WorkerConnection, code: RejectionCode, reason: string): void {
    this.sendEvent(number, { type: 'refused', code, reason })
  }

  /** Closes with the code that lets the worker reconnect: the cause is temporary or not the worker's fault. */
  closeForRetry(connection: WorkerConnection, reason: string): void {
    this.#context.log.warn({ reason }, 'a worker connection was closed; the worker may reconnect')
    this.stopReading(connection.number)
    connection.link.close(CLOSE_TRY_AGAIN, reason)
  }

  /** Sends an event to the actor of a connection. */
  sendEvent(number: number, event: ConnectionEvent): void {
    this.#context.system.send(CONNECTION, keyOf(number), event)
  }
}

const HELD_SENDS_MAX = 1_000
const keyOf = (number: number): string => `c${number}`

// ---- seats -------------------------------------------------------------------------------------------------------

/**
 * UnregisteredSeats holds the seats of connections that are not registered yet: without proof, with a proof of their
 * own, and with a join key that many prove.
 *
 * `core/fleet/connection-seats.ts` decides who gets a seat and who gives way.
 */
export class UnregisteredSeats {
  /** Oldest first. */
  readonly #unproven = new Map<number, Seat>()
  readonly #proven = new Map<number, Seat>()
  readonly #joining = new Map<number, Seat>()
  readonly #timers: Pick<MonotonicTimers, 'now'>

  constructor(timers: Pick<MonotonicTimers, 'now'>) {
    this.#timers = timers
  }

  /** Whether a connection without proof would have a seat now. */
  hasSeat(address: string): boolean {
    return this.#choose(address, undefined).is !== 'full'
  }

  /**
   * Takes a seat unless all are taken. The caller closes the connection that has to give way.
   *
   * @param proof the holder of the secret that the upgrade carried: see `WorkerProofs`
   */
  claim(number: number, address: string, proof: string | undefined): SeatDecision {
    const decision = this.#choose(address, proof)
    if (decision.is === 'full') return decision
    if (decision.is === 'displace') this.leave(decision.number)
    const holder = proof ?? holderOfAddress(address)
    this.#seatsFor(proof).set(number, { number, holder, since: this.#timers.now() })
    return decision
  }

  #seatsFor(proof: string | undefined): Map<number, Seat> {
    if (proof === undefined) return this.#unproven
    return isJoinKeyHolder(proof) ? this.#joining : this.#proven
  }

  #choose(address: string, proof: string | undefined): SeatDecision {
    const taken = [...this.#seatsFor(proof).values()]
    const now = this.#timers.now()
    if (proof === undefined) return chooseUnprovenSeat(taken, holderOfAddress(address), now)
    return isJoinKeyHolder(proof) ? chooseJoiningSeat(taken, proof, now) : chooseProvenSeat(taken, proof)
  }

  leave(number: number): void {
    this.#unproven.delete(number)
    this.#proven.delete(number)
    this.#joining.delete(number)
  }

  reportGauges(meters: Meters): void {
    meters.gauge('workers_unregistered', this.#unproven.size, { proof: 'none' })
    meters.gauge('workers_unregistered', this.#proven.size, { proof: 'valid' })
    meters.gauge('workers_unregistered', this.#joining.size, { proof: 'join-key' })
  }
}
