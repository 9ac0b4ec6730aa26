/**
 * `createDialer` opens the worker's connection to its host: one WebSocket per `dial`.
 *
 * The listener receives `onClose` exactly once, as its last call, with a reason that a person can act on: for an unknown
 * host, an untrusted certificate, a silent peer or a cut cable alike. `dial` and `close` never throw, and call the
 * listener only after they have returned.
 */
import { WebSocket } from 'undici'
import type { ConnectionListener, Dialer, DialledConnection } from '../core/daemon/ports.ts'
import type { Cancel, Clock } from '../core/ports/clock.ts'
import type { Log } from '../core/ports/log.ts'
import type { WorkerAuth } from '../protocol/frames.ts'
import { messageOf } from '../protocol/message-of.ts'
import { WORKER_ID_HEADER } from '../protocol/worker.ts'
import { type DialAddress, DialNetwork, type DialTrust, trustOf } from './dial-network.ts'

export interface DialerOptions extends DialAddress {
  readonly clock: Clock
  readonly log: Log
  readonly connectMsMax?: number
}

/** Time limit from dialling to an open WebSocket, including all handshakes. */
const CONNECT_MS_MAX = 15_000
/** How long the peer may take to answer the close frame. */
const CLOSE_MS_MAX = 2_000
const REASON_CHARS_MAX = 300

export function createDialer(options: DialerOptions): Dialer {
  const { log } = options
  let lastReason: string | undefined
  const trust = trustOf(options)
  /** Warns once per reason, however often the worker dials again. */
  const logState = (reason: string | undefined) => {
    if (reason === undefined || reason === lastReason)
      log.debug({ reason }, 'the connection to the host changed its state')
    else log.warn({ reason }, 'no connection to the host; dialling again')
    lastReason = reason
  }
  return { dial: (listener, proof) => new WebSocketConnection(options, trust, listener, proof, logState) }
}

class WebSocketConnection implements DialledConnection {
  readonly #clock: Clock
  readonly #listener: ConnectionListener
  readonly #network: DialNetwork
  readonly #logState: (failure: string | undefined) => void
  #socket: WebSocket | undefined
  #cancelTimer: Cancel
  #isOpen = false
  #isOver = false
  /** Closed by `close()`, so no failure to log. */
  #isClosedByUs = false

  constructor(
    options: DialerOptions,
    trust: DialTrust,
    listener: ConnectionListener,
    proof: WorkerAuth,
    logState: (failure: string | undefined) => void,
  ) {
    this.#logState = logState
    const { clock, connectMsMax = CONNECT_MS_MAX } = options
    this.#clock = clock
    this.#listener = listener
    this.#network = new DialNetwork(options.proxies, trust, connectMsMax)
    this.#cancelTimer = clock.after(connectMsMax, () =>
      this.#abort(`no answer within ${connectMsMax / 1000} s`),
    )
    try {
      this.#socket = this.#open(options.url(), proof)
    } catch (error) {
      this.#abort(textOf(error))
    }
  }

  send(text: string): void {
    if (this.#isOpen && !this.#isOver) this.#socket?.send(text)
  }

  backlogBytes(): number {
    return this.#socket?.bufferedAmount ?? 0
  }

  close(): void {
    if (this.#isOver) return
    if (!this.#isOpen) {
      this.#isClosedByUs = true
      this.#abort('closed before it was open')
      return
    }
    this.#isOpen = false
    this.#isClosedByUs = true
    this.#cancelTimer()
    this.#cancelTimer = this.#clock.after(CLOSE_MS_MAX, () => this.#abort('closed'))
    this.#socket?.close(1000)
  }

  #open(url: string, proof: WorkerAuth): WebSocket {
    const socket = new WebSocket(url, { dispatcher: this.#network, headers: proofHeaders(proof) })
    socket.addEventListener('open', () => this.#onOpen())
    socket.addEventListener('message', ({ data }) => this.#onMessage(data))
    // The close event always follows, and carries the reason.
    socket.addEventListener('error', () => {})
    socket.addEventListener('close', ({ code, reason }) => this.#finish(this.#describeClose(code, reason)))
    return socket
  }

  #onOpen(): void {
    if (this.#isOver) return
    this.#cancelTimer()
    this.#isOpen = true
    this.#logState(undefined)
    this.#listener.onOpen()
  }

  #onMessage(data: unknown): void {
    if (!this.#isOpen || this.#isOver) return
    if (typeof data === 'string') this.#listener.onText(data)
    else this.#abort('the host sent a message that is not text')
  }

  #describeClose(code: number, reason: string): string {
    if (this.#network.failure !== undefined) return this.#network.failure
    if (!this.#network.isDispatched)
      return 'not connected: WebSockets may not use this port; configure another port for the host'
    const detail = reason === '' ? '' : `: ${reason.slice(0, REASON_CHARS_MAX)}`
    return code === 1006 ? 'the connection broke' : `the host closed the connection (${code}${detail})`
  }

  /** Ends the connection at once, without waiting for the peer. */
  #abort(reason: string): void {
    this.#finish(reason)
    this.#network.destroySocket()
    // During the handshake, `close` aborts it.
    if (this.#socket !== undefined && this.#socket.readyState <= WebSocket.OPEN) this.#socket.close()
  }

  #finish(reason: string): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#cancelTimer()
    if (!this.#isClosedByUs) this.#logState(reason)
    this.#clock.endOfTick(() => {
      this.#network.dispose()
      this.#listener.onClose(reason)
    })
  }
}

/** A header, because addresses end up in logs. */
function proofHeaders(proof: WorkerAuth): Record<string, string> {
  if (proof.kind === 'pairing') return { authorization: `Bearer ${proof.token}` }
  if (proof.kind === 'join') return { authorization: `Bearer ${proof.key}` }
  return { authorization: `Bearer ${proof.secret}`, [WORKER_ID_HEADER]: proof.workerId }
}

const textOf = (error: unknown): string => messageOf(error).slice(0, REASON_CHARS_MAX)
