/**
 * The worker socket, on both listeners: it opens to anybody, and whoever it is has to say so in the first frame.
 *
 * What is said is the desk's business; here it is only carried. Strangers are bounded twice: by the desk, which knows
 * who has registered, and for each listener before the upgrade, so that a crowd of them costs as little as possible.
 */
import type { TemplatedApp, WebSocket } from 'uWebSockets.js'
import type { FrontDesk } from '../../actors/api/host-api.ts'
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
import type { SocketRoom } from './socket-group.ts'
import type { Seat, Upgrade } from './upgrade.ts'
import { Wire, type Wired } from './worker-socket.ts'

export interface WorkerParts {
  readonly desk: FrontDesk
  readonly clock: Clock
  readonly meters: Meters
  readonly log: Log
}

/** A frame over the limit is read up to here, so that its sender can be told; beyond, the listener just hangs up. */
const FRAME_BYTES_READ_MAX = WORKER_FRAME_BYTES_MAX + WORKER_UNREGISTERED_FRAME_BYTES_MAX
const LABELS = { socket: 'worker' }

const STOPPING = refusal(503, 'the service takes no workers now; connect again later')
const TOO_MANY_STRANGERS = refusal(
  503,
  'too many connections have not said who they are; connect again later',
)

export class WorkerSockets {
  readonly #parts: WorkerParts
  /** Over all listeners. */
  #open = 0

  constructor(parts: WorkerParts) {
    this.#parts = parts
  }

  /** Registers the socket with one listener. `upgrade` has the last word before a connection becomes a socket. */
  serve(app: TemplatedApp, path: string, upgradeFor: (seat: Seat) => Upgrade): SocketRoom {
    const { desk, clock, meters, log } = this.#parts
    const wires = new Set<Wire>()
    /** Those of whom nobody has asked lately whether they still are strangers. */
    const strangers = new Set<Wire>()
    const tooSlow = (): void => meters.count('sockets_cut_off_total', LABELS)

    const seat: Seat = () => {
      if (!desk.open()) return { ok: false, reply: STOPPING }
      return hasRoom() ? { ok: true, data: {} } : { ok: false, reply: TOO_MANY_STRANGERS }
    }

    function hasRoom(): boolean {
      if (strangers.size < WORKERS_UNREGISTERED_MAX) return true
      for (const wire of strangers) if (!wire.stranger) strangers.delete(wire)
      return strangers.size < WORKERS_UNREGISTERED_MAX
    }

    function join(wire: Wire): void {
      const joined = desk.workerConnected(wire)
      if (joined.ok) wire.join(joined.value)
      else wire.close(CLOSE.tryAgainLater, joined.refusal.message)
    }

    const opened = (socket: WebSocket<Wired>): void => {
      const wire = new Wire(socket, clock, tooSlow)
      socket.getUserData().wire = wire
      wires.add(wire)
      strangers.add(wire)
      this.#count(1)
      try {
        join(wire)
      } catch (err) {
        failed(wire, err)
      }
    }

    function message(socket: WebSocket<Wired>, bytes: ArrayBuffer, isBinary: boolean): void {
      const { wire } = socket.getUserData()
      try {
        wire?.receive(bytes, isBinary)
      } catch (err) {
        failed(wire, err)
      }
    }

    const closed = (socket: WebSocket<Wired>): void => {
      const { wire } = socket.getUserData()
      if (wire === undefined) return
      wires.delete(wire)
      strangers.delete(wire)
      this.#count(-1)
      try {
        wire.closed()
      } catch (err) {
        failed(wire, err)
      }
    }

    /** Nothing may escape to the listener: it ends the process over an exception in a callback of its own. */
    function failed(wire: Wire | undefined, err: unknown): void {
      log.error({ err }, "a worker's socket failed")
      wire?.close(CLOSE.failed, 'the service failed; its log says why')
    }

    app.ws<Wired>(path, {
      maxPayloadLength: FRAME_BYTES_READ_MAX,
      maxBackpressure: WORKER_BACKLOG_BYTES_MAX,
      idleTimeout: WORKER_SOCKET_IDLE_SECONDS,
      sendPingsAutomatically: true,
      upgrade: upgradeFor(seat),
      open: opened,
      message,
      drain: (socket) => socket.getUserData().wire?.drained(),
      close: closed,
    })

    return {
      count: () => wires.size,
      closeAll: (code, reason) => {
        for (const wire of [...wires]) wire.close(code, reason)
      },
      stop: () => {},
    }
  }

  #count(by: number): void {
    this.#open += by
    this.#parts.meters.gauge('sockets', this.#open, LABELS)
  }
}
