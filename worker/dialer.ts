/**
 * The worker's line to its host: one WebSocket each time it dials.
 *
 * Whatever happens (no such name, a certificate nobody vouches for, a peer that accepts and then says nothing, a cut
 * cable), the ear hears `closed` once, after everything else, with a reason that a person can act on. Nothing here
 * throws, and nothing is heard while `dial` or `close` is still on the stack.
 */
import { createSecureContext, type SecureContext } from 'node:tls'
import { isNativeError } from 'node:util/types'
import { WebSocket } from 'undici'
import type { ConnectionListener, Dialer, DialledConnection } from '../core/daemon/ports.ts'
import type { Cancel, Clock, Log } from '../core/ports.ts'
import type { ProxySettings } from '../providers/http/http.ts'
import { DialNetwork } from './dial-network.ts'

export interface DialerOptions {
  /** The address of the worker channel. */
  readonly url: () => string
  readonly clock: Clock
  readonly log: Log
  /** Certificates that may vouch for the host; without them, those that Node comes with. */
  readonly authorities?: readonly string[]
  /** The way out of this network; without it the line is direct. */
  readonly proxies?: ProxySettings
  readonly connectMsMax?: number
}

/** From dialling to an open line, all handshakes included. */
const CONNECT_MS_MAX = 15_000
/** How long a peer may take to say goodbye. */
const CLOSE_MS_MAX = 2_000
const REASON_CHARS_MAX = 300

export function createDialer(options: DialerOptions): Dialer {
  const { authorities, log } = options
  let lastReason: string | undefined
  // Once: reading hundreds of certificates takes longer than all the rest of dialling.
  const trust =
    authorities === undefined
      ? undefined
      : createSecureContext({ ca: [...authorities], minVersion: 'TLSv1.2' })
  /** Each trouble once, however often it is dialled meanwhile. */
  const logState = (reason: string | undefined) => {
    if (reason === undefined || reason === lastReason) log.debug({ reason }, 'the line to the host')
    else log.warn({ reason }, 'no line to the host; it is dialled again')
    lastReason = reason
  }
  return { dial: (listener) => new WebSocketConnection(options, trust, listener, logState) }
}

class WebSocketConnection implements DialledConnection {
  readonly #clock: Clock
  readonly #listener: ConnectionListener
  readonly #network: DialNetwork
  readonly #logState: (trouble: string | undefined) => void
  #socket: WebSocket | undefined
  #cancelTimer: Cancel
  #isOpen = false
  #isOver = false
  /** By us: no trouble. */
  #isClosedByUs = false

  constructor(
    options: DialerOptions,
    trust: SecureContext | undefined,
    listener: ConnectionListener,
    logState: (trouble: string | undefined) => void,
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
      this.#socket = this.#open(options.url())
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

  #open(url: string): WebSocket {
    const socket = new WebSocket(url, { dispatcher: this.#network })
    socket.addEventListener('open', () => this.#onOpen())
    socket.addEventListener('message', ({ data }) => this.#onMessage(data))
    // What went wrong is told with the close event, which always follows.
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
    else this.#abort('the host sent something that is not text')
  }

  #describeClose(code: number, reason: string): string {
    if (this.#network.failure !== undefined) return this.#network.failure
    if (!this.#network.isDispatched)
      return 'nothing was dialled: this port is on the list of those that no WebSocket may use; give the host another'
    const detail = reason === '' ? '' : `: ${reason.slice(0, REASON_CHARS_MAX)}`
    return code === 1006 ? 'the line broke' : `the host closed it (${code}${detail})`
  }

  /** Without waiting for anybody. */
  #abort(reason: string): void {
    this.#finish(reason)
    this.#network.destroySocket()
    // Before the handshake is done, this aborts it.
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

const textOf = (error: unknown): string =>
  (isNativeError(error) ? error.message : String(error)).slice(0, REASON_CHARS_MAX)
