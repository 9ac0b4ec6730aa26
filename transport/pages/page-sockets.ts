/**
 * The sockets of a page: each has a socket of the host of its own, and texts pass through both ways.
 *
 * Texts that come before the host's socket is open wait, up to a limit. A hello may be larger than the backlog limit, so
 * what follows a large text waits here until the browser has read that one. A browser that reads too slowly is closed,
 * as the host would close it.
 */
import type { Clock } from '../../core/ports/clock.ts'
import {
  ATTACH_FRAME_BYTES_MAX,
  DASHBOARD_BACKLOG_BYTES_MAX,
  SOCKET_IDLE_SECONDS,
} from '../../protocol/limits.ts'
import type { ListenerApp, ServerSocket } from '../listener-port.ts'
import { type Reply, refusal, send } from '../reply.ts'
import { readQueryText } from '../request-head.ts'
import { BoundedSender, CLOSE } from '../sockets/bounded-sender.ts'
import type { ForwardedSocket, HostForwarder } from './page-server-options.ts'
import { type BrowserRequest, readBrowserRequest, refuseForeign } from './page-sessions.ts'

/** Sockets of browsers, and requests that wait for the host, at one time. */
const PAGE_SOCKETS_MAX = 64
/** Programs that listen at a page's port, and what one may send. */
const PROGRAM_SOCKETS_MAX = 16
const PROGRAM_FRAME_BYTES_MAX = 64 * 1024
/** The bytes that a browser may send before its socket has reached the host. */
const PAGE_SOCKET_EARLY_BYTES_MAX = 256 * 1024

interface PageSocketData {
  readonly path: string
  relay?: SocketRelay
}

export interface PageSocketOptions {
  readonly clock: Clock
  readonly forwarder: HostForwarder
  readonly admit: (request: BrowserRequest) => Reply | undefined
}

const TOO_MANY = refusal(503, 'too many pages are open; close one')
const TOO_SLOW = 'too slow: more than the backlog limit was waiting; connect again'

export class PageSockets {
  readonly #options: PageSocketOptions
  readonly #relays = new Set<SocketRelay>()

  constructor(options: PageSocketOptions) {
    this.#options = options
  }

  serve(app: ListenerApp, path: string): void {
    app.ws<PageSocketData>(path, {
      maxPayloadLength: ATTACH_FRAME_BYTES_MAX,
      maxBackpressure: DASHBOARD_BACKLOG_BYTES_MAX,
      idleTimeout: SOCKET_IDLE_SECONDS,
      sendPingsAutomatically: true,
      upgrade: (response, request, context) => {
        const read = readBrowserRequest(request)
        const refused =
          this.#options.admit(read) ?? (this.#relays.size >= PAGE_SOCKETS_MAX ? TOO_MANY : undefined)
        const { path, query } = read.head
        const data: PageSocketData = { path: `${path}${query === '' ? '' : `?${query}`}` }
        if (refused !== undefined) send(response, refused)
        else response.upgrade(data, request.getHeader('sec-websocket-key'), '', '', context)
      },
      open: (socket) => {
        const relay = new SocketRelay(socket, this.#options)
        socket.getUserData().relay = relay
        this.#relays.add(relay)
      },
      message: (socket, bytes, isBinary) => socket.getUserData().relay?.onMessage(bytes, isBinary),
      drain: (socket) => socket.getUserData().relay?.onDrained(),
      close: (socket) => {
        const { relay } = socket.getUserData()
        if (relay === undefined) return
        this.#relays.delete(relay)
        relay.onClosed()
      },
    })
  }

  count(): number {
    return this.#relays.size
  }

  closeAll(reason: string): void {
    for (const relay of this.#relays) relay.close(CLOSE.goingAway, reason)
  }
}

/** Whether a close frame may have this code. */
const isSendable = (code: number): boolean =>
  code >= 1000 && code < 5000 && ![1004, 1005, 1006, 1015].includes(code)

class SocketRelay {
  readonly #socket: ServerSocket<PageSocketData>
  readonly #browser: BoundedSender
  readonly #host: ForwardedSocket
  #early: string[] | undefined = []
  #earlyBytes = 0
  /** Texts for the browser behind one that is still being sent. */
  #queued: string[] = []
  #queuedBytes = 0
  #isOver = false

  constructor(socket: ServerSocket<PageSocketData>, { clock, forwarder }: PageSocketOptions) {
    this.#socket = socket
    this.#browser = new BoundedSender(socket, clock, () => {})
    this.#host = forwarder.dial(socket.getUserData().path, {
      onOpen: () => this.#onOpen(),
      onText: (text) => this.#onText(text),
      onEnd: (reason, code) => this.#onHostEnd(reason, code),
    })
  }

