/**
 * SocketTransport puts the production listeners around a host in memory and connects scripted workers through sockets.
 *
 * Frames keep one global order over all connections. In the worker's direction each step ends with a ping, whose pong
 * proves that the host has read everything before. In the host's direction frames are delivered in the order of sending.
 * A round ends when everything sent has arrived, so no test sleeps, and a frame that a listener loses fails the test.
 */
import { createConnection, type Socket } from 'node:net'
import type { HostApi } from '../../actors/api/host-api.ts'
import type { WorkerReceiver, WorkerSender } from '../../core/ports/connections.ts'
import type { Log } from '../../core/ports/log.ts'
import type { Result } from '../../core/result.ts'
import { routes } from '../../protocol/routes.ts'
import type { HostServer } from '../../transport/host-server.ts'
import { openHostServer } from '../../transport/server.ts'
import { settlePromises } from '../support/manual-clock.ts'
import { encodeClientFrame } from '../support/socket-client.ts'
import { closeAfterTest, serverOptions } from '../support/test-resources.ts'

/** Rounds without a delivery while something is still under way, before the test fails. */
const ROUNDS_MAX = 2_000

const TEXT = 1
const CLOSE = 8
const PING = 9
const PONG = 10

/** Called by a connection to the host. */
export interface ScriptedConnectionListener {
  onText(text: string): void
  onClose(code: number, reason: string): void
}

/** Sends on a connection to the host. */
export interface ScriptedConnectionSender {
  send(text: string): void
  /** Breaks the connection without a close frame. */
  breakOff(): void
}

/** The listeners of one host, from its start to its end, and all sockets connected to them. */
export class SocketTransport {
  /** The socket of each frame that the host sent and that was not delivered yet, in order. */
  #sentByHost: ClientSocket[] = []
  /** Number of calls from the listeners into the host. */
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
    const opened = await openHostServer(
      serverOptions({ ...hostApi, connectWorker: workerConnected }, { log }),
    )
    if (!opened.ok) throw new Error(opened.refusal.message)
    transport.#listeners = opened.value
    closeAfterTest(() => transport.kill())
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

  /** Runs the pending steps and turns the host's clock until no frame is under way any more. */
  async settle(runTick: () => Promise<void>): Promise<void> {
    for (let idle = 0; idle < ROUNDS_MAX; idle++) {
      for (const step of this.#steps.splice(0)) await step()
      const hostCalls = this.#hostCalls
      await runTick()
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
    throw new Error(`the host sent frames that never arrived: ${this.#sentByHost.length}`)
  }

  /** Closes the listeners in order, with a close frame for every socket. */
  close(reason: string): Promise<void> {
    this.#closing ??= this.#listeners?.close(reason) ?? Promise.resolve()
    return this.#closing
  }

  /** Breaks all sockets; nothing more reaches the host or the workers. */
  async kill(): Promise<void> {
    this.#isKilled = true
    this.#steps = []
    for (const socket of this.#sockets) socket.abandon()
    await this.close('killed')
  }

  #onConnected(hostApi: HostApi, link: WorkerSender): Result<WorkerReceiver> {
    const socket = this.#opening
    if (socket === undefined) throw new Error('no socket is connecting')
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
    // The listener may have refused the connection at once.
    await socket.flushed()
  }

  /** Delivers what has arrived, in the order in which the host sent it. */
  #deliver(): boolean {
    let hasDelivered = false
    while (this.#sentByHost[0]?.deliverNext()) {
      this.#sentByHost.shift()
      hasDelivered = true
    }
    // Close frames of the listeners themselves are not in the host's order.
    for (const socket of this.#sockets) {
      if (this.#sentByHost.includes(socket)) continue
      while (socket.arrivedCount > 0 && socket.deliverNext()) hasDelivered = true
      if (socket.isGone) this.#sockets.delete(socket)
    }
    return hasDelivered
  }
}

/** The client's end of one socket. */
class ClientSocket {
  readonly #listener: ScriptedConnectionListener
  /** Frames that arrived and wait for earlier frames on other sockets. */
  readonly #arrivals: (() => void)[] = []
  readonly #pongs: (() => void)[] = []
  #socket: Socket | undefined
  #rest: Buffer = Buffer.alloc(0)
  #isBroken = false
  /** No more frames will arrive. */
  #isEnded = false
  #resolveHostNoticed: () => void = () => {}
  readonly #hostNoticed: Promise<void>

  constructor(listener: ScriptedConnectionListener) {
    this.#listener = listener
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

  /** Delivers the next frame. Frames to a broken socket count as delivered, because they can't arrive any more. */
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
        reject(new Error('the listener closed the socket'))
        this.#onEnd(1006, '')
      })
      socket.write(UPGRADE_REQUEST)
    })
  }

  async send(text: string): Promise<void> {
    if (this.#isEnded || this.#isBroken) return
    this.#socket?.write(encodeClientFrame(TEXT, text))
    await this.flushed()
  }

  /** Resolves when the host has read everything sent so far and its earlier frames have arrived. */
  async flushed(): Promise<void> {
    // The host's frames of one tick are written at the end of the tick.
    await settlePromises()
    if (this.#isEnded || this.#isBroken) return
    await new Promise<void>((resolve) => {
      this.#pongs.push(resolve)
      this.#socket?.write(encodeClientFrame(PING, ''))
    })
  }

  /** Breaks the socket and resolves when the host has noticed. */
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
    else if (opcode === PING) this.#socket?.write(encodeClientFrame(PONG, payload))
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
