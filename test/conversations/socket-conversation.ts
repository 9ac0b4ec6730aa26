/**
 * The production doors around one host in memory, and real connections to them.
 *
 * What a worker says leaves in the order in which the test said it, over all wires: each errand is followed by a ping,
 * and its pong says that the host has read what was sent before. What the host said is kept in the order in which it
 * said it, and what arrives is handed on in that order too, for between two connections there is none of its own. A
 * round is over when everything said has arrived, so nobody sleeps, and a frame that the doors lose ends the test.
 */
import { createConnection, type Socket } from 'node:net'
import type { WorkerReceiver, WorkerSender } from '../../core/connection-ports.ts'
import type { HostApi } from '../../actors/api/host-api.ts'
import type { Log } from '../../core/ports.ts'
import type { Result } from '../../core/result.ts'
import { routes } from '../../protocol/routes.ts'
import { type HostServer, openHostServer } from '../../transport/server.ts'
import { promisesSettled } from '../support/manual-clock.ts'
import { clientFrame } from '../support/socket-client.ts'
import { afterwards, partsFor } from '../support/test-resources.ts'

/** So many rounds in which nothing new came, and something is still on its way. */
const ROUNDS_MAX = 2_000

const TEXT = 1
const CLOSE = 8
const PING = 9
const PONG = 10

/** What a test's wire is told by its connection. */
export interface ScriptedConnectionListener {
  onText(text: string): void
  onClose(code: number, reason: string): void
}

/** What a test's wire may do with its connection. */
export interface ScriptedConnectionSender {
  send(text: string): void
  /** Breaks the connection without a word. */
  breakOff(): void
}

/** The doors of one host, from its start to its end, and everybody who came to them. */
export class SocketTransport {
  /** What the host said and nobody has heard yet, over all lines. */
  #sentByHost: ClientSocket[] = []
  /** How often the host was told anything by its doors. */
  #hostCalls = 0
  #steps: (() => Promise<void>)[] = []
  #sockets = new Set<ClientSocket>()
  #opening: ClientSocket | undefined
  #listeners: HostServer | undefined
  #closing: Promise<void> | undefined
  #isKilled = false

  static async open(hostApi: HostApi, log: Log): Promise<SocketTransport> {
    const transport = new SocketTransport()
    const workerConnected = (link: WorkerSender) => transport.#onConnected(hostApi, link)
    const opened = await openHostServer(partsFor({ ...hostApi, connectWorker: workerConnected }, { log }))
    if (!opened.ok) throw new Error(opened.refusal.message)
    transport.#listeners = opened.value
    afterwards(() => transport.kill())
    return transport
  }

  dial(listener: ScriptedConnectionListener): ScriptedConnectionSender {
    const socket = new ClientSocket(listener)
    this.#sockets.add(socket)
    this.#steps.push(() => this.#open(socket))
    return {
      send: (text) => void this.#steps.push(() => socket.send(text)),
      breakOff: () => void this.#steps.push(() => socket.breakOff()),
    }
  }

