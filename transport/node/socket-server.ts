/** `SocketServer` holds the WebSockets of one listener by path, and closes silent ones. */
import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import { type WebSocket, WebSocketServer } from 'ws'
import { DROPPED, type ServerSocket, type SocketBehavior } from '../listener-port.ts'
import { createRouter, type Pattern, type Router } from '../router.ts'
import { toArrayBuffer } from '../to-bytes.ts'

const KEY_CHARS = 24

export interface SocketRoute extends Pattern {
  readonly upgrade: SocketBehavior<unknown>['upgrade']
  accept(message: IncomingMessage, connection: Socket, first: Buffer, data: unknown): void
}

export class SocketServer {
  readonly #routes: SocketRoute[] = []
  readonly #parts: SocketParts = { topics: new Topics(), sockets: new Set() }
  #route: Router<SocketRoute> = createRouter([])
  readonly #silenceCheckSeconds: number
  #silenceCheck: NodeJS.Timeout | undefined

  constructor(silenceCheckSeconds: number) {
    this.#silenceCheckSeconds = silenceCheckSeconds
  }

  serve<T>(path: string, behavior: SocketBehavior<T>): void {
    const server = new WebSocketServer({
      noServer: true,
      clientTracking: false,
      perMessageDeflate: false,
      autoPong: false,
      // No subprotocol is accepted.
      handleProtocols: () => false,
      maxPayload: behavior.maxPayloadLength,
    })
    const accept: SocketRoute['accept'] = (message, connection, first, data) =>
      server.handleUpgrade(message, connection, first, (socket) => {
        // The data is what `behavior.upgrade` has returned.
        new WsSocket(socket, connection, behavior, data as T, this.#parts)
      })
    this.#routes.push({ method: 'GET', path, upgrade: behavior.upgrade, accept })
    this.#route = createRouter(this.#routes)
    this.#silenceCheck ??= setInterval(() => this.#countSilence(), this.#silenceCheckSeconds * 1000).unref()
  }

  /** The route of an upgrade to a WebSocket. */
  find({ method, url = '', headers }: IncomingMessage): SocketRoute | undefined {
    if (headers['sec-websocket-key']?.length !== KEY_CHARS) return undefined
    return this.#route(url.replace(/\?.*$/s, ''))?.path.byMethod.get(method ?? '')
  }

  publish(topic: string, message: Uint8Array): void {
    for (const socket of this.#parts.topics.subscribersOf(topic)) socket.publish(message)
  }

  close(): void {
    clearInterval(this.#silenceCheck)
    for (const socket of [...this.#parts.sockets]) socket.close()
  }

  #countSilence(): void {
    for (const socket of [...this.#parts.sockets]) socket.countSilence(this.#silenceCheckSeconds)
  }
}

// ---- one socket ----------------------------------------------------------------------------------------------------

/** How long a closed socket may take to read its close frame and to answer it. */
const CLOSE_MS_MAX = 10_000
const QUEUED = 0
const SENT = 1
const TEXT = { binary: false, compress: false }

/** The parts of a listener that its sockets use. */
interface SocketParts {
  readonly topics: Topics<WsSocket<unknown>>
  readonly sockets: Set<WsSocket<unknown>>
}

/**
 * `WsSocket` implements the port's WebSocket with ws: a limited backlog, topics, pings, and an end that the
 * application learns at once.
 */
class WsSocket<T> implements ServerSocket<T> {
  readonly #socket: WebSocket
  readonly #connection: Socket
  readonly #behavior: SocketBehavior<T>
  readonly #data: T
  readonly #parts: SocketParts
  readonly #address: ArrayBuffer
  /** Undefined when there is none, because most sockets have none. */
  #topics: Set<string> | undefined
  #isOpen = true
  #isBackedUp = false
  #silentSeconds = 0

  constructor(
    socket: WebSocket,
    connection: Socket,
    behavior: SocketBehavior<T>,
    data: T,
    parts: SocketParts,
  ) {
    this.#socket = socket
    this.#connection = connection
    this.#behavior = behavior
    this.#data = data
    this.#parts = parts
    this.#address = toArrayBuffer(Buffer.from(connection.remoteAddress ?? ''))
    parts.sockets.add(this.#untyped)
    socket.on('message', (bytes, isBinary) => this.#onMessage(bytes, isBinary))
    socket.on('ping', (payload) => this.#onPing(payload))
    socket.on('pong', () => this.#onReceived())
    socket.on('close', () => this.#finish())
    // An invalid frame: ws has sent a close frame.
    socket.on('error', () => this.#shutDown())
    behavior.open(this)
  }

  send(message: Uint8Array): number {
    if (!this.#isOpen || this.getBufferedAmount() > this.#behavior.maxBackpressure) return DROPPED
    this.#socket.send(message, TEXT, this.#onFlushed)
    if (this.getBufferedAmount() === 0) return SENT
    this.#isBackedUp = true
    return QUEUED
  }

  /** Sends a published message. */
  publish(message: Uint8Array): void {
    if (this.#isOpen && this.send(message) === DROPPED) this.#behavior.dropped?.(this)
  }

  getUserData(): T {
    return this.#data
  }

  getBufferedAmount(): number {
    return this.#socket.bufferedAmount
  }

  getRemoteAddressAsText(): ArrayBuffer {
    return this.#address
  }

  subscribe(topic: string): void {
    this.#topics ??= new Set()
    this.#topics.add(topic)
    this.#parts.topics.add(topic, this.#untyped)
  }

  unsubscribe(topic: string): void {
    this.#topics?.delete(topic)
    this.#parts.topics.remove(topic, this.#untyped)
  }

  getTopics(): string[] {
    return [...(this.#topics ?? [])]
  }

  cork(run: () => void): void {
    this.#connection.cork()
    run()
    this.#connection.uncork()
  }

  end(code: number, reason: Uint8Array): void {
    if (!this.#isOpen) return
    this.#socket.close(code, Buffer.from(reason))
    this.#shutDown()
  }

  close(): void {
    this.#socket.terminate()
    this.#finish()
  }

  /** Called every `seconds`: pings a silent socket, and closes one that does not answer. */
  countSilence(seconds: number): void {
    this.#silentSeconds += seconds
    if (this.#silentSeconds >= this.#behavior.idleTimeout) this.close()
    else if (this.#silentSeconds >= this.#behavior.idleTimeout / 2) this.#socket.ping()
  }

  /** The listener's collections hold sockets with data of any type. */
  get #untyped(): WsSocket<unknown> {
    return this as WsSocket<unknown>
  }

  readonly #onFlushed = (): void => {
    if (!this.#isBackedUp || !this.#isOpen || this.getBufferedAmount() > 0) return
    this.#isBackedUp = false
    this.#behavior.drain(this)
  }

  #onMessage(bytes: unknown, isBinary: boolean): void {
    this.#onReceived()
    // The binary type of ws is `nodebuffer`, which joins fragments.
    if (this.#isOpen && Buffer.isBuffer(bytes)) this.#behavior.message(this, toArrayBuffer(bytes), isBinary)
  }

  /** ws would answer pings without a limit, for a client that reads no answers too. */
  #onPing(payload: Buffer): void {
    this.#onReceived()
    if (!this.#isOpen) return
    if (this.getBufferedAmount() <= this.#behavior.maxBackpressure) this.#socket.pong(payload)
    this.#behavior.ping?.(this)
  }

  #onReceived(): void {
    this.#silentSeconds = 0
  }

  /** Ends the connection behind the close frame. */
  #shutDown(): void {
    const connection = this.#connection
    const timer = setTimeout(() => connection.destroy(), CLOSE_MS_MAX).unref()
    connection.once('close', () => clearTimeout(timer))
    connection.end()
    this.#finish()
  }

  #finish(): void {
    if (!this.#isOpen) return
    this.#isOpen = false
    for (const topic of this.getTopics()) this.unsubscribe(topic)
    this.#parts.sockets.delete(this.#untyped)
    this.#behavior.close(this)
  }
}

// ---- topics --------------------------------------------------------------------------------------------------------

/** `Topics` keeps the subscribers of each topic of one listener. */
class Topics<Subscriber> {
  readonly #subscribers = new Map<string, Set<Subscriber>>()

  add(topic: string, subscriber: Subscriber): void {
    const known = this.#subscribers.get(topic)
    if (known === undefined) this.#subscribers.set(topic, new Set([subscriber]))
    else known.add(subscriber)
  }

  remove(topic: string, subscriber: Subscriber): void {
    const known = this.#subscribers.get(topic)
    known?.delete(subscriber)
    if (known?.size === 0) this.#subscribers.delete(topic)
  }

  subscribersOf(topic: string): Iterable<Subscriber> {
    return this.#subscribers.get(topic) ?? []
  }
}
