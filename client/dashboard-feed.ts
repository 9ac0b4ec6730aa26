/**
 * The dashboard socket of a host across lost connections: everything at once in a hello, then every change.
 *
 * A first connection that fails ends the feed with its error. After that the feed dials again for as long as it is
 * open, at the host's new address, and each new connection begins with a hello. A lasting refusal ends the feed.
 */
import type { DashboardFrame } from '../protocol/dashboard.ts'
import type { ClientConnection, ClientSocket, HostAddress, SocketEnd } from './connection.ts'
import { HostRefusal, HostUnreachable, reasonOf } from './errors.ts'
import { REQUEST_LINES } from './request-lines.ts'

export interface FeedListener {
  onFrame(frame: DashboardFrame): void
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
const SOCKET_PATH = REQUEST_LINES.dashboardSocket.split(' ')[1] ?? ''

export class DashboardFeed {
  readonly #connection: ClientConnection
  readonly #listener: FeedListener
  readonly #subscriptions = new Set<string>()
  #socket: ClientSocket | undefined
  #timer: ReturnType<typeof setTimeout> | undefined
  #failures = 0
  #wasLive = false
  #isOpen = false
  #isLive = false
  #isClosed = false

  constructor(connection: ClientConnection, listener: FeedListener) {
    this.#connection = connection
    this.#listener = listener
    this.#dial()
  }

  /** From the first subscription on only the events of subscribed runs are sent. */
  subscribe(runId: string): void {
    this.#subscriptions.add(runId)
    if (this.#isOpen) this.#send('subscribe', runId)
  }

  unsubscribe(runId: string): void {
    if (this.#subscriptions.delete(runId) && this.#isOpen) this.#send('unsubscribe', runId)
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
    const socket = this.#connection.dial(at, SOCKET_PATH, {
      onOpen: () => isCurrent() && this.#onOpen(),
      onText: (text) => isCurrent() && this.#onText(text),
      onEnd: (end) => isCurrent() && this.#onFailure(errorOf(at, end)),
    })
    this.#socket = socket
  }

  #onOpen(): void {
    this.#isOpen = true
    for (const runId of this.#subscriptions) this.#send('subscribe', runId)
  }

  #onHello(): void {
    this.#wasLive = true
    this.#isLive = true
    this.#failures = 0
    this.#listener.onLive?.()
  }

  #onText(text: string): void {
    if (this.#isClosed) return
    try {
      // The host checks the frames that it sends.
      const frame = JSON.parse(text) as DashboardFrame
      if (!this.#isLive) this.#onHello()
      this.#listener.onFrame(frame)
    } catch (error) {
      this.#socket?.close()
      this.#onFailure(new Error(reasonOf(error)), true)
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

  #send(type: 'subscribe' | 'unsubscribe', runId: string): void {
    const asked = type === 'subscribe' ? { type, runId, confirm: true } : { type, runId }
    this.#socket?.send(JSON.stringify(asked))
  }
}

const errorOf = (at: HostAddress, { reply, reason }: SocketEnd): Error =>
  reply === undefined ? new HostUnreachable(at, reason) : new HostRefusal(at, reply, `GET ${SOCKET_PATH}`)
