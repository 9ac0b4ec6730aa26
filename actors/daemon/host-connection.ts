/**
 * The worker's current line to the host: opened, introduced, kept alive, and given up when it falls silent.
 *
 * What is said on it besides goes to whoever it is meant for. A line that was given up is deaf: nothing that still
 * comes of it counts. Secrets pass through here and are kept nowhere.
 */
import { isNativeError } from 'node:util/types'
import { backoffMs } from '../../core/backoff.ts'
import type { Dialer, DialledLine, Identity } from '../../core/daemon/ports.ts'
import { judgeRejection } from '../../core/daemon/rejection.ts'
import type { Log, RandomSource } from '../../core/ports.ts'
import { frameText } from '../../protocol/frame-budget.ts'
import {
  type HostFrame,
  type HostFrameOf,
  type RunLease,
  readHostFrame,
  type WorkerAuth,
  type WorkerFrame,
} from '../../protocol/frames.ts'
import { PROTOCOL_VERSION, WORKER_FIRST_FRAME_MS, WORKER_HEARTBEAT_MS } from '../../protocol/limits.ts'
import type { WorkerCapabilities, WorkerState } from '../../protocol/worker.ts'
import type { DaemonEnd } from './daemon-dependencies.ts'
import type { HostConnectionEffect, HostConnectionEvent } from './host-connection.machine.ts'
import type { SleepAwareTimers } from './sleep-aware-timers.ts'

export interface HostConnectionPorts {
  readonly timers: SleepAwareTimers
  readonly random: RandomSource
  readonly log: Log
  readonly dialer: Dialer
  readonly identity: Identity
  readonly name: string
  readonly capabilities: WorkerCapabilities
  readonly sendConnectionEvent: (event: HostConnectionEvent) => void
  readonly claims: () => RunLease[]
  /** Terminals that are looked at. */
  readonly viewCount: () => number
  /** A line is up: everything that the host knew on an older one has to be said, or asked, again. */
  readonly onUp: () => void
  readonly onDown: () => void
  /** Everything that is not about the line itself. */
  readonly onFrame: (frame: HostFrame) => void
  /** It is no frame that this version knows. */
  readonly onUnknownFrame: (text: string, error: string) => void
}

const SILENCE_MS = 45_000
const HOST_SILENT = 'the host fell silent'
/** A lost line is dialled again within this, so that a worker is back soon after its host. */
const BACKOFF_MS_FIRST = 1_000
const BACKOFF_MS_MAX = 15_000
const UPDATE_WAIT_MS = 5 * 60_000
/** From the first byte to the welcome. */
const UNREGISTERED_MS_MAX = 3 * WORKER_FIRST_FRAME_MS
/** What a host may ask for as the pause between two heartbeats. */
const HEARTBEAT_MS_MIN = 1_000
const HEARTBEAT_MS_MAX = 30_000
/** How long a line that this worker gave up may still be taken for a newer one by the host. */
const GIVEN_UP_MS_MAX = 60_000
/** So many leases fit into the first frame, whatever their names. */
const REGISTER_CLAIMS_MAX = 256

interface HostSession {
  transport: DialledLine | undefined
  readonly auth: WorkerAuth
  isRegistered: boolean
  readonly dialledAt: number
  /** When `register` was sent; before that, when the line was dialled. */
  registerSentAt: number
  receivedAt: number
  heartbeatMs: number
}

export class HostConnection {
  readonly #ports: HostConnectionPorts
  #session: HostSession | undefined
  #hasEverRegistered = false
  #gaveUpAt = Number.NEGATIVE_INFINITY
  #workerId: string | undefined
  workerState: WorkerState = 'active'

  constructor(ports: HostConnectionPorts) {
    this.#ports = ports
  }

