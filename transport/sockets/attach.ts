/**
 * Serves the attach socket: one terminal view for each connection, of the run in the path.
 *
 * The socket opens whatever the run's state is. The host API decides whether a session is possible, and the socket sends
 * its refusal as a frame.
 */

import type { HostApi } from '../../actors/api/host-api.ts'
import type { AuditTrail, Clock, Log, Meters } from '../../core/ports.ts'
import { SERVICE_FAILED } from '../../core/result.ts'
import {
  ATTACH_BACKLOG_BYTES_MAX,
  ATTACH_FRAME_BYTES_MAX,
  ATTACH_VIEWS_MAX,
  SOCKET_IDLE_SECONDS,
} from '../../protocol/limits.ts'
import type { ParamsOf } from '../../protocol/routes.ts'
import type { ListenerApp, ServerSocket } from '../listener-port.ts'
import { refusal } from '../reply.ts'
import { sourceOf } from '../request-checks.ts'
import { CLOSE } from './bounded-sender.ts'
import type { SocketGroup } from './socket-group.ts'
import { TerminalSocket, type TerminalSocketData } from './terminal.ts'
import type { AdmitSocket, Upgrade } from './upgrade.ts'

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

/** Registers the socket with the listener. @param upgradeFor creates the handler that admits or refuses a connection */
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
