/**
 * Keeps the worker's connection to the host: dials, registers, sends heartbeats, and gives up a silent host.
 *
 * Late callbacks of a connection that was given up are ignored, except frames that take something away: `lease-lost`,
 * `cancel` and `revoked`. Secrets pass through and are stored only by the `Identity`. All frames that do not concern the
 * connection itself go to the frame router.
 */

import { backoffMs } from '../../core/backoff.ts'
import type { ConnectionListener, DialledConnection } from '../../core/daemon/ports.ts'
import { judgeRejection } from '../../core/daemon/rejection.ts'
import { encodeFrame } from '../../protocol/frame-budget.ts'
import {
  type HostFrame,
  type HostFrameOf,
  type RunLease,
  readHostFrame,
  type WorkerAuth,
  type WorkerFrameOf,
} from '../../protocol/frames.ts'
import {
  PROTOCOL_VERSION,
  PROTOCOL_VERSION_OLDEST,
  WORKER_FIRST_FRAME_MS,
  WORKER_HEARTBEAT_MS,
  WORKER_HOST_SILENCE_MS,
} from '../../protocol/limits.ts'
import { messageOf } from '../../protocol/message-of.ts'
import type { WorkerCapabilities } from '../../protocol/worker.ts'
import type { ModuleViews } from '../runtime/module.ts'
import { timerKind } from '../runtime/timer-kind.ts'
import { HOST_CONNECTION } from './daemon.names.ts'
import type { DaemonContext, DaemonEnd } from './daemon-context.ts'
import type { HostConnectionEffect, HostConnectionEvent } from './host-connection.machine.ts'
import type { HostSession } from './host-sender.ts'

/** The log message after each registration. */
export const REGISTERED_MESSAGE = 'registered with the host'
const HOST_SILENT = 'the host has sent nothing for 45 seconds'
/** The longest pause between attempts is short, so that a worker is back soon after its host. */
const BACKOFF_MS_FIRST = 1_000
const BACKOFF_MS_MAX = 15_000
const UPDATE_WAIT_MS = 5 * 60_000
/** From dialling to the host's `registered`. */
const UNREGISTERED_MS_MAX = 3 * WORKER_FIRST_FRAME_MS
/** The bounds of the heartbeat interval that a host may ask for. */
const HEARTBEAT_MS_MIN = 1_000
const HEARTBEAT_MS_MAX = 30_000
/** How long a worker that ends waits for the answer to its last heartbeat. */
const LAST_ANSWER_MS_MAX = 3_000
/** How long the host may still confuse a connection that this worker gave up with a newer one. */
const GIVEN_UP_MS_MAX = 60_000
/** This many leases fit into the `register` frame, however long their ids are. */
const REGISTER_CLAIMS_MAX = 256

const LOSS_OF = {
  retry: 'lost',
  'join-again': 'lost',
  'foreign-host': 'lost',
  'retry-rarely': 'update needed',
} as const

const WITHDRAWALS: readonly HostFrame['type'][] = ['lease-lost', 'cancel', 'revoked', 'sandbox-release']

type ConnectionModules = Pick<
  ModuleViews,
  'executions' | 'resumedSandboxes' | 'agentProbe' | 'hostFrameRouter'
>

export class HostConnection {
  readonly #context: DaemonContext
  readonly #modules: ConnectionModules
  #hasEverRegistered = false
  /** The next connection registers in the first form of the protocol. */
  #isNextFirstForm = false
  /** Closed only before the next dial, so that a withdrawal that waits in it unread is still read. */
  #silentTransport: DialledConnection | undefined
  #gaveUpAt = Number.NEGATIVE_INFINITY
  /** The capabilities of the last `register` frame. */
  #registeredCapabilities: WorkerCapabilities | undefined
  /** The last warning about a host of another installation, which is not repeated with every attempt. */
  #lastForeignHost: string | undefined
  /** The last heartbeat, until the host answers it. */
  #lastBeat: { readonly sentAt: number; readonly onAnswered: () => void } | undefined

