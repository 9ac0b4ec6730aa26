/**
 * `NodeResponse` implements the port's response with node:http.
 *
 * Node accepts every byte and keeps what the socket does not take, so a part counts as sent on, and the next one is
 * asked for when everything has left. A client that reads nothing for a while is disconnected, because what is kept
 * for it takes memory.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { HTTP_IDLE_SECONDS_MAX } from '../../protocol/limits.ts'
import type { AsciiText, ListenerRequest, ListenerResponse } from '../listener-port.ts'
import { toArrayBuffer, toBytes } from '../to-bytes.ts'

/** Accepts an upgrade; exists only for requests that ask for one. */
export type AcceptUpgrade = (data: unknown) => void

const NOTHING = new Uint8Array()

export class NodeResponse implements ListenerResponse {
  readonly #response: ServerResponse
  readonly #socket: Socket
  readonly #body: BodySource
  readonly #acceptUpgrade: AcceptUpgrade | undefined
  #status: readonly [code: number, phrase: string] = [200, 'OK']
  /** Names and values in turns. */
  readonly #headers: string[] = []
  #offset = 0
  #isEnded = false
  #isSent = false
  #isClosing = false
  #onAborted: () => void = () => {}
  #onWritable: ((offset: number) => boolean) | undefined

  constructor(response: ServerResponse, socket: Socket, body: BodySource, acceptUpgrade?: AcceptUpgrade) {
    this.#response = response
    this.#socket = socket
    this.#body = body
    this.#acceptUpgrade = acceptUpgrade
    // Writing to a connection that has just ended emits an error, which `close` reports as well.
    response.on('error', () => {})
    response.on('close', () => this.#onClosed())
    response.on('drain', () => this.#onDrained())
    response.on('finish', () => this.#onSent())
  }

  /** The reply is complete, although it may not have left yet. */
  get isEnded(): boolean {
    return this.#isEnded
  }

  /** The reply has left. */
  get isSent(): boolean {
    return this.#isSent
  }

  /** The connection closes behind this reply. */
  get isClosing(): boolean {
    return this.#isClosing
  }

  get isRequestComplete(): boolean {
    return this.#response.req.complete
  }

  closeAfterReply(): void {
    if (this.#isClosing) return
    this.#isClosing = true
    if (!this.#response.headersSent) this.#headers.push('connection', 'close')
  }

  writeStatus(status: string): void {
    const mark = status.indexOf(' ')
    this.#status = [Number(status.slice(0, mark)), status.slice(mark + 1)]
  }

  writeHeader(name: string, value: string): void {
    if (name === 'connection') {
      this.closeAfterReply()
      return
    }
    const [first = '', ...more] = value.split('\r\n')
    this.#headers.push(name, first)
    for (const line of more) {
      const mark = line.indexOf(': ')
      this.#headers.push(line.slice(0, mark), line.slice(mark + 2))
    }
  }

  write(bytes: Uint8Array): boolean {
    this.#sendHead()
    this.#offset += bytes.byteLength
    return this.#isTaken(this.#response.write(bytes))
  }

  end(body: Uint8Array | AsciiText = NOTHING, closes = false): void {
    const bytes = toBytes(body)
    if (!this.#response.headersSent) this.writeHeader('content-length', String(bytes.byteLength))
    if (closes) this.closeAfterReply()
    this.#finish(bytes)
  }

  endWithoutBody(): void {
    this.#finish(NOTHING)
  }

  tryEnd(bytes: Uint8Array, size: number): [isTaken: boolean, isEnded: boolean] {
    if (!this.#response.headersSent) this.writeHeader('content-length', String(size))
    if (this.#offset + bytes.byteLength >= size) {
      this.#offset = size
      this.#finish(bytes)
      return [true, true]
    }
    return [this.write(bytes), false]
  }

  getWriteOffset(): number {
    return this.#offset
  }

  onWritable(resume: (offset: number) => boolean): void {
    this.#onWritable = resume
  }

  onAborted(run: () => void): void {
    this.#onAborted = run
  }

  onData(receive: (piece: ArrayBuffer, isLast: boolean) => void): void {
    this.#body((piece, isLast) => receive(toArrayBuffer(piece), isLast))
  }

  /** Node joins the head with the first bytes of a body by itself. */
  cork(run: () => void): void {
    run()
  }

  close(): void {
    this.#socket.destroy()
  }

  getRemoteAddressAsText(): ArrayBuffer {
    return toArrayBuffer(Buffer.from(this.#socket.remoteAddress ?? ''))
  }

  upgrade<T>(data: T): void {
    this.#isEnded = true
    this.#acceptUpgrade?.(data)
  }

  #sendHead(): void {
    if (this.#response.headersSent) return
    const [code, phrase] = this.#status
    this.#response.writeHead(code, phrase, this.#headers)
  }

  #finish(rest: Uint8Array): void {
    this.#isEnded = true
    this.#sendHead()
    this.#response.end(rest)
    if (this.#response.writableLength > 0) this.#limitSilence()
  }

  #isTaken(taken: boolean): boolean {
    if (!taken) this.#limitSilence()
    return taken
  }

  /** The server destroys a connection whose timeout nobody handles. Node sets another timeout after the reply. */
  #limitSilence(): void {
    this.#socket.setTimeout(HTTP_IDLE_SECONDS_MAX * 1000)
  }

  #onDrained(): void {
    if (this.#isEnded) return
    this.#socket.setTimeout(0)
    this.#onWritable?.(this.#offset)
  }

  #onSent(): void {
    this.#isSent = true
    if (this.#isClosing) this.#socket.destroySoon()
  }

  #onClosed(): void {
    if (this.#isEnded) return
    this.#isEnded = true
    this.#onAborted()
  }
}

// ---- bodies --------------------------------------------------------------------------------------------------------

type BodySource = (receive: (piece: Uint8Array, isLast: boolean) => void) => void

const NO_BYTES = new Uint8Array()

/**
 * Body sources hand the bytes of a request's body on, and say which ones are the last.
 *
 * Node stops reading HTTP at an upgrade, although a request that asks for one may have a body and an ordinary reply
 * (some clients ask for HTTP/2 in this way). The body is then read from the connection, by its length; one that is
 * chunked has been refused before.
 */
export function messageBody(message: IncomingMessage): BodySource {
  return (receive) => {
    message.on('data', (piece: Buffer) => receive(piece, false))
    message.on('end', () => receive(NO_BYTES, true))
  }
}

/** @param first the bytes that arrived together with the head */
export function upgradeBody(message: IncomingMessage, socket: Socket, first: Uint8Array): BodySource {
  return (receive) => {
    let left = Number(message.headers['content-length'] ?? 0)
    const read = (piece: Uint8Array): void => {
      if (left === 0) return
      const own = piece.subarray(0, left)
      left -= own.byteLength
      receive(own, left === 0)
    }
    read(first)
    if (left === 0 && first.byteLength === 0) receive(NO_BYTES, true)
    socket.on('data', read)
  }
}

// ---- requests ------------------------------------------------------------------------------------------------------

/** `NodeRequest` gives the port's view of a request of node:http. */
export class NodeRequest implements ListenerRequest {
  readonly #message: IncomingMessage
  /** The path, and the query when there is a `?`. */
  readonly #url: readonly [path: string, query?: string]

  constructor(message: IncomingMessage) {
    this.#message = message
    const target = message.url ?? ''
    const mark = target.indexOf('?')
    this.#url = mark < 0 ? [target] : [target.slice(0, mark), target.slice(mark + 1)]
  }

  getCaseSensitiveMethod(): string {
    return this.#message.method ?? ''
  }

  getUrl(): string {
    return this.#url[0]
  }

  getQuery(): string | undefined {
    return this.#url[1]
  }

  getHeader(lowerCaseName: string): string {
    const value = this.#message.headers[lowerCaseName]
    return typeof value === 'string' ? value : (value?.[0] ?? '')
  }

  /** `headers` would join repeated headers or drop them, so this visits `rawHeaders`. */
  forEach(visit: (name: string, value: string) => void): void {
    const { rawHeaders } = this.#message
    for (let at = 0; at + 1 < rawHeaders.length; at += 2)
      visit(rawHeaders[at]?.toLowerCase() ?? '', rawHeaders[at + 1] ?? '')
  }
}
