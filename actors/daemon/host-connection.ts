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
import type { LinkEffect, LinkEvent } from './host-connection.machine.ts'
import type { Timers } from './timers.ts'

export interface LinePorts {
  readonly timers: Timers
  readonly random: RandomSource
  readonly log: Log
  readonly dialer: Dialer
  readonly identity: Identity
  readonly name: string
  readonly capabilities: WorkerCapabilities
  readonly tellLink: (event: LinkEvent) => void
  readonly claims: () => RunLease[]
  /** Terminals that are looked at. */
  readonly views: () => number
  /** A line is up: everything that the host knew on an older one has to be said, or asked, again. */
  readonly up: () => void
  readonly down: () => void
  /** Everything that is not about the line itself. */
  readonly hear: (frame: HostFrame) => void
  /** It is no frame that this version knows. */
  readonly hearUnknown: (text: string, error: string) => void
}

const SILENCE_MS = 45_000
const FELL_SILENT = 'the host fell silent'
/** A lost line is dialled again within this, so that a worker is back soon after its host. */
const BACKOFF_MS_FIRST = 1_000
const BACKOFF_MS_MAX = 15_000
const SHUNNED_MS = 5 * 60_000
/** From the first byte to the welcome. */
const UNREGISTERED_MS_MAX = 3 * WORKER_FIRST_FRAME_MS
/** What a host may ask for as the pause between two heartbeats. */
const BEAT_MS_MIN = 1_000
const BEAT_MS_MAX = 30_000
/** How long a line that this worker gave up may still be taken for a newer one by the host. */
const GIVEN_UP_MS = 60_000
/** So many leases fit into the first frame, whatever their names. */
const REGISTER_CLAIMS_MAX = 256

interface Current {
  dialled: DialledLine | undefined
  readonly auth: WorkerAuth
  registered: boolean
  readonly dialledAt: number
  /** When `register` was sent; before that, when the line was dialled. */
  registerSentAt: number
  heardAt: number
  beatMs: number
}

export class Line {
  readonly #ports: LinePorts
  #current: Current | undefined
  #everRegistered = false
  #gaveUpAt = Number.NEGATIVE_INFINITY
  #workerId: string | undefined
  state: WorkerState = 'active'

  constructor(ports: LinePorts) {
    this.#ports = ports
  }