  constructor(context: DaemonContext, modules: ConnectionModules) {
    this.#context = context
    this.#modules = modules
  }

  runEffect(effect: HostConnectionEffect): void {
    const { timers, random, hostSender } = this.#context
    switch (effect.type) {
      case 'connection.dial':
        this.#dial()
        return
      case 'connection.register':
        this.#register()
        return
      case 'connection.start heartbeats':
        timers.in(HOST_CONNECTION_TIMER.key(), 'beat', hostSender.session?.heartbeatMs ?? WORKER_HEARTBEAT_MS)
        return
      case 'connection.wait':
        timers.in(
          HOST_CONNECTION_TIMER.key(),
          'wait',
          backoffMs(effect.failures, BACKOFF_MS_FIRST, BACKOFF_MS_MAX, random.fraction()),
        )
        return
      case 'connection.wait long':
        timers.in(HOST_CONNECTION_TIMER.key(), 'wait', UPDATE_WAIT_MS)
        return
      case 'connection.close':
        timers.cancelAll(HOST_CONNECTION_TIMER.key())
        this.#closeSilentTransport()
        this.#release()?.transport?.close()
    }
  }

  #capabilities(): WorkerCapabilities {
    const { capabilities } = this.#modules.agentProbe
    return this.#context.isServing() ? capabilities : { ...capabilities, ending: true }
  }

  #claims(): RunLease[] {
    return this.#modules.executions.executions.claims()
  }

  #sendEvent(event: HostConnectionEvent): void {
    this.#context.system.send(HOST_CONNECTION, HOST_CONNECTION, event)
  }

  /** The daemon has ended, perhaps without the end of a commit that it waited for: nothing more may be sent. */
  stop(): void {
    this.#closeSilentTransport()
    this.#context.hostSender.releaseSession()?.transport?.close()
  }

  /** Sends a heartbeat with the leases that this worker claims now. */
  sendHeartbeat(): void {
    this.#sendHeartbeatWith({})
  }

  /** The capabilities have changed. A connection that is not registered yet reports them when the host answers. */
  onCapabilitiesChanged(): void {
    this.#sendHeartbeatWith({ capabilities: this.#capabilities() })
  }

  /**
   * Sends the last heartbeat, which says that the worker ends. Resolves when the host has answered: until then a dispatch
   * may be on its way, and the host would keep an unanswered one for this worker until its lease is over.
   */
  sendLastHeartbeat(): Promise<void> {
    const { hostSender, timers } = this.#context
    this.#modules.hostFrameRouter.refuseOffers()
    if (!hostSender.isUp) return Promise.resolve()
    return new Promise((resolve) => {
      const sentAt = this.#sendHeartbeatWith({ capabilities: this.#capabilities() })
      this.#lastBeat = { sentAt, onAnswered: resolve }
      timers.in(HOST_CONNECTION_TIMER.key(), 'last beat', LAST_ANSWER_MS_MAX)
    })
  }

  #sendHeartbeatWith(more: Pick<WorkerFrameOf<'heartbeat'>, 'capabilities'>): number {
    const { hostSender, hostClock, timers } = this.#context
    const sentAt = Math.floor(timers.now())
    if (hostSender.isUp)
      hostSender.send({
        type: 'heartbeat',
        leases: this.#claims(),
        attachSessions: this.#modules.resumedSandboxes.viewCount,
        sentAt,
        clock: hostClock.ownTime(),
        ...more,
      })
    return sentAt
  }

  onTimer(name: string): void {
    if (name === 'wait') this.#sendEvent({ type: 'wait over' })
    else if (name === 'beat') this.#heartbeatAndRepeat()
    else if (name === 'silence') this.#checkSilence()
    else if (name === 'last beat') this.#lastBeat?.onAnswered()
    else if (name === 'register') this.#giveUp('the host did not answer in time')
  }

  // ---- opening -----------------------------------------------------------------------------------------------------

  #dial(): void {
    const { dialer, hostSender, timers } = this.#context
    const auth = this.#chooseAuth()
    if (auth === undefined) {
      this.#sendEvent({ type: 'refused for good', end: NOT_PAIRED })
      return
    }
    this.#closeSilentTransport()
    const now = timers.now()
    const session: HostSession = {
      transport: undefined,
      auth,
      isFirstForm: this.#isNextFirstForm,
      isRegistered: false,
      dialledAt: now,
      registerSentAt: now,
      receivedAt: now,
      heartbeatMs: WORKER_HEARTBEAT_MS,
    }
    // The host may be updated before the next attempt.
    this.#isNextFirstForm = false
    hostSender.openSession(session)
    const isCurrent = () => hostSender.session === session
    const listener: ConnectionListener = {
      onOpen: () => isCurrent() && this.#sendEvent({ type: 'opened' }),
      onText: (text) => (isCurrent() ? this.#onText(session, text) : this.#onLateText(session, text)),
      onClose: (reason) => isCurrent() && this.#onLost(reason),
    }
    const transport = dialer.dial(listener, auth)
    session.transport = transport
    if (isCurrent()) timers.in(HOST_CONNECTION_TIMER.key(), 'register', UNREGISTERED_MS_MAX)
  }

  /** Prefers a pairing token, because its presence means that a person has just put it there; a join key is last. */
  #chooseAuth(): WorkerAuth | undefined {
    const { identity } = this.#context
    const token = identity.pairingToken()
    if (token !== undefined) return { kind: 'pairing', token }
    const credential = identity.credential()
    const { joinKey } = identity
    if (credential === undefined) return joinKey === undefined ? undefined : { kind: 'join', key: joinKey }
    const { workerId, secret } = credential
    return { kind: 'credential', workerId, secret }
  }

  #register(): void {
    const { hostSender, name, timers } = this.#context
    const { session } = hostSender
    if (session === undefined) return
    session.registerSentAt = timers.now()
    const capabilities = this.#capabilities()
    this.#registeredCapabilities = capabilities
    hostSender.sendText(
      encodeFrame({
        type: 'register',
        protocolVersion: PROTOCOL_VERSION,
        oldestProtocolVersion: PROTOCOL_VERSION_OLDEST,
        auth: session.auth,
        name,
        capabilities,
        activeLeases: this.#claims().slice(0, REGISTER_CLAIMS_MAX),
      }),
    )
  }

  #onRegistered(session: HostSession, frame: HostFrameOf<'registered'>): void {
    if (session.isRegistered) return
    const { hostSender, hostClock, log, timers } = this.#context
    hostSender.registerSession(session, frame)
    hostClock.onRegistered()
    session.heartbeatMs = Math.min(HEARTBEAT_MS_MAX, Math.max(HEARTBEAT_MS_MIN, frame.heartbeatIntervalMs))
    this.#hasEverRegistered = true
    timers.cancel(HOST_CONNECTION_TIMER.key(), 'register')
    timers.at(HOST_CONNECTION_TIMER.key(), 'silence', session.receivedAt + WORKER_HOST_SILENCE_MS)
    this.#lastForeignHost = undefined
    if (frame.credential !== undefined) void this.#storeCredential(frame, frame.credential)
    else void this.#storeInstallation(frame.installation)
    log.info({ worker: frame.workerId, name: frame.name, host: frame.hostVersion }, REGISTERED_MESSAGE)
    this.#sendEvent({ type: 'registered' })
    this.#context.publish({ view: 'host connection', key: 'up' })
    // They may have changed while the host answered.
    if (this.#capabilities() !== this.#registeredCapabilities) this.onCapabilitiesChanged()
  }

  /** Without a stored credential the worker could not register after its next start, so end now and name the cause. */
  async #storeCredential(
    { workerId, installation }: HostFrameOf<'registered'>,
    secret: string,
  ): Promise<void> {
    const { identity } = this.#context
    const named = installation === undefined ? {} : { installation }
    try {
      await identity.saveCredential({ workerId, secret, ...named })
    } catch (error) {
      const detail = `the credential could not be written to disk (${messageOf(error)}); pair this machine again`
      this.#sendEvent({ type: 'refused for good', end: { is: 'broken', detail } })
    }
  }

  /** The host has accepted the credential, so its installation is the worker's own. */
  async #storeInstallation(installation: string | undefined): Promise<void> {
    const { identity, log } = this.#context
    const credential = identity.credential()
    if (installation === undefined || credential === undefined) return
    if (credential.installation === installation) return
    try {
      await identity.saveCredential({ ...credential, installation })
    } catch (error) {
      log.warn(
        { reason: messageOf(error) },
        "the host's installation could not be stored beside the credential",
      )
    }
  }

  // ---- receiving -----------------------------------------------------------------------------------------------------

  #onText(session: HostSession, text: string): void {
    const now = this.#context.timers.now()
    // A process that was suspended reads buffered text before its timers fire. By then the host counts as silent.
    if (now - session.receivedAt > WORKER_HOST_SILENCE_MS) {
      this.#giveUpSilent()
      this.#onLateText(session, text)
      return
    }
    session.receivedAt = now
    const read = readHostFrame(text)
    if (!read.ok) this.#modules.hostFrameRouter.handleUnknown(text, read)
    else if (read.value.type === 'registered') this.#onRegistered(session, read.value)
    else if (read.value.type === 'rejected') void this.#onRejected(session, read.value)
    else if (session.isRegistered) this.#onFrame(read.value)
    else {
      // A host that has not registered this worker may be another one, which must not take the credential.
      if (read.value.type !== 'revoked') this.#applyWithdrawal(read.value)
      this.#giveUp(`the host sent ${read.value.type} before registered`)
    }
  }

  /** On a connection that was given up for its silence, only withdrawals count. */
  #onLateText(session: HostSession, text: string): void {
    if (session.transport !== this.#silentTransport || !session.isRegistered) return
    const read = readHostFrame(text)
    if (read.ok) this.#applyWithdrawal(read.value)
  }

  #onFrame(frame: HostFrame): void {
    if (frame.type === 'revoked') void this.#onRevoked(frame.reason)
    else this.#modules.hostFrameRouter.route(frame)
    if (frame.type === 'heartbeat-ack' && frame.echo === this.#lastBeat?.sentAt) this.#lastBeat.onAnswered()
  }

  /** These frames only take something away, so they count on every connection. */
  #applyWithdrawal(frame: HostFrame): void {
    const isWithdrawal = WITHDRAWALS.includes(frame.type)
    if (isWithdrawal) this.#onFrame(frame)
  }

  async #onRejected(session: HostSession, frame: HostFrameOf<'rejected'>): Promise<void> {
    const { code, reason, installation } = frame
    const { identity, log, timers } = this.#context
    const withToken = session.auth.kind === 'pairing'
    const verdict = judgeRejection(code, reason, {
      withToken,
      withJoinKey: session.auth.kind === 'join',
      hasCredential: identity.credential() !== undefined,
      hasJoinKey: identity.joinKey !== undefined,
      inFirstForm: session.isFirstForm,
      registered: session.isRegistered,
      everRegistered: this.#hasEverRegistered,
      afterMs: timers.now() - session.dialledAt,
      abandonedConnection: timers.now() - this.#gaveUpAt < GIVEN_UP_MS_MAX,
      ownInstallation: identity.credential()?.installation,
      rejectedBy: installation,
    })
    if (verdict.is !== 'first-form') log.warn({ code, reason }, 'the host rejected this worker')
    this.#release()?.transport?.close()
    if (verdict.is === 'first-form') {
      this.#registerInFirstForm(reason)
      return
    }
    if (withToken && (code === 'invalid-token' || code === 'expired-token'))
      await this.#deleteIdentity('the token', () => identity.deletePairingToken())
    if (verdict.is === 'foreign-host') this.#warnOfForeignHost(verdict.detail)
    else if (code === 'unauthorized' && !withToken)
      await this.#deleteIdentity('the credential', () => identity.deleteCredential())
    const explanation = `the host rejected this worker (${code}): ${reason}`
    if (verdict.is === 'end') this.#sendEvent({ type: 'refused for good', end: verdict.end })
    else this.#sendEvent({ type: LOSS_OF[verdict.is], reason: explanation })
  }

  #registerInFirstForm(reason: string): void {
    const { log } = this.#context
    log.info({ reason }, 'the host seems to be of an earlier version; registering without later keys')
    this.#isNextFirstForm = true
    this.#sendEvent({ type: 'form refused' })
  }

  #warnOfForeignHost(detail: string): void {
    if (this.#lastForeignHost === detail) return
    this.#lastForeignHost = detail
    this.#context.log.error({}, detail)
  }

  async #onRevoked(reason: string): Promise<void> {
    const { identity } = this.#context
    this.#release()?.transport?.close()
    await this.#deleteIdentity('the credential', () => identity.deleteCredential())
    const end: DaemonEnd = { is: 'revoked', detail: `this worker's enrollment was revoked: ${reason}` }
    this.#sendEvent({ type: 'refused for good', end })
  }

  /** The host accepts this secret no more, so a failed deletion must not keep the worker from ending. */
  async #deleteIdentity(what: string, deleteIt: () => Promise<void>): Promise<void> {
    try {
      await deleteIt()
    } catch (error) {
      this.#context.log.error({ reason: messageOf(error) }, `${what} could not be deleted; delete it by hand`)
    }
  }

  // ---- heartbeats, silence, the end -------------------------------------------------------------------------------------------

  #heartbeatAndRepeat(): void {
    const { session } = this.#context.hostSender
    if (session === undefined || !session.isRegistered) return
    this.sendHeartbeat()
    this.#context.timers.in(HOST_CONNECTION_TIMER.key(), 'beat', session.heartbeatMs)
  }

  #checkSilence(): void {
    const until = (this.#context.hostSender.session?.receivedAt ?? 0) + WORKER_HOST_SILENCE_MS
    if (this.#context.timers.now() > until) this.#giveUpSilent()
    else this.#context.timers.at(HOST_CONNECTION_TIMER.key(), 'silence', until + 1)
  }

  #giveUp(reason: string): void {
    const { timers, hostSender } = this.#context
    this.#gaveUpAt = timers.now()
    const transport = hostSender.session?.transport
    this.#onLost(reason)
    transport?.close()
  }

  #giveUpSilent(): void {
    const { timers, hostSender } = this.#context
    this.#gaveUpAt = timers.now()
    this.#silentTransport = hostSender.session?.transport
    this.#onLost(HOST_SILENT)
  }

  #closeSilentTransport(): void {
    const transport = this.#silentTransport
    this.#silentTransport = undefined
    transport?.close()
  }

  #onLost(reason: string): void {
    const { hostSender, timers } = this.#context
    // The host may notice the loss later, and process the old connection's `register` after the new one's.
    if (hostSender.session?.isRegistered === false) this.#gaveUpAt = timers.now()
    this.#release()
    this.#sendEvent({ type: 'lost', reason })
  }

  #release(): HostSession | undefined {
    const { hostSender, timers, publish } = this.#context
    const session = hostSender.releaseSession()
    timers.cancelAll(HOST_CONNECTION_TIMER.key())
    this.#lastBeat?.onAnswered()
    if (session?.isRegistered === true) publish({ view: 'host connection', key: 'down' })
    return session
  }
}

type TimerName = 'beat' | 'last beat' | 'register' | 'silence' | 'wait'
export const HOST_CONNECTION_TIMER = timerKind<TimerName>('host-connection')

const NOT_PAIRED: DaemonEnd = {
  is: 'no-credential',
  detail:
    'this machine is not paired; make a token on the host (switchyard workers pair) and name its file as --token-file, or name the file of a join key as --join-key-file',
}
