/**
 * HostSender sends frames to the host over the current connection, and answers what others ask about that connection.
 *
 * HostConnection opens, registers and releases the sessions; all other parts of the daemon only send and ask.
 */
import type { DialledConnection, WorkerIdentity } from '../../core/daemon/ports.ts'
import { interruptUnbegun } from '../../core/run/interruption.ts'
import { firstFormText } from '../../protocol/first-form.ts'
import { encodeFrame } from '../../protocol/frame-budget.ts'
import type { HostFrameOf, WorkerAuth, WorkerFrame } from '../../protocol/frames.ts'
import type { WorkerState } from '../../protocol/worker.ts'
import type { SleepAwareTimers } from './sleep-aware-timers.ts'

export interface HostSenderPorts {
  readonly timers: Pick<SleepAwareTimers, 'now'>
  readonly identity: Pick<WorkerIdentity, 'credential'>
  /** Whether this worker still owns its data directory; one that does not sends no frame. */
  readonly maySend: () => boolean
}

/** A connection to the host, from the dial to its loss. Instants are monotonic. */
export interface HostSession {
  transport: DialledConnection | undefined
  readonly auth: WorkerAuth
  /** The host has refused a `register` with keys that the first form lacks. */
  readonly isFirstForm: boolean
  isRegistered: boolean
  readonly dialledAt: number
  /** When `register` was sent; before that, when the connection was dialled. */
  registerSentAt: number
  receivedAt: number
  heartbeatMs: number
}

export class HostSender {
  /** The state that the host has given this worker, as of the last frame that names it. */
  workerState: WorkerState = 'active'
  readonly #ports: HostSenderPorts
  #session: HostSession | undefined
  #workerId: string | undefined

  constructor(ports: HostSenderPorts) {
    this.#ports = ports
  }

  // ---- sending -----------------------------------------------------------------------------------------------------

  get isUp(): boolean {
    return this.#session?.isRegistered === true
  }

  /** The host of the current connection knows the first form only. */
  get isFirstForm(): boolean {
    return this.#session?.isFirstForm === true
  }

  /** Sends a frame that is not kept for later: without a connection the frame is dropped. */
  send(frame: WorkerFrame): void {
    if (this.isUp) this.sendText(encodeFrame(frame))
  }

  /** A frame that the host's form lacks is not sent. */
  sendText(text: string): void {
    const readable = this.isFirstForm ? firstFormText(interruptUnbegun(JSON.parse(text))) : text
    if (readable !== undefined && this.#ports.maySend()) this.#session?.transport?.send(readable)
  }

  /** The bytes that wait unsent in the socket. */
  backlog(): number {
    return this.#session?.transport?.backlogBytes() ?? 0
  }

  /** The id that the host has assigned; undefined before the first registration. */
  get workerId(): string | undefined {
    return this.#workerId ?? this.#ports.identity.credential()?.workerId
  }

  /** When `register` was sent: the starting point for acknowledgements that carry no `echo`. */
  get registeredAt(): number {
    return this.#session?.registerSentAt ?? this.#ports.timers.now()
  }

  /** An object unique to the current connection, to detect a reconnect. undefined: not registered. */
  get connectionKey(): object | undefined {
    return this.isUp ? this.#session : undefined
  }

  // ---- the session -------------------------------------------------------------------------------------------------

  get session(): HostSession | undefined {
    return this.#session
  }

  openSession(session: HostSession): void {
    this.#session = session
  }

  /** The host has accepted the worker on this session: from now on frames are sent. */
  registerSession(session: HostSession, { workerId, state }: HostFrameOf<'registered'>): void {
    session.isRegistered = true
    this.#workerId = workerId
    this.workerState = state
  }

  /** Returns the session that was current. The caller closes its transport. */
  releaseSession(): HostSession | undefined {
    const session = this.#session
    this.#session = undefined
    return session
  }
}
