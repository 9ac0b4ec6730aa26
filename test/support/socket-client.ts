/**
 * WebSocket clients for tests: a regular one that keeps received frames, and a raw one that does not read by itself.
 */
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { connect, type Socket } from 'node:net'
import { ping, WebSocket } from 'undici'
import { closeAfterTest, TOKEN } from './test-resources.ts'

export interface ReceivedFrame {
  readonly type: string
  readonly [field: string]: unknown
}

export interface SocketClient {
  readonly frames: readonly ReceivedFrame[]
  /** Resolves when the socket opens; rejects when the upgrade is refused. */
  readonly opened: Promise<void>
  readonly closed: Promise<{ readonly code: number; readonly reason: string }>
  send(frame: unknown): void
  sendText(text: string | Uint8Array): void
  /** Resolves to the first `count` frames when they have arrived. */
  firstFrames(count: number): Promise<readonly ReceivedFrame[]>
  /** Resolves when the server has read everything sent so far and `frames` contains its replies until then. */
  waitUntilCaughtUp(): Promise<void>
  close(): void
}

const PONG_CHANNEL = 'undici:websocket:pong'
let pings = 0

export function connectSocket(
  port: number,
  path = '/ws',
  headers: Record<string, string> = {},
): SocketClient {
  const socket = new WebSocket(`ws://127.0.0.1:${port}${path}`, {
    headers: { authorization: `Bearer ${TOKEN}`, ...headers },
  })
  const frames: ReceivedFrame[] = []
  const waiting = new Set<() => void>()
  socket.addEventListener('message', ({ data }) => {
    frames.push(JSON.parse(String(data)))
    for (const check of waiting) check()
  })
  socket.addEventListener('error', () => {})
  const closed = new Promise<{ code: number; reason: string }>((resolve) => {
    socket.addEventListener('close', ({ code, reason }) => resolve({ code, reason }))
  })
  const opened = new Promise<void>((resolve, reject) => {
    socket.addEventListener('open', () => resolve())
    void closed.then(() => reject(new Error('the socket was not opened')))
  })
  opened.catch(() => {})
  const client: SocketClient = {
    frames,
    opened,
    closed,
    send: (frame) => socket.send(JSON.stringify(frame)),
    sendText: (text) => socket.send(text),
    firstFrames: (count) =>
      new Promise((resolve) => {
        const check = (): void => {
          if (frames.length < count) return
          waiting.delete(check)
          resolve(frames.slice(0, count))
        }
        waiting.add(check)
        check()
      }),
    waitUntilCaughtUp: () => waitForPong(socket, closed),
    close: () => socket.close(),
  }
  const forget = closeAfterTest(() => {
    if (socket.readyState === WebSocket.OPEN) socket.close()
  })
  void closed.then(forget)
  return client
}

/** A viewer of all actors, with the details of each. */
export async function inspectEverything(port: number, token = TOKEN): Promise<SocketClient> {
  const viewer = connectSocket(port, '/ws/inspect', { authorization: `Bearer ${token}` })
  await viewer.opened
  viewer.send({ type: 'inspect-follow', actors: [], all: true, details: true })
  return viewer
}

/**
 * Sends a ping and waits for its pong; frames arrive in order, so the pong follows all earlier frames. A socket that
 * closes meanwhile has none.
 */
function waitForPong(socket: WebSocket, closed: Promise<unknown>): Promise<void> {
  const mark = `ping ${++pings}`
  return new Promise((resolve) => {
    const onPong = (message: unknown): void => {
      if (String(Reflect.get(Object(message), 'payload')) !== mark) return
      unsubscribe(PONG_CHANNEL, onPong)
      resolve()
    }
    subscribe(PONG_CHANNEL, onPong)
    void closed.then(() => unsubscribe(PONG_CHANNEL, onPong))
    ping(socket, Buffer.from(mark))
  })
}

/** Opens a plain socket, upgrades it and pauses it: nothing is read until `resume`. */
export function connectRawSocket(
  port: number,
  path = '/ws',
  headers: readonly string[] = [],
): Promise<Socket> {
  const lines = [
    `GET ${path} HTTP/1.1`,
    'Host: localhost',
    'Upgrade: websocket',
    'Connection: Upgrade',
    'Sec-WebSocket-Version: 13',
    'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==',
    `Authorization: Bearer ${TOKEN}`,
    ...headers,
  ]
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1', () => socket.write(`${lines.join('\r\n')}\r\n\r\n`))
    socket.once(
      'close',
      closeAfterTest(() => socket.destroy()),
    )
    socket.on('error', reject)
    socket.once('data', (head) => {
      if (!head.toString('latin1').startsWith('HTTP/1.1 101')) return reject(new Error('no upgrade'))
      socket.pause()
      resolve(socket)
    })
  })
}

/** Encodes one client frame with a mask of zeros. */
export function encodeClientFrame(
  opcode: number,
  payload: string | Buffer,
  { masked = true, bits = 0x80 } = {},
): Buffer {
  const body = Buffer.from(payload)
  const mask = masked ? 0x80 : 0
  const head =
    body.length < 126
      ? Buffer.from([bits | opcode, mask | body.length])
      : body.length < 0x10000
        ? Buffer.from([bits | opcode, mask | 126, body.length >> 8, body.length & 0xff])
        : Buffer.from([bits | opcode, mask | 127, 0, 0, 0, 0, ...uint32(body.length)])
  return Buffer.concat([head, masked ? Buffer.alloc(4) : Buffer.alloc(0), body])
}

const uint32 = (n: number): number[] => [(n >>> 24) & 0xff, (n >>> 16) & 0xff, (n >>> 8) & 0xff, n & 0xff]
