/**
 * Serves the inspection socket: one viewer of the host's actors for each connection.
 *
 * The host API decides what a viewer sees and leaves out what the viewer is too slow for; here frames become text.
 */
import type { HostApi } from '../../actors/api/host-api.ts'
import type { Clock } from '../../core/ports/clock.ts'
import type { InspectionSession } from '../../core/ports/connections.ts'
import type { Log, Meters } from '../../core/ports/log.ts'
import { SERVICE_FAILED } from '../../core/result.ts'
import { InspectRequest } from '../../protocol/inspection.ts'
import { INSPECT_BACKLOG_BYTES_MAX, INSPECT_VIEWERS_MAX, SOCKET_IDLE_SECONDS } from '../../protocol/limits.ts'
import { createChecker, parseJson } from '../../protocol/parse.ts'
import type { ListenerApp, ServerSocket } from '../listener-port.ts'
import { refusal } from '../reply.ts'
import { BoundedSender, CLOSE } from './bounded-sender.ts'
import type { AdmitSocket, SocketGroup, Upgrade } from './upgrade.ts'

/** The frame with which a viewer says whom it follows. */
export const INSPECT_REQUEST_BYTES_MAX = 64 * 1024

export interface InspectSocketOptions {
  readonly hostApi: Pick<HostApi, 'inspect'>
  readonly clock: Clock
  readonly meters: Meters
  readonly log: Log
}

interface InspectSocketData {
  viewer?: Viewer
}

interface Viewer {
  readonly sender: BoundedSender
  session?: InspectionSession
}

/** The hello of many actors waits beside what may wait later. */
const BACKLOG_BYTES_READ_MAX = 16 * INSPECT_BACKLOG_BYTES_MAX
/** Frames above the limit are read up to this size, to answer with a reason; beyond it the library closes. */
const FRAME_BYTES_READ_MAX = 2 * INSPECT_REQUEST_BYTES_MAX
const LABELS = { socket: 'inspect' }
const TOO_SLOW = 'too slow: more than the backlog limit was waiting; connect again'
const TOO_MANY = refusal(503, 'too many people inspect this host; close a page')

export function serveInspect(
  app: ListenerApp,
  path: string,
  upgradeFor: (admitSocket: AdmitSocket) => Upgrade,
  options: InspectSocketOptions,
): SocketGroup {
  const sockets = new InspectSockets(options)
  app.ws<InspectSocketData>(path, {
    maxPayloadLength: FRAME_BYTES_READ_MAX,
    maxBackpressure: BACKLOG_BYTES_READ_MAX,
    idleTimeout: SOCKET_IDLE_SECONDS,
    sendPingsAutomatically: true,
    upgrade: upgradeFor(() => sockets.admit()),
    open: (socket) => sockets.onOpen(socket),
    message: (socket, bytes, isBinary) => sockets.onMessage(socket, bytes, isBinary),
    drain: (socket) => sockets.onDrained(socket),
    close: (socket) => sockets.onClosed(socket),
  })
  return sockets
}

type InspectSocket = ServerSocket<InspectSocketData>

class InspectSockets implements SocketGroup {
  readonly #options: InspectSocketOptions
  readonly #viewers = new Set<Viewer>()

  constructor(options: InspectSocketOptions) {
    this.#options = options
  }

  admit(): ReturnType<AdmitSocket> {
    return this.#viewers.size >= INSPECT_VIEWERS_MAX ? { ok: false, reply: TOO_MANY } : { ok: true, data: {} }
  }

  onOpen(socket: InspectSocket): void {
    const { clock, hostApi } = this.#options
    const viewer: Viewer = { sender: new BoundedSender(socket, clock, () => viewer.session?.close()) }
    socket.getUserData().viewer = viewer
    this.#viewers.add(viewer)
    this.#report()
    this.#guard(socket, () => {
      const opened = hostApi.inspect({
        send(frame) {
          if (!viewer.sender.send(JSON.stringify(frame)))
            viewer.sender.closeAfterDrain(CLOSE.tryAgainLater, TOO_SLOW)
        },
        backlog: () => (viewer.sender.isOpen ? socket.getBufferedAmount() : 0),
      })
      if (opened.ok) viewer.session = opened.value
      else viewer.sender.closeAfterDrain(CLOSE.tryAgainLater, opened.refusal.message)
    })
  }

  onMessage(socket: InspectSocket, bytes: ArrayBuffer, isBinary: boolean): void {
    this.#guard(socket, ({ sender, session }) => {
      if (!sender.isOpen) return
      const request = readRequest(bytes, isBinary)
      if (request.ok) session?.follow(request.value)
      else sender.closeAfterDrain(request.code, request.error)
    })
  }

  onDrained(socket: InspectSocket): void {
    this.#guard(socket, ({ sender, session }) => {
      sender.onDrained()
      if (sender.isOpen) session?.onDrained()
    })
  }

  onClosed(socket: InspectSocket): void {
    this.#guard(socket, (viewer) => {
      viewer.sender.onClosed()
      this.#viewers.delete(viewer)
      this.#report()
      viewer.session?.close()
    })
  }

  count(): number {
    return this.#viewers.size
  }

  closeAll(code: number, reason: string): void {
    for (const { sender } of [...this.#viewers]) sender.closeAfterDrain(code, reason)
  }

  stop(): void {}

  /** Never throws, because the library ends the process when a callback throws. */
  #guard(socket: InspectSocket, run: (viewer: Viewer) => void): void {
    const { viewer } = socket.getUserData()
    if (viewer === undefined) return
    try {
      run(viewer)
    } catch (err) {
      this.#options.log.error({ err }, 'an inspection socket failed')
      viewer.sender.closeAfterDrain(CLOSE.failed, SERVICE_FAILED)
    }
  }

  #report(): void {
    this.#options.meters.gauge('sockets', this.#viewers.size, LABELS)
  }
}

type ReadRequest =
  | { readonly ok: true; readonly value: InspectRequest }
  | { readonly ok: false; readonly code: number; readonly error: string }

const checkRequest = createChecker(InspectRequest)

function readRequest(bytes: ArrayBuffer, isBinary: boolean): ReadRequest {
  if (isBinary) return { ok: false, code: CLOSE.badData, error: 'frames are JSON text, not binary' }
  if (bytes.byteLength > INSPECT_REQUEST_BYTES_MAX)
    return { ok: false, code: CLOSE.tooBig, error: `a frame has at most ${INSPECT_REQUEST_BYTES_MAX} bytes` }
  const parsed = parseJson(Buffer.from(bytes).toString())
  const request = parsed.ok ? checkRequest(parsed.value) : parsed
  if (request.ok) return request
  return { ok: false, code: CLOSE.policy, error: request.error.replace(/^\/: /, 'a frame ') }
}
