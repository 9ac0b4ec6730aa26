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

export interface DialerParts {
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

export function makeDialer(parts: DialerParts): Dialer {
  const { authorities, log } = parts
  let told: string | undefined
  // Once: reading hundreds of certificates takes longer than all the rest of dialling.
  const trust =
    authorities === undefined
      ? undefined
      : createSecureContext({ ca: [...authorities], minVersion: 'TLSv1.2' })
  /** Each trouble once, however often it is dialled meanwhile. */
  const tell = (reason: string | undefined) => {
    if (reason === undefined || reason === told) log.debug({ reason }, 'the line to the host')
    else log.warn({ reason }, 'no line to the host; it is dialled again')
    told = reason
  }
  return { dial: (ear) => new Line(parts, trust, ear, tell) }
}

class Line implements DialledConnection {
  readonly #clock: Clock
  readonly #ear: ConnectionListener
  readonly #network: DialNetwork
  readonly #tell: (trouble: string | undefined) => void
  #socket: WebSocket | undefined
  #timer: Cancel
  #isOpen = false
  #isOver = false
  /** By us: no trouble. */
  #isLeft = false

  constructor(
    parts: DialerParts,
    trust: SecureContext | undefined,
    ear: ConnectionListener,
    tell: (trouble: string | undefined) => void,
  ) {
    this.#tell = tell
    const { clock, connectMsMax = CONNECT_MS_MAX } = parts
    this.#clock = clock
    this.#ear = ear
    this.#network = new DialNetwork(parts.proxies, trust, connectMsMax)
    this.#timer = clock.after(connectMsMax, () => this.#cut(`no answer within ${connectMsMax / 1000} s`))
    try {
      this.#socket = this.#open(parts.url())
    } catch (error) {
      this.#cut(textOf(error))
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
      this.#isLeft = true
      this.#cut('closed before it was open')
      return
    }
    this.#isOpen = false
    this.#isLeft = true
    this.#timer()
    this.#timer = this.#clock.after(CLOSE_MS_MAX, () => this.#cut('closed'))
    this.#socket?.close(1000)
  }

  #open(url: string): WebSocket {
    const socket = new WebSocket(url, { dispatcher: this.#network })
    socket.addEventListener('open', () => this.#opened())
    socket.addEventListener('message', ({ data }) => this.#heard(data))
    // What went wrong is told with the close event, which always follows.
    socket.addEventListener('error', () => {})
    socket.addEventListener('close', ({ code, reason }) => this.#end(this.#why(code, reason)))
    return socket
  }

  #opened(): void {
    if (this.#isOver) return
    this.#timer()
    this.#isOpen = true
    this.#tell(undefined)
    this.#ear.onOpen()
  }

  #heard(data: unknown): void {
    if (!this.#isOpen || this.#isOver) return
    if (typeof data === 'string') this.#ear.onText(data)
    else this.#cut('the host sent something that is not text')
  }

  #why(code: number, reason: string): string {
    if (this.#network.trouble !== undefined) return this.#network.trouble
    if (!this.#network.isAsked)
      return 'nothing was dialled: this port is on the list of those that no WebSocket may use; give the host another'
    const said = reason === '' ? '' : `: ${reason.slice(0, REASON_CHARS_MAX)}`
    return code === 1006 ? 'the line broke' : `the host closed it (${code}${said})`
  }

  /** Without waiting for anybody. */
  #cut(reason: string): void {
    this.#end(reason)
    this.#network.cut()
    // Before the handshake is done, this aborts it.
    if (this.#socket !== undefined && this.#socket.readyState <= WebSocket.OPEN) this.#socket.close()
  }

  #end(reason: string): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#timer()
    if (!this.#isLeft) this.#tell(reason)
    this.#clock.endOfTick(() => {
      this.#network.leave()
      this.#ear.onClose(reason)
    })
  }
}

const textOf = (error: unknown): string =>
  (isNativeError(error) ? error.message : String(error)).slice(0, REASON_CHARS_MAX)
