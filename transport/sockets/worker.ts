/**
 * The worker socket, on both listeners: it opens to anybody, and whoever it is has to say so in the first frame.
 *
 * What is said is the desk's business; here it is only carried. Strangers are bounded twice: by the desk, which knows
 * who has registered, and for each listener before the upgrade, so that a crowd of them costs as little as possible.
 */
import type { TemplatedApp, WebSocket } from 'uWebSockets.js'
import type { HostApi } from '../../actors/api/host-api.ts'
import type { Clock, Log, Meters } from '../../core/ports.ts'
import {
  WORKER_BACKLOG_BYTES_MAX,
  WORKER_FRAME_BYTES_MAX,
  WORKER_SOCKET_IDLE_SECONDS,
  WORKER_UNREGISTERED_FRAME_BYTES_MAX,
  WORKERS_UNREGISTERED_MAX,
} from '../../protocol/limits.ts'
import { refusal } from '../reply.ts'
import { CLOSE } from './bounded-sender.ts'
import type { SocketGroup } from './socket-group.ts'
import type { AdmitSocket, Upgrade } from './upgrade.ts'
import { WorkerSocket, type WorkerSocketData } from './worker-socket.ts'

export interface WorkerSocketsOptions {
  readonly hostApi: HostApi
  readonly clock: Clock
  readonly meters: Meters
  readonly log: Log
}

/** A frame over the limit is read up to here, so that its sender can be told; beyond, the listener just hangs up. */
const FRAME_BYTES_READ_MAX = WORKER_FRAME_BYTES_MAX + WORKER_UNREGISTERED_FRAME_BYTES_MAX
const LABELS = { socket: 'worker' }

const STOPPING = refusal(503, 'the service takes no workers now; connect again later')
const TOO_MANY_UNREGISTERED = refusal(
  503,
  'too many connections have not said who they are; connect again later',
)

export class WorkerSockets {
  readonly #parts: WorkerSocketsOptions
  /** Over all listeners. */
  #openCount = 0

  constructor(parts: WorkerSocketsOptions) {
    this.#parts = parts
  }

  /** Registers the socket with one listener. `upgrade` has the last word before a connection becomes a socket. */
  serve(app: TemplatedApp, path: string, upgradeFor: (admitSocket: AdmitSocket) => Upgrade): SocketGroup {
    const { hostApi, clock, meters, log } = this.#parts
    const workerSockets = new Set<WorkerSocket>()
    /** Those of whom nobody has asked lately whether they still are strangers. */
    const unregistered = new Set<WorkerSocket>()
    const tooSlow = (): void => meters.count('sockets_cut_off_total', LABELS)

    const admitSocket: AdmitSocket = () => {
      if (!hostApi.isOpen()) return { ok: false, reply: STOPPING }
      return hasCapacity() ? { ok: true, data: {} } : { ok: false, reply: TOO_MANY_UNREGISTERED }
    }

    function hasCapacity(): boolean {
      if (unregistered.size < WORKERS_UNREGISTERED_MAX) return true
      for (const workerSocket of unregistered)
        if (!workerSocket.isUnregistered) unregistered.delete(workerSocket)
      return unregistered.size < WORKERS_UNREGISTERED_MAX
    }

    function connect(workerSocket: WorkerSocket): void {
      const joined = hostApi.connectWorker(workerSocket)
      if (joined.ok) workerSocket.connect(joined.value)
      else workerSocket.close(CLOSE.tryAgainLater, joined.refusal.message)
    }

    const onOpen = (socket: WebSocket<WorkerSocketData>): void => {
      const workerSocket = new WorkerSocket(socket, clock, tooSlow)
      socket.getUserData().workerSocket = workerSocket
      workerSockets.add(workerSocket)
      unregistered.add(workerSocket)
      this.#count(1)
      try {
        connect(workerSocket)
      } catch (err) {
        onError(workerSocket, err)
      }
    }

    function onMessage(socket: WebSocket<WorkerSocketData>, bytes: ArrayBuffer, isBinary: boolean): void {
      const { workerSocket } = socket.getUserData()
      try {
        workerSocket?.onMessage(bytes, isBinary)
      } catch (err) {
        onError(workerSocket, err)
      }
    }

    const onClose = (socket: WebSocket<WorkerSocketData>): void => {
      const { workerSocket } = socket.getUserData()
      if (workerSocket === undefined) return
      workerSockets.delete(workerSocket)
      unregistered.delete(workerSocket)
      this.#count(-1)
      try {
        workerSocket.onClosed()
      } catch (err) {
        onError(workerSocket, err)
      }
    }

    /** Nothing may escape to the listener: it ends the process over an exception in a callback of its own. */
    function onError(workerSocket: WorkerSocket | undefined, err: unknown): void {
      log.error({ err }, "a worker's socket failed")
      workerSocket?.close(CLOSE.failed, 'the service failed; its log says why')
    }

    app.ws<WorkerSocketData>(path, {
      maxPayloadLength: FRAME_BYTES_READ_MAX,
      maxBackpressure: WORKER_BACKLOG_BYTES_MAX,
      idleTimeout: WORKER_SOCKET_IDLE_SECONDS,
      sendPingsAutomatically: true,
      upgrade: upgradeFor(admitSocket),
      open: onOpen,
      message: onMessage,
      drain: (socket) => socket.getUserData().workerSocket?.onDrained(),
      close: onClose,
    })

    return {
      count: () => workerSockets.size,
      closeAll: (code, reason) => {
        for (const workerSocket of [...workerSockets]) workerSocket.close(code, reason)
      },
      stop: () => {},
    }
  }

  #count(by: number): void {
    this.#openCount += by
    this.#parts.meters.gauge('sockets', this.#openCount, LABELS)
  }
}
