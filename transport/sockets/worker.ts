/**
 * Serves the worker socket on both listeners: anybody may open it, and the first frame must register a worker.
 *
 * The host API handles the frames. Unregistered sockets are limited twice: by the host API, and per listener before the
 * upgrade, so that many of them cost as little as possible.
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
  serve(app: TemplatedApp, path: string, upgradeFor: (admitSocket: AdmitSocket) => Upgrade): SocketGroup {
    const { hostApi, clock, meters, log } = this.#options
    const workerSockets = new Set<WorkerSocket>()
    /** Sockets that were unregistered when last checked. */
    const unregistered = new Set<WorkerSocket>()
    const onTooSlow = (): void => meters.count('sockets_cut_off_total', LABELS)

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
      const workerSocket = new WorkerSocket(socket, clock, onTooSlow)
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

    /** Never throws, because the library ends the process when a callback throws. */
    function onError(workerSocket: WorkerSocket | undefined, err: unknown): void {
      log.error({ err }, 'a worker socket failed')
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
    this.#options.meters.gauge('sockets', this.#openCount, LABELS)
  }
}