  runEffect(effect: HostConnectionEffect): void {
    const { timers, random } = this.#ports
    switch (effect.type) {
      case 'link.dial':
        this.#dial()
        return
      case 'link.register':
        this.#register()
        return
      case 'link.beat':
        timers.in(HOST_CONNECTION_TIMER, 'beat', this.#session?.heartbeatMs ?? WORKER_HEARTBEAT_MS)
        return
      case 'link.wait':
        timers.in(
          HOST_CONNECTION_TIMER,
          'wait',
          backoffMs(effect.failures, BACKOFF_MS_FIRST, BACKOFF_MS_MAX, random.fraction()),
        )
        return
      case 'link.wait long':
        timers.in(HOST_CONNECTION_TIMER, 'wait', UPDATE_WAIT_MS)
        return
      case 'link.hang up':
        timers.cancelAll(HOST_CONNECTION_TIMER)
        this.#release()?.transport?.close()
    }
  }

  // ---- asking and speaking -----------------------------------------------------------------------------------------

  get isUp(): boolean {
    return this.#session?.isRegistered === true
  }

  /** As the host knows this worker, once it has said so. */
  get workerId(): string | undefined {
    return this.#workerId ?? this.#ports.identity.credential()?.workerId
  }

  /** When this line's `register` was sent: acknowledgements that echo nothing are counted from there. */
  get registeredAt(): number {
    return this.#session?.registerSentAt ?? this.#ports.timers.now()
  }

  /** Which line it is: one of its own for each. undefined: none is up. */
  get connectionKey(): object | undefined {
    return this.isUp ? this.#session : undefined
  }

  backlog(): number {
    return this.#session?.transport?.backlog() ?? 0
  }

  /** Frames that are not kept are simply lost when there is no line. */
  send(frame: WorkerFrame): void {
    if (this.isUp) this.sendText(frameText(frame))
  }

  sendText(text: string): void {
    this.#session?.transport?.send(text)
  }

  /** Says what this worker has, now. */
  sendHeartbeat(): void {
    if (!this.isUp) return
    this.send({
      type: 'heartbeat',
      leases: this.#ports.claims(),
      attachSessions: this.#ports.viewCount(),
      sentAt: Math.floor(this.#ports.timers.now()),
    })
  }

  onTimer(name: string): void {
    const { sendConnectionEvent } = this.#ports
    if (name === 'wait') sendConnectionEvent({ type: 'wait over' })
    else if (name === 'beat') this.#heartbeatAndRepeat()
    else if (name === 'silence') this.#checkSilence()
    else if (name === 'register') this.#giveUp('the host did not answer in time')
  }

  // ---- opening -----------------------------------------------------------------------------------------------------

  #dial(): void {
    const { dialer, sendConnectionEvent, timers } = this.#ports
    const auth = this.#chooseAuth()
    if (auth === undefined) {
      sendConnectionEvent({ type: 'refused', end: NOT_PAIRED })
      return
    }
    const now = timers.now()
    const mine: HostSession = {
      transport: undefined,
      auth,
      isRegistered: false,
      dialledAt: now,
      registerSentAt: now,
      receivedAt: now,
      heartbeatMs: WORKER_HEARTBEAT_MS,
    }
    this.#session = mine
    const isMine = () => this.#session === mine
    const transport = dialer.dial({
      opened: () => isMine() && sendConnectionEvent({ type: 'opened' }),
      heard: (text) => isMine() && this.#onText(mine, text),
      closed: (reason) => isMine() && this.#onLost(reason),
    })
    mine.transport = transport
    if (isMine()) timers.in(HOST_CONNECTION_TIMER, 'register', UNREGISTERED_MS_MAX)
  }

  /** A token waits to be redeemed only when somebody has just put it there. */
  #chooseAuth(): WorkerAuth | undefined {
    const { identity } = this.#ports
    const token = identity.token()
    if (token !== undefined) return { kind: 'pairing', token }
    const credential = identity.credential()
    return credential === undefined ? undefined : { kind: 'credential', ...credential }
  }

