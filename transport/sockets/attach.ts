/**
 * Serves the attach socket: one terminal view for each connection, of the run in the path.
 *
 * The socket opens whatever the run's state is. The host API decides whether a session is possible, and the socket sends
 * its refusal as a frame.
 */
import type { HostApi } from '../../actors/api/host-api.ts'
import type { Clock } from '../../core/ports/clock.ts'
import type { ViewReceiver, ViewSender } from '../../core/ports/connections.ts'
import type { Log, Meters } from '../../core/ports/log.ts'
import type { AuditTrail } from '../../core/ports/store.ts'
import { SERVICE_FAILED } from '../../core/result.ts'
import { TokenBucket } from '../../core/token-bucket.ts'
import type { ActionSource } from '../../protocol/audit.ts'
import { AttachInput, type AttachOutput } from '../../protocol/dashboard.ts'
import {
  ATTACH_FRAME_BYTES_MAX,
  ATTACH_FRAMES_PER_SECOND,
  ATTACH_INPUT_BYTES_AT_ONCE,
  ATTACH_INPUT_BYTES_PER_SECOND,
  ATTACH_VIEWS_MAX,
  SOCKET_IDLE_SECONDS,
  TEXT_CHARS_MAX,
} from '../../protocol/limits.ts'
import { createChecker, parseJson } from '../../protocol/parse.ts'
import type { ParamsOf } from '../../protocol/routes.ts'
import type { ListenerApp, ServerSocket } from '../listener-port.ts'
import { refusal } from '../reply.ts'
import { sourceOf } from '../request-checks.ts'
import { BoundedSender, CLOSE } from './bounded-sender.ts'
import type { AdmitSocket, SocketGroup, Upgrade } from './upgrade.ts'

/** Bytes that may wait for a view that does not read; above this it is disconnected. */
export const ATTACH_BACKLOG_BYTES_MAX = 4 * 1024 * 1024
export const ATTACH_FRAMES_AT_ONCE = 2_000

export interface AttachSocketOptions {
  readonly hostApi: HostApi
  readonly clock: Clock
  readonly meters: Meters
  readonly log: Log
  readonly trail: AuditTrail
}

/** Frames above the protocol's limit are read up to this size, to answer with a reason; beyond it the library closes. */
const FRAME_BYTES_READ_MAX = 2 * ATTACH_FRAME_BYTES_MAX
/** Closing sockets count too, so the limit is higher than that of views. */
const SOCKETS_MAX = 2 * ATTACH_VIEWS_MAX
const LABELS = { socket: 'attach' }
const TOO_MANY_TERMINALS = refusal(503, 'too many terminals are open; close one')

/**
 * Registers the socket with the listener.
 *
 * @param upgradeFor creates the handler that admits or refuses a connection
 */
export function serveAttach(
  app: ListenerApp,
  path: string,
  upgradeFor: (admitSocket: AdmitSocket) => Upgrade,
  { hostApi, clock, meters, log, trail }: AttachSocketOptions,
): SocketGroup {
  const terminals = new Set<TerminalSocket>()
  const report = (): void => meters.gauge('sockets', terminals.size, LABELS)
  const guarded = createGuard(log)
  const onTooSlow = (): void => meters.count('sockets_cut_off_total', LABELS)

  const admitSocket: AdmitSocket = (params, head) => {
    if (terminals.size >= SOCKETS_MAX) return { ok: false, reply: TOO_MANY_TERMINALS }
    // The route of this path has checked them.
    const data: TerminalSocketData = {
      runId: (params as ParamsOf<'attachSocket'>).id,
      source: sourceOf(head),
    }
    return { ok: true, data }
  }

  function opened(socket: ServerSocket<TerminalSocketData>): void {
    const data = socket.getUserData()
    const terminal = new TerminalSocket(socket, clock, onTooSlow)
    data.terminal = terminal
    terminals.add(terminal)
    report()
    // Nothing of the terminal is shown before that.
    void trail
      .record({ source: data.source, action: 'attachTerminal', on: { id: data.runId } })
      .then(() => guarded(terminal, () => attach(terminal, hostApi, data.runId)))
  }

  function closed(terminal: TerminalSocket): void {
    terminals.delete(terminal)
    report()
    guarded(terminal, () => terminal.onClosed())
  }

  const withTerminal = (
    socket: ServerSocket<TerminalSocketData>,
    run: (terminal: TerminalSocket) => void,
  ): void => {
    const { terminal } = socket.getUserData()
    if (terminal !== undefined) guarded(terminal, () => run(terminal))
  }

  app.ws<TerminalSocketData>(path, {
    maxPayloadLength: FRAME_BYTES_READ_MAX,
    maxBackpressure: ATTACH_BACKLOG_BYTES_MAX,
    idleTimeout: SOCKET_IDLE_SECONDS,
    sendPingsAutomatically: true,
    upgrade: upgradeFor(admitSocket),
    open: opened,
    message: (socket, bytes, isBinary) =>
      withTerminal(socket, (terminal) => terminal.onMessage(bytes, isBinary)),
    ping: (socket) => withTerminal(socket, (terminal) => terminal.onPing()),
    drain: (socket) => withTerminal(socket, (terminal) => terminal.onDrained()),
    close: (socket) => withTerminal(socket, closed),
  })

  return {
    count: () => terminals.size,
    closeAll: (code, reason) => {
      for (const terminal of [...terminals]) terminal.close(code, reason)
    },
    stop: () => {},
  }
}

