/**
 * WebSocketClient is a WebSocket client over a bare socket, whose cost is small beside the server's.
 *
 * The client masks with zeros, which leaves the payload unchanged, and writes all frames of one turn of the event
 * loop at once. A received frame is a view into the read buffer: copy it to keep it.
 */
import { createConnection, type Socket } from 'node:net'

const OUT_BYTES = 64 * 1024
/** Above this backlog a sender should wait. */
const BACKLOG_BYTES = 1024 * 1024

export interface WebSocketClientOptions {
  readonly port: number
  readonly path: string
  /** Called with each text frame. */
  onText(bytes: Buffer): void
  /** Called when the socket accepts writes again. */
  onDrain?(): void
  /** Called with the server's close code, if it sent one. */
  onClose?(code?: number): void
}

export class WebSocketClient {
  readonly #socket: Socket
  readonly #options: WebSocketClientOptions
  #buffer = Buffer.allocUnsafe(OUT_BYTES)
  #length = 0
  #isFlushScheduled = false
  #rest: Buffer = Buffer.alloc(0)
  #code: number | undefined

  private constructor(socket: Socket, options: WebSocketClientOptions) {
    this.#socket = socket
    this.#options = options
  }

  static open(options: WebSocketClientOptions): Promise<WebSocketClient> {
    return new Promise((resolve, reject) => {
      const socket = createConnection({ host: '127.0.0.1', port: options.port, noDelay: true })
      const client = new WebSocketClient(socket, options)
      let head = Buffer.alloc(0)
      const shake = (bytes: Buffer): void => {
        head = Buffer.concat([head, bytes])
        const end = head.indexOf('\r\n\r\n')
        if (end < 0) return
        socket.off('data', shake)
        const status = head.toString('latin1', 0, 16)
        if (!status.startsWith('HTTP/1.1 101 ')) reject(new Error(`no socket at ${options.path}: ${status}`))
        resolve(client)
        socket.on('data', (chunk) => client.#readFrames(chunk))
        if (head.length > end + 4) client.#readFrames(head.subarray(end + 4))
      }
      socket.on('data', shake)
      socket.on('drain', () => options.onDrain?.())
      socket.once('error', reject)
      socket.once('close', () => options.onClose?.(client.#code))
      socket.write(upgradeRequest(options.path))
    })
  }

  /** ASCII only, so that a character is a byte. */
  send(text: string): void {
    const { length } = text
    if (this.#length + length + 14 > this.#buffer.length) this.#flush(Math.max(OUT_BYTES, length + 14))
    this.#writeHead(0x81, length)
    this.#length += this.#buffer.write(text, this.#length, length, 'latin1')
    if (this.#isFlushScheduled) return
    this.#isFlushScheduled = true
    queueMicrotask(() => {
      this.#isFlushScheduled = false
      this.#flush(OUT_BYTES)
    })
  }

  /** Whether a sender should wait until `onDrain`. */
  get isBacklogged(): boolean {
    return this.#socket.writableLength + this.#length > BACKLOG_BYTES
  }

  /** Stops reading, so that further frames wait at the server. */
  pause(): void {
    this.#socket.pause()
  }

  resume(): void {
    this.#socket.resume()
  }

  /** Closes without a close frame, as a broken connection does. */
  destroy(): void {
    this.#socket.destroy()
  }

  #writeHead(opcode: number, length: number): void {
    const out = this.#buffer
    out[this.#length++] = opcode
    if (length < 126) out[this.#length++] = 0x80 | length
    else if (length < 65_536) {
      out[this.#length++] = 0x80 | 126
      this.#length = out.writeUInt16BE(length, this.#length)
    } else {
      out[this.#length++] = 0x80 | 127
      this.#length = out.writeUInt32BE(0, this.#length)
      this.#length = out.writeUInt32BE(length, this.#length)
    }
    this.#length = out.writeUInt32BE(0, this.#length)
  }

  #flush(nextBytes: number): void {
    if (this.#length > 0) this.#socket.write(this.#buffer.subarray(0, this.#length))
    // The written part of the buffer may still be waiting in the socket.
    if (this.#length > OUT_BYTES / 2 || this.#buffer.length < nextBytes)
      this.#buffer = Buffer.allocUnsafe(nextBytes)
    else this.#buffer = this.#buffer.subarray(this.#length)
    this.#length = 0
  }

  #readFrames(chunk: Buffer): void {
    const bytes = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk])
    let at = 0
    while (bytes.length - at >= 2) {
      const short = (bytes[at + 1] ?? 0) & 0x7f
      const head = short < 126 ? 2 : short === 126 ? 4 : 10
      if (bytes.length - at < head) break
      const length =
        short < 126 ? short : short === 126 ? bytes.readUInt16BE(at + 2) : bytes.readUInt32BE(at + 6)
      const from = at + head
      if (bytes.length - from < length) break
      at = from + length
      this.#handleFrame((bytes[at - length - head] ?? 0) & 0x0f, bytes.subarray(from, at))
    }
    this.#rest = at === bytes.length ? Buffer.alloc(0) : Buffer.from(bytes.subarray(at))
  }

  #onCloseFrame(payload: Buffer): void {
    this.#code = payload.length < 2 ? undefined : payload.readUInt16BE(0)
    this.#socket.destroy()
  }

  #handleFrame(opcode: number, payload: Buffer): void {
    if (opcode === 1) this.#options.onText(payload)
    else if (opcode === 8) this.#onCloseFrame(payload)
    else if (opcode === 9) {
      this.#writeHead(0x8a, payload.length)
      this.#length += payload.copy(this.#buffer, this.#length)
      this.#flush(OUT_BYTES)
    }
  }
}

export const upgradeRequest = (path: string): string =>
  [
    `GET ${path} HTTP/1.1`,
    'Host: 127.0.0.1',
    'Connection: Upgrade',
    'Upgrade: websocket',
    'Sec-WebSocket-Version: 13',
    'Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==',
    '\r\n',
  ].join('\r\n')