  /** Does what is to be done and turns the host's clock, until nobody has anything more to say. */
  async settle(turn: () => Promise<void>): Promise<void> {
    for (let idle = 0; idle < ROUNDS_MAX; idle++) {
      for (const step of this.#steps.splice(0)) await step()
      const hostCalls = this.#hostCalls
      await turn()
      await this.#closing
      if (this.#isKilled) return
      if (this.#sentByHost.length > 0)
        await Promise.all([...new Set(this.#sentByHost)].map((socket) => socket.flushed()))
      const hasDelivered = this.#deliver()
      if (hasDelivered) idle = 0
      if (
        !hasDelivered &&
        this.#sentByHost.length + this.#steps.length === 0 &&
        this.#hostCalls === hostCalls
      )
        return
    }
    throw new Error(`said by the host and never arrived: ${this.#sentByHost.length} frames`)
  }

  /** As the host wishes it: with a goodbye for everybody. */
  close(reason: string): Promise<void> {
    this.#closing ??= this.#listeners?.close(reason) ?? Promise.resolve()
    return this.#closing
  }

  /** Nothing of it is heard, or hears, any more. */
  async kill(): Promise<void> {
    this.#isKilled = true
    this.#steps = []
    for (const socket of this.#sockets) socket.abandon()
    await this.close('killed')
  }

  #onConnected(hostApi: HostApi, link: WorkerSender): Result<WorkerReceiver> {
    const socket = this.#opening
    if (socket === undefined) throw new Error('nobody is connecting')
    let isClosed = false
    const noteSent = (): void => void this.#sentByHost.push(socket)
    const joined = hostApi.connectWorker({
      address: link.address,
      send: (text) => {
        const isAccepted = !isClosed && link.send(text)
        if (isAccepted) noteSent()
        return isAccepted
      },
      close: (code, reason) => {
        if (isClosed) return
        isClosed = true
        noteSent()
        link.close(code, reason)
      },
    })
    if (!joined.ok) return joined
    const callHost = (does: () => void): void => {
      this.#hostCalls += 1
      if (!this.#isKilled) does()
    }
    const { value } = joined
    return {
      ok: true,
      value: {
        onText: (text) => callHost(() => value.onText(text)),
        onUnreadable: (reason) => callHost(() => value.onUnreadable(reason)),
        onClosed: () => {
          isClosed = true
          callHost(() => value.onClosed())
          socket.onHostNoticed()
        },
        frameBytesMax: () => value.frameBytesMax(),
      },
    }
  }

  async #open(socket: ClientSocket): Promise<void> {
    this.#opening = socket
    await socket.open(this.#listeners?.fleetPort ?? 0)
    this.#opening = undefined
    this.#hostCalls += 1
    // The doors may have sent it away at once.
    await socket.flushed()
  }

  /** In the order in which it was said, as far as it has arrived. */
  #deliver(): boolean {
    let hasDelivered = false
    while (this.#sentByHost[0]?.deliverNext()) {
      this.#sentByHost.shift()
      hasDelivered = true
    }
    // A goodbye of the doors themselves is none of the host's words.
    for (const socket of this.#sockets) {
      if (this.#sentByHost.includes(socket)) continue
      while (socket.arrivedCount > 0 && socket.deliverNext()) hasDelivered = true
      if (socket.isGone) this.#sockets.delete(socket)
    }
    return hasDelivered
  }
}

/** One connection, as its client sees it. */
class ClientSocket {
  readonly #listener: ScriptedConnectionListener
  /** Arrived, and not heard yet: it waits for what was said before it on other lines. */
  readonly #arrivals: (() => void)[] = []
  readonly #pongs: (() => void)[] = []
  #socket: Socket | undefined
  #rest: Buffer = Buffer.alloc(0)
  #isBroken = false
  /** Nothing more will arrive. */
  #isEnded = false
  #resolveHostNoticed: () => void = () => {}
  readonly #hostNoticed: Promise<void>

  constructor(ears: ScriptedConnectionListener) {
    this.#listener = ears
    this.#hostNoticed = new Promise((resolve) => {
      this.#resolveHostNoticed = resolve
    })
  }

  get arrivedCount(): number {
    return this.#arrivals.length
  }

  get isGone(): boolean {
    return this.#isBroken || (this.#isEnded && this.#arrivals.length === 0)
  }

  /** The next that arrived is heard. What was said to a line that is gone counts as heard: nobody ever will. */
  deliverNext(): boolean {
    const news = this.#arrivals.shift()
    if (!this.#isBroken) news?.()
    return news !== undefined || this.isGone
  }

  open(port: number): Promise<void> {
    return new Promise((resolve, reject) => {
      const socket = createConnection({ host: '127.0.0.1', port, noDelay: true })
      this.#socket = socket
      let head = Buffer.alloc(0)
      const onHandshakeBytes = (bytes: Buffer): void => {
        head = Buffer.concat([head, bytes])
        const end = head.indexOf('\r\n\r\n')
        if (end < 0) return
        socket.off('data', onHandshakeBytes)
        const status = head.toString('latin1', 0, head.indexOf('\r\n'))
        if (!status.startsWith('HTTP/1.1 101 ')) reject(new Error(`no socket: ${status}`))
        socket.on('data', (chunk) => this.#onBytes(chunk))
        this.#onBytes(head.subarray(end + 4))
        resolve()
      }
      socket.on('data', onHandshakeBytes)
      socket.on('error', () => {})
      socket.on('close', () => {
        reject(new Error('the doors hung up'))
        this.#onEnd(1006, '')
      })
      socket.write(UPGRADE_REQUEST)
    })
  }

  async send(text: string): Promise<void> {
    if (this.#isEnded || this.#isBroken) return
    this.#socket?.write(clientFrame(TEXT, text))
    await this.flushed()
  }

  /** Once the host has read everything that was sent, and what it said before that is here. */
  async flushed(): Promise<void> {
    // What the host says in one breath leaves at the breath's end.
    await promisesSettled()
    if (this.#isEnded || this.#isBroken) return
    await new Promise<void>((resolve) => {
      this.#pongs.push(resolve)
      this.#socket?.write(clientFrame(PING, ''))
    })
  }

  /** Once the host has noticed. */
  async breakOff(): Promise<void> {
    if (this.#isEnded || this.#isBroken) return
    this.abandon()
    await this.#hostNoticed
  }

  abandon(): void {
    this.#isBroken = true
    this.#socket?.destroy()
  }

  onHostNoticed(): void {
    this.#resolveHostNoticed()
  }

  #onEnd(code: number, reason: string): void {
    if (this.#isEnded) return
    this.#isEnded = true
    this.#arrivals.push(() => this.#listener.onClose(code, reason))
    for (const go of this.#pongs.splice(0)) go()
  }

  #onBytes(chunk: Buffer): void {
    const bytes = Buffer.concat([this.#rest, chunk])
    let at = 0
    for (;;) {
      const frame = frameAt(bytes, at)
      if (frame === undefined) break
      at = frame.end
      this.#onFrame(frame.opcode, frame.payload)
    }
    this.#rest = bytes.subarray(at)
  }

  #onFrame(opcode: number, payload: Buffer): void {
    if (opcode === TEXT) {
      const text = payload.toString()
      this.#arrivals.push(() => this.#listener.onText(text))
    } else if (opcode === PONG) this.#pongs.shift()?.()
    else if (opcode === PING) this.#socket?.write(clientFrame(PONG, payload))
    else if (opcode === CLOSE) {
      const code = payload.length < 2 ? 1005 : payload.readUInt16BE(0)
      this.#onEnd(code, payload.toString('utf8', 2))
      this.#socket?.destroy()
    }
  }
}

const UPGRADE_REQUEST = [
  `GET ${routes.workerSocket.path} HTTP/1.1`,
  'Host: 127.0.0.1',
  'Connection: Upgrade',
  'Upgrade: websocket',
  'Sec-WebSocket-Version: 13',
  'Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==',
  '\r\n',
].join('\r\n')

function frameAt(
  bytes: Buffer,
  at: number,
): { readonly opcode: number; readonly payload: Buffer; readonly end: number } | undefined {
  if (bytes.length - at < 2) return undefined
  const short = (bytes[at + 1] ?? 0) & 0x7f
  const from = at + (short < 126 ? 2 : short === 126 ? 4 : 10)
  if (bytes.length < from) return undefined
  const length = short < 126 ? short : short === 126 ? bytes.readUInt16BE(at + 2) : bytes.readUInt32BE(at + 6)
  const end = from + length
  if (bytes.length < end) return undefined
  return { opcode: (bytes[at] ?? 0) & 0x0f, payload: bytes.subarray(from, end), end }
}
