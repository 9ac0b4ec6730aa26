/**
 * Serves the worker socket on both listeners: anybody may open it, and the first frame must register a worker.
 *
 * The host API handles the frames and limits the unregistered sockets. The limit is asked before the upgrade, so that
 * many of them cost as little as possible. A worker that proves itself in the upgrade request is outside the limit.
 */
import type { HostApi } from '../../actors/api/host-api.ts'
import type { Clock } from '../../core/ports/clock.ts'
import type { WorkerReceiver, WorkerSender } from '../../core/ports/connections.ts'
import type { Log, Meters } from '../../core/ports/log.ts'
import { SERVICE_FAILED } from '../../core/result.ts'
import { WORKER_FRAME_BYTES_MAX, WORKER_UNREGISTERED_FRAME_BYTES_MAX } from '../../protocol/limits.ts'
import type { ListenerApp, ServerSocket } from '../listener-port.ts'
import { refusal } from '../reply.ts'
import { readBearer } from '../request-checks.ts'
import type { RequestHead } from '../request-head.ts'
import { BoundedSender, CLOSE } from './bounded-sender.ts'
import type { AdmitSocket, SocketGroup, Upgrade } from './upgrade.ts'

/** Bytes that may wait for a worker that does not read; above this its connection is closed. */
export const WORKER_BACKLOG_BYTES_MAX = 8 * 1024 * 1024
/**
 * A worker's connection without a received byte (pongs included) for this long counts as lost, whatever the
 * configuration says.
 */
const WORKER_SOCKET_IDLE_SECONDS = 120

export interface WorkerSocketsOptions {
  readonly hostApi: HostApi
  readonly clock: Clock
  readonly meters: Meters
  readonly log: Log
}

/** Frames above the protocol's limit are read up to this size, to answer with a reason; beyond it the library closes. */
const FRAME_BYTES_READ_MAX = WORKER_FRAME_BYTES_MAX + WORKER_UNREGISTERED_FRAME_BYTES_MAX
const LABELS = { socket: 'worker' }

const STOPPING = refusal(503, 'the service takes no workers now; connect again later')
const TOO_MANY_UNREGISTERED = refusal(
  503,
  'too many connections have not registered yet; connect again later',
)

export class WorkerSockets {
  readonly #options: WorkerSocketsOptions
  /** The number of open sockets of all listeners. */
  #openCount = 0

  constructor(options: WorkerSocketsOptions) {
    this.#options = options
  }

  /** Registers the socket with one listener. @param upgradeFor creates the handler that admits or refuses a connection */
  serve(app: ListenerApp, path: string, upgradeFor: (admitSocket: AdmitSocket) => Upgrade): SocketGroup {
    const group = new WorkerSocketGroup(this.#options, (by) => this.#count(by))
    app.ws<WorkerSocketData>(path, {
      maxPayloadLength: FRAME_BYTES_READ_MAX,
      maxBackpressure: WORKER_BACKLOG_BYTES_MAX,
      idleTimeout: WORKER_SOCKET_IDLE_SECONDS,
      sendPingsAutomatically: true,
      upgrade: upgradeFor((_params, head, address) => group.admit(head, address)),
      open: (socket) => group.onOpen(socket),
      message: (socket, bytes, isBinary) => group.onMessage(socket, bytes, isBinary),
      drain: (socket) => socket.getUserData().workerSocket?.onDrained(),
      close: (socket) => group.onClose(socket),
    })
    return group
  }

  #count(by: number): void {
    this.#openCount += by
    this.#options.meters.gauge('sockets', this.#openCount, LABELS)
  }
}

/** The worker sockets of one listener. */
class WorkerSocketGroup implements SocketGroup {
  readonly #options: WorkerSocketsOptions
  readonly #onCountChanged: (by: number) => void
  readonly #sockets = new Set<WorkerSocket>()

  constructor(options: WorkerSocketsOptions, onCountChanged: (by: number) => void) {
    this.#options = options
    this.#onCountChanged = onCountChanged
  }

  count(): number {
    return this.#sockets.size
  }

  closeAll(code: number, reason: string): void {
    for (const workerSocket of [...this.#sockets]) workerSocket.close(code, reason)
  }

  stop(): void {}

  admit(head: RequestHead, address: () => ArrayBuffer): ReturnType<AdmitSocket> {
    const { hostApi } = this.#options
    if (!hostApi.isOpen()) return { ok: false, reply: STOPPING }
    const proof = this.#proofOf(head)
    if (proof !== undefined) return { ok: true, data: { proof } }
    return hostApi.hasWorkerSeat(formatAddress(address()))
      ? { ok: true, data: {} }
      : { ok: false, reply: TOO_MANY_UNREGISTERED }
  }

  /** A wrong proof and no proof lead to the same answer. */
  #proofOf({ authorization, authorizations, workerId, workerIds }: RequestHead): string | undefined {
    const secret = authorizations === 1 && workerIds <= 1 ? readBearer(authorization) : undefined
    if (secret === undefined) return undefined
    return this.#options.hostApi.proveWorker(workerIds === 0 ? undefined : workerId, secret)
  }

  onOpen(socket: ServerSocket<WorkerSocketData>): void {
    const { clock, meters } = this.#options
    const onTooSlow = (): void => meters.count('sockets_cut_off_total', LABELS)
    const workerSocket = new WorkerSocket(socket, clock, onTooSlow)
    socket.getUserData().workerSocket = workerSocket
    this.#sockets.add(workerSocket)
    this.#onCountChanged(1)
    const { proof } = socket.getUserData()
    this.#guard(workerSocket, () => this.#connect(workerSocket, proof))
  }

  #connect(workerSocket: WorkerSocket, proof: string | undefined): void {
    const joined = this.#options.hostApi.connectWorker(workerSocket, proof)
    if (joined.ok) workerSocket.connect(joined.value)
    else workerSocket.close(CLOSE.tryAgainLater, joined.refusal.message)
  }