  do(effect: LinkEffect): void {
    const { timers, random } = this.#ports
    switch (effect.type) {
      case 'link.dial':
        this.#dial()
        return
      case 'link.register':
        this.#register()
        return
      case 'link.beat':
        timers.in(LINE, 'beat', this.#current?.beatMs ?? WORKER_HEARTBEAT_MS)
        return
      case 'link.wait':
        timers.in(
          LINE,
          'wait',
          backoffMs(effect.failures, BACKOFF_MS_FIRST, BACKOFF_MS_MAX, random.fraction()),
        )
        return
      case 'link.wait long':
        timers.in(LINE, 'wait', SHUNNED_MS)
        return
      case 'link.hang up':
        timers.cancelAll(LINE)
        this.#letGo()?.dialled?.close()
    }
  }

  // ---- asking and speaking -----------------------------------------------------------------------------------------

  get isUp(): boolean {
    return this.#current?.registered === true
  }

  /** As the host knows this worker, once it has said so. */
  get workerId(): string | undefined {
    return this.#workerId ?? this.#ports.identity.credential()?.workerId
  }

  /** When this line's `register` was sent: acknowledgements that echo nothing are counted from there. */
  get registeredAt(): number {
    return this.#current?.registerSentAt ?? this.#ports.timers.now()
  }

  /** Which line it is: one of its own for each. undefined: none is up. */
  get mark(): object | undefined {
    return this.isUp ? this.#current : undefined
  }

  backlog(): number {
    return this.#current?.dialled?.backlog() ?? 0
  }

  /** Frames that are not kept are simply lost when there is no line. */
  send(frame: WorkerFrame): void {
    if (this.isUp) this.sendText(frameText(frame))
  }

  sendText(text: string): void {
    this.#current?.dialled?.send(text)
  }

  /** Says what this worker has, now. */
  beat(): void {
    if (!this.isUp) return
    this.send({
      type: 'heartbeat',
      leases: this.#ports.claims(),
      attachSessions: this.#ports.views(),
      sentAt: Math.floor(this.#ports.timers.now()),
    })
  }

  rang(name: string): void {
    const { tellLink } = this.#ports
    if (name === 'wait') tellLink({ type: 'wait over' })
    else if (name === 'beat') this.#beatAndGoOn()
    else if (name === 'silence') this.#listen()
    else if (name === 'register') this.#giveUp('the host did not answer in time')
  }

  // ---- opening -----------------------------------------------------------------------------------------------------

  #dial(): void {
    const { dialer, tellLink, timers } = this.#ports
    const auth = this.#auth()
    if (auth === undefined) {
      tellLink({ type: 'refused', end: NO_WAY_IN })
      return
    }
    const now = timers.now()
    const mine: Current = {
      dialled: undefined,
      auth,
      registered: false,
      dialledAt: now,
      registerSentAt: now,
      heardAt: now,
      beatMs: WORKER_HEARTBEAT_MS,
    }
    this.#current = mine
    const isMine = () => this.#current === mine
    const dialled = dialer.dial({
      opened: () => isMine() && tellLink({ type: 'opened' }),
      heard: (text) => isMine() && this.#heard(mine, text),
      closed: (reason) => isMine() && this.#lost(reason),
    })
    mine.dialled = dialled
    if (isMine()) timers.in(LINE, 'register', UNREGISTERED_MS_MAX)
  }

  /** A token waits to be redeemed only when somebody has just put it there. */
  #auth(): WorkerAuth | undefined {
    const { identity } = this.#ports
    const token = identity.token()
    if (token !== undefined) return { kind: 'pairing', token }
    const credential = identity.credential()
    return credential === undefined ? undefined : { kind: 'credential', ...credential }
  }

