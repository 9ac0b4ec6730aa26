/**
 * Sockets of a page's listener for programs, such as inspection tools of others: a code in the query stands in the
 * cookie's place, and the program only listens.
 *
 * A browser names its origin in every upgrade, so one of another origin is refused before its code is looked at.
 */
import type { Clock } from '../../core/ports.ts'
import { PROGRAM_FRAME_BYTES_MAX, PROGRAM_SOCKETS_MAX, SOCKET_IDLE_SECONDS } from '../../protocol/limits.ts'
import type { ListenerApp, ServerSocket } from '../listener-port.ts'
import { type Reply, refusal, send } from '../reply.ts'
import { readQueryText } from '../request-head.ts'
import { BoundedSender, CLOSE } from '../sockets/bounded-sender.ts'
import { readBrowserRequest, refuseForeign } from './page-check.ts'

/** Sends to one program until it is closed. */
export interface ProgramSource {
  /** @param send answers whether the text was taken; after `end` it does nothing */
  open(send: (text: string) => boolean, end: (reason: string) => void): { close(): void }
}

export interface ProgramSocketOptions {
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

const TOO_MANY = refusal(503, 'too many programs listen; close one')
const BACKLOG_BYTES_MAX = 64 * 1024 * 1024
const TOO_SLOW = 'too slow: more than the backlog limit was waiting; connect again'

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
    if (this.#senders.size >= PROGRAM_SOCKETS_MAX) return TOO_MANY
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
