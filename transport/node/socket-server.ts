/** `SocketServer` holds the WebSockets of one listener by path, and closes silent ones. */
import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import { WebSocketServer } from 'ws'
import type { SocketBehavior } from '../listener-port.ts'
import { createRouter, type Pattern, type Router } from '../router.ts'
import { Topics } from './topics.ts'
import { type SocketParts, WsSocket } from './ws-socket.ts'

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