  #register(): void {
    const current = this.#current
    if (current === undefined) return
    const { name, capabilities, claims, timers } = this.#ports
    current.registerSentAt = timers.now()
    current.dialled?.send(
      frameText({
        type: 'register',
        protocolVersion: PROTOCOL_VERSION,
        auth: current.auth,
        name,
        capabilities,
        activeLeases: claims().slice(0, REGISTER_CLAIMS_MAX),
      }),
    )
  }

  #welcomed(current: Current, frame: HostFrameOf<'registered'>): void {
    if (current.registered) return
    const { log, timers, tellLink } = this.#ports
    current.registered = true
    current.beatMs = Math.min(BEAT_MS_MAX, Math.max(BEAT_MS_MIN, frame.heartbeatIntervalMs))
    this.#everRegistered = true
    this.#workerId = frame.workerId
    this.state = frame.state
    timers.cancel(LINE, 'register')
    timers.at(LINE, 'silence', current.heardAt + SILENCE_MS)
    if (frame.credential !== undefined) void this.#keep(frame.workerId, frame.credential)
    log.info(
      { worker: frame.workerId, name: frame.name, host: frame.hostVersion },
      'registered with the host',
    )
    tellLink({ type: 'welcomed' })
    this.#ports.up()
  }

  /** Without it this worker is a stranger after its next start: better it ends, and somebody sees to the disk. */
  async #keep(workerId: string, secret: string): Promise<void> {
    const { identity, tellLink } = this.#ports
    try {
      await identity.keep({ workerId, secret })
    } catch (error) {
      const detail = `the credential could not be put on disk (${messageOf(error)}); pair this machine again`
      tellLink({ type: 'refused', end: { is: 'broken', detail } })
    }
  }

  // ---- hearing -----------------------------------------------------------------------------------------------------

  #heard(current: Current, text: string): void {
    const now = this.#ports.timers.now()
    // A process that was stopped hears what has come meanwhile before its own timers: that is too late to count.
    if (now - current.heardAt > SILENCE_MS) {
      this.#giveUp(FELL_SILENT)
      return
    }
    current.heardAt = now
    const read = readHostFrame(text)
    if (!read.ok) this.#ports.hearUnknown(text, read.error)
    else if (read.value.type === 'registered') this.#welcomed(current, read.value)
    else if (read.value.type === 'rejected') void this.#rejected(current, read.value)
    else if (!current.registered) this.#giveUp(`the host said ${read.value.type} before its welcome`)
    else if (read.value.type === 'revoked') void this.#revoked(read.value.reason)
    else this.#ports.hear(read.value)
  }

  async #rejected(current: Current, { code, reason }: HostFrameOf<'rejected'>): Promise<void> {
    const { identity, log, tellLink, timers } = this.#ports
    const withToken = current.auth.kind === 'pairing'
    const verdict = judgeRejection(code, reason, {
      withToken,
      hasCredential: identity.credential() !== undefined,
      registered: current.registered,
      everRegistered: this.#everRegistered,
      afterMs: timers.now() - current.dialledAt,
      gaveUpOne: timers.now() - this.#gaveUpAt < GIVEN_UP_MS,
    })
    log.warn({ code, reason }, 'the host turned this worker away')
    this.#letGo()?.dialled?.close()
    if (withToken && (code === 'invalid-token' || code === 'expired-token'))
      await this.#dropping('the token', () => identity.dropToken())
    if (code === 'unauthorized' && !withToken)
      await this.#dropping('the credential', () => identity.dropCredential())
    const why = `the host turned this worker away (${code}): ${reason}`
    if (verdict.is === 'end') tellLink({ type: 'refused', end: verdict.end })
    else tellLink({ type: verdict.is === 'again' ? 'lost' : 'put off', reason: why })
  }

  async #revoked(reason: string): Promise<void> {
    const { identity, tellLink } = this.#ports
    this.#letGo()?.dialled?.close()
    await this.#dropping('the credential', () => identity.dropCredential())
    const end: DaemonEnd = { is: 'revoked', detail: `this worker's enrollment was revoked: ${reason}` }
    tellLink({ type: 'refused', end })
  }

  /** One that can't be deleted opens no door any more; that must not keep the worker from ending. */
  async #dropping(what: string, drop: () => Promise<void>): Promise<void> {
    try {
      await drop()
    } catch (error) {
      this.#ports.log.error({ reason: messageOf(error) }, `${what} could not be deleted; delete it by hand`)
    }
  }

  // ---- staying and going -------------------------------------------------------------------------------------------

  #beatAndGoOn(): void {
    const current = this.#current
    if (current === undefined || !current.registered) return
    this.beat()
    this.#ports.timers.in(LINE, 'beat', current.beatMs)
  }

  #listen(): void {
    const until = (this.#current?.heardAt ?? 0) + SILENCE_MS
    if (this.#ports.timers.now() > until) this.#giveUp(FELL_SILENT)
    else this.#ports.timers.at(LINE, 'silence', until + 1)
  }

  #giveUp(reason: string): void {
    this.#gaveUpAt = this.#ports.timers.now()
    const dialled = this.#current?.dialled
    this.#lost(reason)
    dialled?.close()
  }

  #lost(reason: string): void {
    // The host may find out later than we do, and take up the old line's `register` after the new one's.
    if (this.#current !== undefined && !this.#current.registered) this.#gaveUpAt = this.#ports.timers.now()
    this.#letGo()
    this.#ports.tellLink({ type: 'lost', reason })
  }

  #letGo(): Current | undefined {
    const current = this.#current
    this.#current = undefined
    this.#ports.timers.cancelAll(LINE)
    if (current?.registered === true) this.#ports.down()
    return current
  }
}

/** The key of this room's timers. */
export const LINE = 'line'

const NO_WAY_IN: DaemonEnd = {
  is: 'no way in',
  detail:
    'this machine is not paired; get a token from the host (POST /api/workers/pairing-tokens) and name its file as --token-file',
}

const messageOf = (error: unknown): string => (isNativeError(error) ? error.message : String(error))
