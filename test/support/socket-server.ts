/**
 * A WebSocket server on plain sockets, for misbehaviour that no regular server offers: silence, oversized frames, raw
 * bytes, and sudden disconnects.
 */
import { createHash } from 'node:crypto'
import { createServer, type IncomingMessage, type RequestListener, type Server } from 'node:http'
import { createServer as createSecureServer } from 'node:https'
import type { AddressInfo, Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { closeAfterTest } from './test-resources.ts'

export interface SocketPeer {
  readonly request: IncomingMessage
  readonly socket: Duplex
  send(text: string | Buffer, opcode?: number): void
  /** Texts received in complete frames. */
  readonly receivedTexts: string[]
}

export interface SocketServer {
  readonly port: number
  readonly peers: SocketPeer[]
}

const MAGIC = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11'
const TEXT = 1
const CLOSE = 8

export async function startSocketServer(
  tls?: { readonly cert: string; readonly key: string },
  onPeer: (peer: SocketPeer) => void = () => {},
  /** Handles requests that are no upgrade; by default they get no answer. */
  onRequest: RequestListener = () => {},
  /** Returns the bytes to send instead of an upgrade: a complete reply or its beginning. */
  refusalFor: () => string | undefined = () => undefined,
): Promise<SocketServer> {
  const peers: SocketPeer[] = []
  const server: Server = tls === undefined ? createServer(onRequest) : createSecureServer(tls, onRequest)
  const sockets = new Set<Socket>()
  server.on('connection', (socket: Socket) => {
    sockets.add(socket)
    socket.on('error', () => {})
  })
  server.on('upgrade', (request: IncomingMessage, socket: Duplex) => {
    const refusal = refusalFor()
    if (refusal !== undefined) {
      socket.write(refusal)
      return
    }
    const peer = acceptPeer(request, socket)
    peers.push(peer)
    onPeer(peer)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  closeAfterTest(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return { port: (server.address() as AddressInfo).port, peers }
}

function acceptPeer(request: IncomingMessage, socket: Duplex): SocketPeer {
  const accept = createHash('sha1').update(`${request.headers['sec-websocket-key']}${MAGIC}`).digest('base64')
  socket.write(
    `HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`,
  )
  const received: string[] = []
  let got = Buffer.alloc(0)
  socket.on('error', () => {})
  socket.on('data', (bytes: Buffer) => {
    got = Buffer.concat([got, bytes])
    for (let frame = decodeFirstFrame(got); frame !== undefined; frame = decodeFirstFrame(got)) {
      got = got.subarray(frame.used)
      if (frame.opcode === TEXT) received.push(frame.text)
    }
  })
  return {
    request,
    socket,
    receivedTexts: received,
    send: (text, opcode = TEXT) => void socket.write(encodeFrame(text, opcode)),
  }
}

export const encodeCloseFrame = (code: number, reason: string): Buffer => {
  const body = Buffer.alloc(2 + Buffer.byteLength(reason))
  body.writeUInt16BE(code, 0)
  body.write(reason, 2)
  return encodeFrame(body, CLOSE)
}

function encodeFrame(text: string | Buffer, opcode: number): Buffer {
  const body = Buffer.from(text)
  const head = Buffer.alloc(10)
  head[0] = 0x80 | opcode
  if (body.length < 126) {
    head[1] = body.length
    return Buffer.concat([head.subarray(0, 2), body])
  }
  head[1] = 127
  head.writeBigUInt64BE(BigInt(body.length), 2)
  return Buffer.concat([head, body])
}

/** Decodes the first complete frame; client frames are masked. */
function decodeFirstFrame(bytes: Buffer): { opcode: number; text: string; used: number } | undefined {
  if (bytes.length < 6) return undefined
  const short = (bytes[1] ?? 0) & 0x7f
  const start = short < 126 ? 2 : short === 126 ? 4 : 10
  if (bytes.length < start + 4) return undefined
  const length =
    short < 126 ? short : short === 126 ? bytes.readUInt16BE(2) : Number(bytes.readBigUInt64BE(2))
  const [mask, body] = [bytes.subarray(start, start + 4), bytes.subarray(start + 4, start + 4 + length)]
  if (body.length < length) return undefined
  const text = Buffer.from(body.map((byte, at) => byte ^ (mask[at % 4] ?? 0))).toString()
  return { opcode: (bytes[0] ?? 0) & 0xf, text, used: start + 4 + length }
}
