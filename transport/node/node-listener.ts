/**
 * `nodeListener` implements the listener port with node:http and ws, where the native listener does not load.
 *
 * Like the native one, it reads the next request of a connection only after the reply to the one before, and reads
 * nothing more once a connection is to be closed. Node's parser answers invalid requests with 400 and too large heads
 * with 431.
 */
import { readFileSync } from 'node:fs'
import {
  createServer,
  type IncomingMessage,
  type Server,
  type ServerOptions,
  ServerResponse,
} from 'node:http'
import { createServer as createTlsServer, type ServerOptions as HttpsOptions } from 'node:https'
import { type Socket, Server as TcpServer } from 'node:net'
import type { TlsFiles } from '../../core/settings/listeners.ts'
import { HTTP_BODY_SECONDS_MAX, HTTP_IDLE_SECONDS_MAX } from '../../protocol/limits.ts'
import type { HttpListener, ListenerApp, OpenPort, SocketBehavior } from '../listener-port.ts'
import { type Reply, refusal, statusLine } from '../reply.ts'
import { messageBody, NodeRequest, NodeResponse, upgradeBody } from './node-response.ts'
import { SocketServer } from './socket-server.ts'

/** The first line and the headers of a request, together. */
export const HTTP_HEAD_BYTES_MAX = 16 * 1024
const HTTP_HEAD_SECONDS_MAX = 10

/** Limits of time that tests shorten. */
export interface NodeTimings {
  /** How long the head of a request may take. */
  readonly headSeconds: number
  /** How often sockets are checked for silence. */
  readonly silenceCheckSeconds: number
}

const TIMINGS: NodeTimings = { headSeconds: HTTP_HEAD_SECONDS_MAX, silenceCheckSeconds: 4 }

export const createNodeListener = (timings = TIMINGS): HttpListener => ({
  name: 'node',
  createApp: (tls) => new NodeApp(tls, timings),
})

export const nodeListener = createNodeListener()

type HandleRequest = Parameters<ListenerApp['any']>[0]

const serverOptions = ({ headSeconds }: NodeTimings): ServerOptions => ({
  maxHeaderSize: HTTP_HEAD_BYTES_MAX,
  headersTimeout: headSeconds * 1000,
  // The deadline for a body answers first, where a route reads the body.
  requestTimeout: (HTTP_BODY_SECONDS_MAX + HTTP_HEAD_SECONDS_MAX) * 1000,
  keepAliveTimeout: HTTP_IDLE_SECONDS_MAX * 1000,
  connectionsCheckingInterval: 1000,
  insecureHTTPParser: false,
})

class NodeApp implements ListenerApp {
  readonly #server: Server
  readonly #socketServer: SocketServer
  readonly #connections = new Set<Socket>()
  /** The last response of each connection. */
  readonly #responses = new WeakMap<Socket, NodeResponse>()
  #handle: HandleRequest = () => {}

  constructor(tls: TlsFiles | undefined, timings: NodeTimings) {
    const options = serverOptions(timings)
    this.#server = tls === undefined ? createServer(options) : createTlsServer(tlsOptions(tls, options))
    this.#socketServer = new SocketServer(timings.silenceCheckSeconds)
    // Node would silently drop the headers beyond a number; their size is limited.
    this.#server.maxHeadersCount = 0
    this.#server.on('connection', (socket: Socket) => this.#onConnection(socket))
    this.#server.on('request', (message, response) => this.#onRequest(message, response))
    this.#server.on('upgrade', (message, socket: Socket, first) => this.#onUpgrade(message, socket, first))
    this.#server.on('connect', (message, socket: Socket, first) => this.#onUpgrade(message, socket, first))
    this.#server.on('clientError', (error, socket: Socket) => this.#onBrokenRequest(error, socket))
    this.#server.on('error', () => {})
  }

  any(handle: HandleRequest): void {
    this.#handle = handle
  }

  ws<T>(path: string, behavior: SocketBehavior<T>): void {
    this.#socketServer.serve(path, behavior)
  }

  publish(topic: string, message: Uint8Array): void {
    this.#socketServer.publish(topic, message)
  }

  listen(host: string, port: number): Promise<OpenPort | undefined> {
    const server = this.#server
    return new Promise((resolve) => {
      server.once('error', () => resolve(undefined))
      server.listen({ host, port, exclusive: true }, () => {
        const address = server.address()
        // http.Server would also close idle connections, whose next request receives a reply.
        const stop = (): void => void TcpServer.prototype.close.call(server)
        resolve(typeof address === 'object' && address !== null ? { port: address.port, stop } : undefined)
      })
    })
  }

  close(): void {
    this.#server.close()
    this.#socketServer.close()
    for (const socket of this.#connections) socket.destroy()
  }

  #onConnection(socket: Socket): void {
    this.#connections.add(socket)
    socket.on('close', () => this.#connections.delete(socket))
  }

  #onRequest(message: IncomingMessage, response: ServerResponse): void {
    const { socket } = message
    const last = this.#responses.get(socket)
    // Reading errors are reported by the response as well.
    message.on('error', () => {})
    if (last?.isClosing === true || !socket.writable) return
    if (last?.isEnded === false) last.closeAfterReply()
    else if (message.httpVersion !== '1.1') refuseVersion(socket)
    else this.#answer(message, new NodeResponse(response, socket, messageBody(message)))
  }