  onMessage(bytes: ArrayBuffer, isBinary: boolean): void {
    if (isBinary) {
      this.close(CLOSE.badData, 'frames are JSON text, not binary')
      return
    }
    const text = Buffer.from(bytes).toString()
    if (this.#early === undefined) {
      if (this.#host.backlog() <= DASHBOARD_BACKLOG_BYTES_MAX) this.#host.send(text)
      else this.close(CLOSE.tryAgainLater, 'the host reads too slowly; connect again')
      return
    }
    this.#earlyBytes += bytes.byteLength
    if (this.#earlyBytes > PAGE_SOCKET_EARLY_BYTES_MAX)
      this.close(CLOSE.policy, 'too much was sent before the host has answered')
    else this.#early.push(text)
  }

  onDrained(): void {
    this.#browser.onDrained()
    if (this.#queued.length === 0 || !this.#browser.isOpen || this.#socket.getBufferedAmount() > 0) return
    const queued = this.#queued
    this.#queued = []
    this.#queuedBytes = 0
    for (const text of queued) this.#onText(text)
  }

  onClosed(): void {
    this.#browser.onClosed()
    this.#endHost()
  }

  close(code: number, reason: string): void {
    this.#browser.closeAfterDrain(code, reason)
    this.#endHost()
  }

  #onOpen(): void {
    const early = this.#early ?? []
    this.#early = undefined
    for (const text of early) this.#host.send(text)
  }

  #onText(text: string): void {
    if (!this.#browser.isOpen || (this.#queued.length === 0 && this.#browser.send(text))) return
    this.#queued.push(text)
    this.#queuedBytes += Buffer.byteLength(text)
    if (this.#queuedBytes > DASHBOARD_BACKLOG_BYTES_MAX) this.close(CLOSE.tryAgainLater, TOO_SLOW)
  }

  #onHostEnd(reason: string, code = CLOSE.tryAgainLater as number): void {
    this.#isOver = true
    // Texts that still wait are dropped, and the browser has to learn that it has missed some.
    if (this.#queued.length > 0) this.#browser.closeAfterDrain(CLOSE.tryAgainLater, TOO_SLOW)
    else this.#browser.closeAfterDrain(isSendable(code) ? code : CLOSE.tryAgainLater, reason)
  }

  #endHost(): void {
    if (!this.#isOver) this.#host.close()
    this.#isOver = true
  }
}

// ---- sockets of programs -------------------------------------------------------------------------------------------

/** Sends to one program until it is closed. */
export interface ProgramSource {
  /** @param send answers whether the text was taken; after `end` it does nothing */
  open(send: (text: string) => boolean, end: (reason: string) => void): { close(): void }
}

interface ProgramSocketOptions {
  readonly clock: Clock
  readonly source: ProgramSource
  /** Whether the code is good; it is good once. */
  readonly takesCode: (code: string) => boolean
  readonly signedOut: Reply
}

interface ProgramSocketData {
  sender?: BoundedSender
  close?: () => void
}

const TOO_MANY_FEEDS = refusal(503, 'too many programs listen; close one')
const BACKLOG_BYTES_MAX = 64 * 1024 * 1024

/**
 * Sockets of a page's listener for programs, such as inspection tools of others: a code in the query stands in the
 * cookie's place, and the program only listens.
 *
 * A browser names its origin in every upgrade, so one of another origin is refused before its code is looked at.
 */
export class ProgramSockets {
  readonly #options: ProgramSocketOptions
  readonly #senders = new Set<BoundedSender>()

  constructor(options: ProgramSocketOptions) {
    this.#options = options
  }

  serve(app: ListenerApp, path: string): void {
    app.ws<ProgramSocketData>(path, {
      maxPayloadLength: PROGRAM_FRAME_BYTES_MAX,
      maxBackpressure: BACKLOG_BYTES_MAX,
      idleTimeout: SOCKET_IDLE_SECONDS,
      sendPingsAutomatically: true,
      upgrade: (response, request, context) => {
        const read = readBrowserRequest(request)
        const code = new URLSearchParams(readQueryText(request)).get('code') ?? ''
        const refused = refuseForeign(read) ?? this.#refuse(code)
        if (refused !== undefined) send(response, refused)
        else response.upgrade({}, request.getHeader('sec-websocket-key'), '', '', context)
      },
      open: (socket) => this.#onOpen(socket),
      // Such tools may ask for things; they get only what everybody gets.
      message: () => {},
      drain: (socket) => socket.getUserData().sender?.onDrained(),
      close: (socket) => this.#onClosed(socket),
    })
  }

  count(): number {
    return this.#senders.size
  }

  closeAll(reason: string): void {
    for (const sender of this.#senders) sender.closeAfterDrain(CLOSE.goingAway, reason)
  }

  #refuse(code: string): Reply | undefined {
    if (this.#senders.size >= PROGRAM_SOCKETS_MAX) return TOO_MANY_FEEDS
    return this.#options.takesCode(code) ? undefined : this.#options.signedOut
  }

  #onOpen(socket: ServerSocket<ProgramSocketData>): void {
    const data = socket.getUserData()
    const sender = new BoundedSender(socket, this.#options.clock, () => data.close?.())
    data.sender = sender
    this.#senders.add(sender)
    const end = (reason: string): void => sender.closeAfterDrain(CLOSE.tryAgainLater, reason)
    const opened = this.#options.source.open((text) => {
      const isTaken = sender.send(text)
      if (!isTaken) end(TOO_SLOW)
      return isTaken
    }, end)
    data.close = () => opened.close()
  }

  #onClosed(socket: ServerSocket<ProgramSocketData>): void {
    const { sender, close } = socket.getUserData()
    if (sender === undefined) return
    this.#senders.delete(sender)
    sender.onClosed()
    close?.()
  }
}