  onMessage(socket: ServerSocket<WorkerSocketData>, bytes: ArrayBuffer, isBinary: boolean): void {
    const { workerSocket } = socket.getUserData()
    if (workerSocket === undefined) return
    this.#guard(workerSocket, () => workerSocket.onMessage(bytes, isBinary))
  }

  onClose(socket: ServerSocket<WorkerSocketData>): void {
    const { workerSocket } = socket.getUserData()
    if (workerSocket === undefined) return
    this.#sockets.delete(workerSocket)
    this.#onCountChanged(-1)
    this.#guard(workerSocket, () => workerSocket.onClosed())
  }

  /** Never throws, because the library ends the process when a callback throws. */
  #guard(workerSocket: WorkerSocket, run: () => void): void {
    try {
      run()
    } catch (err) {
      this.#options.log.error({ err }, 'a worker socket failed')
      workerSocket.close(CLOSE.failed, SERVICE_FAILED)
    }
  }
}

// ---- one worker ----------------------------------------------------------------------------------------------------

/** The library's user data of each socket. */
interface WorkerSocketData {
  /** The result of `HostApi.proveWorker` for the upgrade request. */
  readonly proof?: string
  workerSocket?: WorkerSocket
}

/**
 * The socket of one worker: sends the host's frames in batches, and passes incoming frames on within their size limit.
 *
 * A host may have thousands of mostly silent sockets, so each is one small object without closures. A worker that does
 * not read is disconnected at the backlog limit: a lost frame would be worse than starting again after a reconnect.
 * All frames of one tick (one commit may dispatch eight runs to a worker) are sent together, because a system call for
 * each would cost more than creating the frame.
 */
class WorkerSocket implements WorkerSender {
  readonly address: string
  readonly #socket: ServerSocket<WorkerSocketData>
  /** The frames of this tick; undefined when there are none, to save memory. */
  #batch: string[] | undefined
  #batchChars = 0
  readonly #sender: BoundedSender
  readonly #onTooSlow: () => void
  #receiver: WorkerReceiver | undefined

  /** @param onTooSlow called when a socket is closed for its backlog; the same function for all sockets */
  constructor(socket: ServerSocket<WorkerSocketData>, clock: Clock, onTooSlow: () => void) {
    this.address = formatAddress(socket.getRemoteAddressAsText())
    this.#socket = socket
    this.#sender = new BoundedSender(socket, clock, doNothing)
    this.#onTooSlow = onTooSlow
  }

  // ---- called by the host

  send(text: string): boolean {
    if (!this.#sender.isOpen) return false
    if (this.#batch === undefined) {
      this.#batch = [text]
      queueMicrotask(() => this.#sendBatch())
    } else this.#batch.push(text)
    this.#batchChars += text.length
    if (this.#batchChars >= BATCH_CHARS_MAX) this.#sendBatch()
    return this.#sender.isOpen
  }

  close(code: number, reason: string): void {
    this.#sendBatch()
    this.#sender.closeAfterDrain(code, reason)
  }

  #sendBatch(): void {
    const batch = this.#batch
    this.#batch = undefined
    this.#batchChars = 0
    if (batch === undefined || !this.#sender.isOpen) return
    let taken = true
    this.#socket.cork(() => {
      for (const text of batch) taken = taken && this.#sender.send(text)
    })
    if (taken) return
    this.#onTooSlow()
    this.#sender.closeAfterDrain(
      CLOSE.tryAgainLater,
      'too slow: more than the backlog limit was waiting; connect again',
    )
  }

  // ---- called by the library

  connect(receiver: WorkerReceiver): void {
    this.#receiver = receiver
  }

  /** The library has checked that text frames are valid UTF-8. */
  onMessage(bytes: ArrayBuffer, isBinary: boolean): void {
    const receiver = this.#receiver
    if (receiver === undefined || !this.#sender.isOpen) return
    const bytesMax = receiver.frameBytesMax()
    if (isBinary) receiver.onUnreadable('frames are JSON text, not binary')
    else if (bytes.byteLength > bytesMax) receiver.onUnreadable(`a frame has at most ${bytesMax} bytes`)
    else receiver.onText(Buffer.from(bytes).toString())
  }

  onDrained(): void {
    this.#sender.onDrained()
  }

  onClosed(): void {
    this.#sender.onClosed()
    this.#receiver?.onClosed()
    this.#receiver = undefined
  }
}

/** A larger batch is split, so that its bytes count against the backlog limit. */
const BATCH_CHARS_MAX = 256 * 1024

const doNothing = (): void => {}

const MAPPED_IPV4 = /^::ffff:([0-9a-f]{1,4}):([0-9a-f]{1,4})$/

/** Formats an address for people: IPv6 shortened, and IPv4-mapped IPv6 as IPv4. */
export function formatAddress(text: ArrayBuffer): string {
  const address = Buffer.from(text).toString('latin1')
  if (!address.includes(':') || !URL.canParse(`http://[${address}]`)) return address
  const short = new URL(`http://[${address}]`).hostname.slice(1, -1)
  const [, high, low] = MAPPED_IPV4.exec(short) ?? []
  return high === undefined || low === undefined ? short : [...halves(high), ...halves(low)].join('.')
}

function halves(hex: string): [number, number] {
  const value = Number.parseInt(hex, 16)
  return [value >> 8, value & 0xff]
}
