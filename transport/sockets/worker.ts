/**
 * Serves the worker socket on both listeners: anybody may open it, and the first frame must register a worker.
 *
 * The host API handles the frames and limits the unregistered sockets. The limit is asked before the upgrade, so that
 * many of them cost as little as possible. A worker that proves itself in the upgrade request is outside the limit.
 */

import type { HostApi } from '../../actors/api/host-api.ts'
import type { Clock, Log, Meters } from '../../core/ports.ts'
import { SERVICE_FAILED } from '../../core/result.ts'
import {
  WORKER_BACKLOG_BYTES_MAX,
  WORKER_FRAME_BYTES_MAX,
  WORKER_SOCKET_IDLE_SECONDS,
  WORKER_UNREGISTERED_FRAME_BYTES_MAX,
} from '../../protocol/limits.ts'
import { readBearer } from '../authentication.ts'
import type { ListenerApp, ServerSocket } from '../listener-port.ts'
import { refusal } from '../reply.ts'
import type { RequestHead } from '../request-head.ts'
import { CLOSE } from './bounded-sender.ts'
import type { SocketGroup } from './socket-group.ts'
import type { AdmitSocket, Upgrade } from './upgrade.ts'
import { formatAddress, WorkerSocket, type WorkerSocketData } from './worker-socket.ts'

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
