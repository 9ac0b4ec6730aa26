/**
 * A socket of a host that begins with a hello, across lost connections: the dashboard's and the inspector's.
 *
 * A first connection that fails ends the feed with its error. After that the feed dials again for as long as it is
 * open, at the host's new address, and each new connection begins with a hello. A lasting refusal ends the feed.
 */
import type { InspectFrame, InspectRequest } from '../protocol/inspection.ts'
import type { ClientConnection, ClientSocket, HostAddress, SocketEnd } from './connection.ts'
import { HostRefusal, HostUnreachable, parseOrUndefined, reasonOf } from './errors.ts'
import { REQUEST_LINES } from './request-lines.ts'

export interface FeedListener<F> {
  onFrame(frame: F): void
  /** A connection was lost, and others follow; called once until the next `onLive`. */
  onLost?(reason: string): void
  /** A connection has brought its hello, which follows. An open socket alone may be that of a program in between. */
  onLive?(): void
  /** No connection is open; the next attempt follows after so many milliseconds. */
  onWait?(ms: number): void
  /** The feed has ended by itself; nothing follows. */
  onEnd(error: Error): void
}

/** The pauses between attempts; the last one is repeated. */
const RETRY_PAUSES_MS = [200, 500, 1_000, 2_000, 4_000, 5_000]

export class HostFeed<F> {
  readonly #connection: ClientConnection
  readonly #path: string
  readonly #listener: FeedListener<F>
  readonly #onOpened: () => void
  #socket: ClientSocket | undefined
  #timer: ReturnType<typeof setTimeout> | undefined
  #failures = 0
  #wasLive = false
  #isOpen = false
  #isLive = false
  #isClosed = false

  /** @param onOpened sends again what a connection before this one was told */
  constructor(
    connection: ClientConnection,
    path: string,
    listener: FeedListener<F>,
    onOpened: () => void = () => {},
  ) {
    this.#connection = connection
    this.#path = path
    this.#listener = listener
    this.#onOpened = onOpened
    this.#dial()
  }

  /** Does nothing while no connection is open. */
  send(frame: object): void {
    if (this.#isOpen) this.#socket?.send(JSON.stringify(frame))
  }

  /** Dials at once: instead of after a pause, or because the open connection may be dead after a sleep. */
  redial(): void {
    if (this.#isClosed || !this.#wasLive) return
    clearTimeout(this.#timer)
    const socket = this.#socket
    this.#socket = undefined
    this.#isOpen = false
    this.#isLive = false
    socket?.close()
    this.#dial()
  }

  close(): void {
    this.#isClosed = true
    clearTimeout(this.#timer)
    this.#socket?.close()
  }

  #dial(): void {
    this.#open().catch((error: unknown) =>
      this.#onFailure(error instanceof Error ? error : new Error(String(error))),
    )
  }

  async #open(): Promise<void> {
    const at = await this.#connection.address()
    if (this.#isClosed) return
    // A socket that another one has replaced reports nothing.
    const isCurrent = () => this.#socket === socket
    const socket = this.#connection.dial(at, this.#path, {
      onOpen: () => isCurrent() && this.#onOpen(),
      onText: (text) => isCurrent() && this.#onText(at, text),
      onEnd: (end) => isCurrent() && this.#onFailure(errorOf(at, this.#path, end)),
    })
    this.#socket = socket
  }

  #onOpen(): void {
    this.#isOpen = true
    this.#onOpened()
  }

  #onHello(): void {
    this.#wasLive = true
    this.#isLive = true
    this.#failures = 0
    this.#listener.onLive?.()
  }

  #onText(at: HostAddress, text: string): void {
    if (this.#isClosed) return
    try {
      const frame = readFrame<F>(at, text)
      if (!this.#isLive) this.#onHello()
      this.#listener.onFrame(frame)
    } catch (error) {
      this.#socket?.close()
      this.#onFailure(error instanceof HostUnreachable ? error : new Error(reasonOf(error)), true)
    }
  }

  #onFailure(error: Error, isLasting = error instanceof HostRefusal && error.isLasting): void {
    if (this.#isClosed) return
    const isNew = this.#isLive || this.#failures === 0
    this.#isOpen = false
    this.#isLive = false
    if (!this.#wasLive || isLasting) {
      this.#isClosed = true
      this.#listener.onEnd(error)
      return
    }
    const ms = RETRY_PAUSES_MS[Math.min(this.#failures++, RETRY_PAUSES_MS.length - 1)] ?? 0
    if (isNew) this.#listener.onLost?.(error.message)
    this.#listener.onWait?.(ms)
    this.#timer = setTimeout(() => this.#dial(), ms)
  }
}

/** The host checks the frames that it sends, and each has a type. */
function readFrame<F>(at: HostAddress, text: string): F {
  const frame: unknown = parseOrUndefined(text)
  if (typeof Reflect.get(Object(frame), 'type') === 'string') return frame as F
  throw new HostUnreachable(at, 'what is there sends frames in a form that a host does not use')
}

const errorOf = (at: HostAddress, path: string, { reply, reason }: SocketEnd): Error =>
  reply === undefined ? new HostUnreachable(at, reason) : new HostRefusal(at, reply, `GET ${path}`)

const INSPECT_SOCKET_PATH = REQUEST_LINES.inspectSocket.split(' ')[1] ?? ''

/** The inspection socket of a host: its actors at once, then what happens to them. */
export class InspectFeed {
  readonly #feed: HostFeed<InspectFrame>
  #request: InspectRequest | undefined

  constructor(connection: ClientConnection, listener: FeedListener<InspectFrame>) {
    this.#feed = new HostFeed(connection, INSPECT_SOCKET_PATH, listener, () => {
      if (this.#request !== undefined) this.#feed.send(this.#request)
    })
  }

  /** Whom the viewer follows; a new connection hears it too. */
  follow(request: Omit<InspectRequest, 'type'>): void {
    this.#request = { type: 'inspect-follow', ...request }
    this.#feed.send(this.#request)
  }

  redial(): void {
    this.#feed.redial()
  }

  close(): void {
    this.#feed.close()
  }
}