  #answer(message: IncomingMessage, response: NodeResponse): void {
    this.#responses.set(message.socket, response)
    this.#handle(response, new NodeRequest(message))
  }

  /** Node has stopped to read HTTP on this connection, so it ends with a reply other than 101. */
  #onUpgrade(message: IncomingMessage, socket: Socket, first: Buffer): void {
    socket.on('error', () => {})
    const last = this.#responses.get(socket)
    if (last?.isSent === false) socket.destroy()
    else if (message.httpVersion !== '1.1') refuseVersion(socket)
    // Node checks this for ordinary requests only.
    else if (message.headers.host === undefined) refuseBroken(socket)
    else if (message.headers['transfer-encoding'] !== undefined) refuseChunkedUpgrade(socket)
    else this.#answerUpgrade(message, socket, first)
  }

  #answerUpgrade(message: IncomingMessage, socket: Socket, first: Buffer): void {
    const refusal = new ServerResponse(message)
    refusal.shouldKeepAlive = false
    refusal.assignSocket(socket)
    refusal.on('finish', () => socket.destroySoon())
    const route = this.#socketServer.find(message)
    const body = upgradeBody(message, socket, first)
    if (route === undefined) {
      this.#answer(message, new NodeResponse(refusal, socket, body))
      return
    }
    const accept = (data: unknown): void => {
      refusal.detachSocket(socket)
      route.accept(message, socket, first, data)
    }
    route.upgrade(new NodeResponse(refusal, socket, body, accept), new NodeRequest(message), undefined)
  }

  /** The request behind a reply that is under way is broken: the reply is sent, and nothing more is read. */
  #onBrokenRequest(error: NodeJS.ErrnoException, socket: Socket): void {
    const last = this.#responses.get(socket)
    if (last?.isClosing === true) return
    if (last?.isEnded === false && last.isRequestComplete) last.closeAfterReply()
    else answerBrokenRequest(error, socket, last?.isEnded !== false)
  }
}

function tlsOptions({ certFile, keyFile }: TlsFiles, options: ServerOptions): HttpsOptions {
  const handshakeTimeout = HTTP_HEAD_SECONDS_MAX * 1000
  return { ...options, handshakeTimeout, cert: readFileSync(certFile), key: readFileSync(keyFile) }
}

// ---- broken requests -----------------------------------------------------------------------------------------------

const BROKEN = refusal(400, 'this is not a valid request of HTTP/1.1')
const CHUNKED_UPGRADE = refusal(
  400,
  'the body has a Transfer-Encoding and the request an Upgrade header; send a Content-Length, or no Upgrade header',
)
const WRONG_VERSION = refusal(505, 'HTTP/1.1 is the only supported version')
const REPLIES: Readonly<Record<string, Reply>> = {
  ERR_HTTP_REQUEST_TIMEOUT: refusal(408, 'the request did not arrive in time'),
  HPE_HEADER_OVERFLOW: refusal(431, `the head of a request has at most ${HTTP_HEAD_BYTES_MAX} bytes`),
  HPE_INVALID_VERSION: WRONG_VERSION,
}

/**
 * Answers requests that Node's parser does not accept, and closes their connections.
 *
 * @param mayAnswer false when a part of another reply may have been sent
 */
function answerBrokenRequest(error: NodeJS.ErrnoException, socket: Socket, mayAnswer: boolean): void {
  const code = error.code ?? ''
  const reply = REPLIES[code] ?? (code.startsWith('HPE_') ? BROKEN : undefined)
  if (reply === undefined || !mayAnswer || socket.destroyed) socket.destroy()
  // A reply has been sent already when the connection has ended.
  else if (!socket.writableEnded) send(socket, reply)
}

function refuseBroken(socket: Socket): void {
  send(socket, BROKEN)
}

/** Node reads no chunks behind an upgrade, so nobody would learn where the body ends. */
function refuseChunkedUpgrade(socket: Socket): void {
  send(socket, CHUNKED_UPGRADE)
}

function refuseVersion(socket: Socket): void {
  send(socket, WRONG_VERSION)
}

/** Writes the reply itself: node:http has no response for a request that was not read. */
function send(socket: Socket, { status, type, body }: Reply): void {
  const lines = [
    `HTTP/1.1 ${statusLine(status)}`,
    `content-type: ${type}`,
    `content-length: ${Buffer.byteLength(body)}`,
    'connection: close',
    `\r\n${String(body)}`,
  ]
  socket.setTimeout(HTTP_IDLE_SECONDS_MAX * 1000, () => socket.destroy())
  socket.end(lines.join('\r\n'), () => socket.destroy())
}