function attach(terminal: TerminalSocket, hostApi: HostApi, runId: string): void {
  if (terminal.isOpen) terminal.connect(hostApi.attachView(runId, terminal))
}

/** The guard never throws, because the library ends the process when a callback throws. */
function createGuard(log: Log) {
  return (terminal: TerminalSocket, run: () => void): void => {
    try {
      run()
    } catch (err) {
      log.error({ err }, 'an attach socket failed')
      terminal.close(CLOSE.failed, SERVICE_FAILED)
    }
  }
}

// ---- one terminal --------------------------------------------------------------------------------------------------

/** The library's user data of each socket. */
interface TerminalSocketData {
  readonly runId: string
  readonly source: ActionSource
  terminal?: TerminalSocket
}

const TOO_SLOW = 'too slow: more than the backlog limit was waiting; connect again'
const TOO_FAST = 'too fast: more was typed than a terminal may send; connect again'

/**
 * The socket of one terminal view: passes input to the host within a rate limit, and sends output while the client
 * reads it.
 *
 * Token buckets limit frames and bytes: a long text may be pasted and a key held down, but no terminal can occupy a
 * worker's connection.
 */
class TerminalSocket implements ViewSender {
  readonly #sender: BoundedSender
  readonly #frames: TokenBucket
  readonly #bytes: TokenBucket
  readonly #onTooSlow: () => void
  #receiver: ViewReceiver | undefined
  /** The frames from before the host listens; the buckets bound them. */
  #early: AttachInput[] = []

  /** @param onTooSlow called when the socket is closed for its backlog */
  constructor(socket: ServerSocket<TerminalSocketData>, clock: Clock, onTooSlow: () => void) {
    this.#sender = new BoundedSender(socket, clock, () => {})
    const now = () => clock.monotonic()
    this.#frames = new TokenBucket(now, ATTACH_FRAMES_AT_ONCE, ATTACH_FRAMES_PER_SECOND)
    this.#bytes = new TokenBucket(now, ATTACH_INPUT_BYTES_AT_ONCE, ATTACH_INPUT_BYTES_PER_SECOND)
    this.#onTooSlow = onTooSlow
  }

  // ---- called by the host

  send(frame: AttachOutput, text = JSON.stringify(frame)): boolean {
    if (!this.#sender.isOpen) return false
    if (this.#sender.send(text)) return true
    this.#onTooSlow()
    this.#sender.closeAfterDrain(CLOSE.tryAgainLater, TOO_SLOW)
    return false
  }

  close(code: number, reason: string): void {
    this.#sender.closeAfterDrain(code, reason)
  }

  // ---- called by the library

  get isOpen(): boolean {
    return this.#sender.isOpen
  }

  connect(receiver: ViewReceiver): void {
    this.#receiver = receiver
    for (const frame of this.#early.splice(0)) this.#pass(frame)
  }

  onMessage(bytes: ArrayBuffer, isBinary: boolean): void {
    if (!this.#sender.isOpen) return
    if (!this.#frames.take(1) || !this.#bytes.take(bytes.byteLength)) this.#refuse(CLOSE.policy, TOO_FAST)
    else if (isBinary) this.#refuse(CLOSE.badData, 'frames are JSON text, not binary')
    else if (bytes.byteLength > ATTACH_FRAME_BYTES_MAX)
      this.#refuse(CLOSE.tooBig, `a frame has at most ${ATTACH_FRAME_BYTES_MAX} bytes`)
    else this.#read(Buffer.from(bytes).toString())
  }

  /** The library answers pings itself; they count as frames all the same. */
  onPing(): void {
    if (this.#sender.isOpen && !this.#frames.take(1)) this.#refuse(CLOSE.policy, TOO_FAST)
  }

  onDrained(): void {
    this.#sender.onDrained()
  }

  onClosed(): void {
    this.#sender.onClosed()
    this.#releaseReceiver()
  }

  #read(text: string): void {
    const parsed = parseJson(text)
    const frame = parsed.ok ? readInput(parsed.value) : parsed
    if (!frame.ok) this.#refuse(CLOSE.policy, frame.error.replace(/^\/: /, 'a frame '))
    else if (this.#receiver === undefined) this.#early.push(frame.value)
    else this.#pass(frame.value)
  }

  #pass(frame: AttachInput): void {
    if (frame.type === 'input') this.#receiver?.onInput(frame.data)
    else this.#receiver?.onResize(frame.cols, frame.rows)
  }

  #refuse(code: number, reason: string): void {
    this.#sender.send(JSON.stringify({ type: 'error', message: reason.slice(0, TEXT_CHARS_MAX) }))
    this.#sender.closeAfterDrain(code, reason)
    this.#releaseReceiver()
  }

  #releaseReceiver(): void {
    const receiver = this.#receiver
    this.#receiver = undefined
    receiver?.onClosed()
  }
}

const readInput = createChecker(AttachInput)