  #register(): void {
    const session = this.#session
    if (session === undefined) return
    const { name, capabilities, claims, timers } = this.#ports
    session.registerSentAt = timers.now()
    session.transport?.send(
      frameText({
        type: 'register',
        protocolVersion: PROTOCOL_VERSION,
        auth: session.auth,
        name,
        capabilities,
        activeLeases: claims().slice(0, REGISTER_CLAIMS_MAX),
      }),
    )
  }

  #onRegistered(session: HostSession, frame: HostFrameOf<'registered'>): void {
    if (session.isRegistered) return
    const { log, timers, sendConnectionEvent } = this.#ports
    session.isRegistered = true
    session.heartbeatMs = Math.min(HEARTBEAT_MS_MAX, Math.max(HEARTBEAT_MS_MIN, frame.heartbeatIntervalMs))
    this.#hasEverRegistered = true
    this.#workerId = frame.workerId
    this.workerState = frame.state
    timers.cancel(HOST_CONNECTION_TIMER, 'register')
    timers.at(HOST_CONNECTION_TIMER, 'silence', session.receivedAt + SILENCE_MS)
    if (frame.credential !== undefined) void this.#storeCredential(frame.workerId, frame.credential)
    log.info(
      { worker: frame.workerId, name: frame.name, host: frame.hostVersion },
      'registered with the host',
    )
    sendConnectionEvent({ type: 'welcomed' })
    this.#ports.onUp()
  }

  /** Without it this worker is a stranger after its next start: better it ends, and somebody sees to the disk. */
  async #storeCredential(workerId: string, secret: string): Promise<void> {
    const { identity, sendConnectionEvent } = this.#ports
    try {
      await identity.keep({ workerId, secret })
    } catch (error) {
      const detail = `the credential could not be put on disk (${messageOf(error)}); pair this machine again`
      sendConnectionEvent({ type: 'refused', end: { is: 'broken', detail } })
    }
  }

  // ---- hearing -----------------------------------------------------------------------------------------------------

  #onText(session: HostSession, text: string): void {
    const now = this.#ports.timers.now()
    // A process that was stopped hears what has come meanwhile before its own timers: that is too late to count.
    if (now - session.receivedAt > SILENCE_MS) {
      this.#giveUp(HOST_SILENT)
      return
    }
    session.receivedAt = now
    const read = readHostFrame(text)
    if (!read.ok) this.#ports.onUnknownFrame(text, read.error)
    else if (read.value.type === 'registered') this.#onRegistered(session, read.value)
    else if (read.value.type === 'rejected') void this.#onRejected(session, read.value)
    else if (!session.isRegistered) this.#giveUp(`the host said ${read.value.type} before its welcome`)
    else if (read.value.type === 'revoked') void this.#onRevoked(read.value.reason)
    else this.#ports.onFrame(read.value)
  }

  async #onRejected(session: HostSession, { code, reason }: HostFrameOf<'rejected'>): Promise<void> {
    const { identity, log, sendConnectionEvent, timers } = this.#ports
    const withToken = session.auth.kind === 'pairing'
    const verdict = judgeRejection(code, reason, {
      withToken,
      hasCredential: identity.credential() !== undefined,
      registered: session.isRegistered,
      everRegistered: this.#hasEverRegistered,
      afterMs: timers.now() - session.dialledAt,
      gaveUpOne: timers.now() - this.#gaveUpAt < GIVEN_UP_MS_MAX,
    })
    log.warn({ code, reason }, 'the host turned this worker away')
    this.#release()?.transport?.close()
    if (withToken && (code === 'invalid-token' || code === 'expired-token'))
      await this.#deleteIdentity('the token', () => identity.dropToken())
    if (code === 'unauthorized' && !withToken)
      await this.#deleteIdentity('the credential', () => identity.dropCredential())
    const why = `the host turned this worker away (${code}): ${reason}`
    if (verdict.is === 'end') sendConnectionEvent({ type: 'refused', end: verdict.end })
    else sendConnectionEvent({ type: verdict.is === 'again' ? 'lost' : 'put off', reason: why })
  }

  async #onRevoked(reason: string): Promise<void> {
    const { identity, sendConnectionEvent } = this.#ports
    this.#release()?.transport?.close()
    await this.#deleteIdentity('the credential', () => identity.dropCredential())
    const end: DaemonEnd = { is: 'revoked', detail: `this worker's enrollment was revoked: ${reason}` }
    sendConnectionEvent({ type: 'refused', end })
  }

  /** One that can't be deleted opens no door any more; that must not keep the worker from ending. */
  async #deleteIdentity(what: string, drop: () => Promise<void>): Promise<void> {
    try {
      await drop()
    } catch (error) {
      this.#ports.log.error({ reason: messageOf(error) }, `${what} could not be deleted; delete it by hand`)
    }
  }

  // ---- staying and going -------------------------------------------------------------------------------------------

  #heartbeatAndRepeat(): void {
    const session = this.#session
    if (session === undefined || !session.isRegistered) return
    this.sendHeartbeat()
    this.#ports.timers.in(HOST_CONNECTION_TIMER, 'beat', session.heartbeatMs)
  }

  #checkSilence(): void {
    const until = (this.#session?.receivedAt ?? 0) + SILENCE_MS
    if (this.#ports.timers.now() > until) this.#giveUp(HOST_SILENT)
    else this.#ports.timers.at(HOST_CONNECTION_TIMER, 'silence', until + 1)
  }

  #giveUp(reason: string): void {
    this.#gaveUpAt = this.#ports.timers.now()
    const transport = this.#session?.transport
    this.#onLost(reason)
    transport?.close()
  }

  #onLost(reason: string): void {
    // The host may find out later than we do, and take up the old line's `register` after the new one's.
    if (this.#session !== undefined && !this.#session.isRegistered) this.#gaveUpAt = this.#ports.timers.now()
    this.#release()
    this.#ports.sendConnectionEvent({ type: 'lost', reason })
  }

  #release(): HostSession | undefined {
    const session = this.#session
    this.#session = undefined
    this.#ports.timers.cancelAll(HOST_CONNECTION_TIMER)
    if (session?.isRegistered === true) this.#ports.onDown()
    return session
  }
}

/** The key of this room's timers. */
export const HOST_CONNECTION_TIMER = 'line'

const NOT_PAIRED: DaemonEnd = {
  is: 'no way in',
  detail:
    'this machine is not paired; get a token from the host (POST /api/workers/pairing-tokens) and name its file as --token-file',
}

const messageOf = (error: unknown): string => (isNativeError(error) ? error.message : String(error))
