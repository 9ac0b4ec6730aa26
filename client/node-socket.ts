/**
 * Opens a socket of the host over Node's own HTTP client.
 *
 * In every case (no host, a silent handshake, a dead line) the listener's `onEnd` is called exactly once, and nothing
 * after it. Nothing throws, and nothing is called before `dialByNode` has returned.
 */
import { type ClientRequest, request as httpRequest, type IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import { SOCKET_IDLE_SECONDS } from '../protocol/limits.ts'
import type { ClientSocket, HostAddress, SocketEnd, SocketListener } from './connection.ts'
import { reasonOf } from './errors.ts'
import { hostHeaders } from './host-headers.ts'
import { CHECKED, connectFor } from './node-http.ts'
import { encodeFrame, type Frame, FrameReader, OPCODE } from './websocket-frames.ts'

/** The time limit from dialling to an open connection. */
const CONNECT_MS_MAX = 10_000
/** How long the host may take to answer our close frame. */
const CLOSE_MS_MAX = 300
/** The host sends a ping before this time is over; a line that says nothing is dead. */
const SILENCE_MS_MAX = SOCKET_IDLE_SECONDS * 1000 + CONNECT_MS_MAX
/** The largest message is a hello with every run that the host knows. */
const MESSAGE_BYTES_MAX = 512 * 1024 * 1024
/** A host's refusal is one sentence. */
const REFUSAL_BYTES_MAX = 16 * 1024
const REFUSAL_MS_MAX = 2_000
const REASON_CHARS_MAX = 300
const ACCEPT_SALT = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11'
const CLOSED_NORMALLY = 1000

export function dialByNode(at: HostAddress, path: string, listener: SocketListener): ClientSocket {
  return new NodeSocket(at, path, listener)
}

class NodeSocket implements ClientSocket {
  readonly #listener: SocketListener
  #accepted = ''
  readonly #reader = new FrameReader(MESSAGE_BYTES_MAX)
  #request: ClientRequest | undefined
  #socket: Socket | undefined
  #timer: NodeJS.Timeout
  readonly #end = new AbortController()
  #isClosing = false
  #isOver = false

  constructor(at: HostAddress, path: string, listener: SocketListener) {
    this.#listener = listener
    this.#timer = setTimeout(
      () => this.#finish(`no answer within ${CONNECT_MS_MAX / 1000} s`),
      CONNECT_MS_MAX,
    )
    this.#dial(at, path).catch((error) => this.#finish(reasonOf(error)))
  }

  send(text: string): void {
    if (!this.#isClosing) this.#write(OPCODE.text, Buffer.from(text))
  }

  backlog(): number {
    return this.#socket?.writableLength ?? 0
  }

  close(): void {
    if (this.#isClosing) return
    this.#isClosing = true
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => this.#finish('closed'), CLOSE_MS_MAX)
    const code = Buffer.alloc(2)
    code.writeUInt16BE(CLOSED_NORMALLY)
    this.#write(OPCODE.close, code)
  }

  // ---- the handshake -------------------------------------------------------------------------------------------------

  async #dial(at: HostAddress, path: string): Promise<void> {
    const send = at.url.startsWith('https:') ? (await import('node:https')).request : httpRequest
    // Loading it takes longer than a whole request, and most clients open no socket.
    const { createHash, randomBytes } = await import('node:crypto')
    const key = randomBytes(16).toString('base64')
    this.#accepted = createHash('sha1').update(`${key}${ACCEPT_SALT}`).digest('base64')
    const connection = await connectFor(at.url, at.owner, this.#end.signal)
    // `close` may have been called meanwhile, and nothing would end a request that begins now.
    if (this.#isOver) return
    const request = send(`${at.url}${path}`, {
      ...CHECKED,
      // A socket of its own: an agent would count it among those that it may reuse.
      ...(connection.createConnection === undefined ? { agent: false } : connection),
      headers: {
        ...hostHeaders(at),
        connection: 'Upgrade',
        upgrade: 'websocket',
        'sec-websocket-key': key,
        'sec-websocket-version': '13',
      },
    })
    this.#request = request
    request.on('error', (error) => this.#finish(reasonOf(error)))
    request.on('response', (reply) => this.#readRefusal(reply))
    request.on('upgrade', (reply, socket, first) => this.#onUpgrade(reply, socket, first))
    request.end()
  }

  /** Waits for the sentence only a moment: another kind of server may never end its answer. */
  #readRefusal(reply: IncomingMessage): void {
    const chunks: Buffer[] = []
    let bytes = 0
    const challenge = reply.headers['www-authenticate']
    const status = reply.statusCode ?? 0
    const refuse = () => {
      const text = Buffer.concat(chunks).toString()
      const answer = { status, text, ...(challenge === undefined ? {} : { challenge }) }
      this.#finish(`the host answered ${status}`, answer)
    }
    clearTimeout(this.#timer)
    this.#timer = setTimeout(refuse, REFUSAL_MS_MAX)
    reply.on('data', (chunk: Buffer) => {
      bytes += chunk.length
      if (bytes > REFUSAL_BYTES_MAX) refuse()
      else chunks.push(chunk)
    })
    reply.on('error', refuse)
    reply.on('end', refuse)
  }

  #onUpgrade(reply: IncomingMessage, socket: Socket, first: Buffer): void {
    this.#socket = socket
    socket.on('error', (error) => this.#finish(reasonOf(error)))
    socket.on('close', () => this.#finish('the connection broke'))
    if (this.#isOver) socket.destroy()
    if (this.#isOver) return
    if (reply.headers['sec-websocket-accept'] !== this.#accepted) {
      this.#finish('what answers is no WebSocket')
      return
    }
    socket.setTimeout(SILENCE_MS_MAX, () => this.#finish('the host has gone silent'))
    socket.setNoDelay(true)
    if (this.#isClosing) return
    clearTimeout(this.#timer)
    this.#listener.onOpen()
    socket.on('data', (bytes: Buffer) => this.#onBytes(bytes))
    if (first.length > 0) this.#onBytes(first)
  }

  // ---- frames --------------------------------------------------------------------------------------------------------

  #onBytes(bytes: Buffer): void {
    try {
      for (const frame of this.#reader.push(bytes)) this.#onFrame(frame)
    } catch (error) {
      this.#finish(reasonOf(error))
    }
  }

  #onFrame({ opcode, payload }: Frame): void {
    if (this.#isOver) return
    if (opcode === OPCODE.ping) this.#write(OPCODE.pong, payload)
    else if (opcode === OPCODE.close) this.#finish(closeReason(payload), undefined, closeCode(payload))
    else if (opcode === OPCODE.text && !this.#isClosing) this.#listener.onText(payload.toString())
  }

  #write(opcode: number, payload: Buffer): void {
    if (this.#socket?.writable === true) this.#socket.write(encodeFrame(opcode, payload))
    else if (this.#isClosing) this.#finish('closed')
  }

  #finish(reason: string, reply?: SocketEnd['reply'], code?: number): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#isClosing = true
    clearTimeout(this.#timer)
    this.#end.abort()
    this.#socket?.destroy()
    this.#request?.destroy()
    const end = {
      reason: reason.slice(0, REASON_CHARS_MAX),
      ...(reply === undefined ? {} : { reply }),
      ...(code === undefined ? {} : { code }),
    }
    // Later, because a caller of `close` does not expect to be called back at once.
    queueMicrotask(() => this.#listener.onEnd(end))
  }
}

const closeCode = (payload: Buffer): number | undefined =>
  payload.length >= 2 ? payload.readUInt16BE(0) : undefined

function closeReason(payload: Buffer): string {
  if (payload.length > 2) return payload.toString('utf8', 2)
  return `the host closed the connection (${closeCode(payload) ?? 1005})`
}
