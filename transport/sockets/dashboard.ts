/**
 * The dashboard socket: a hello with everything, then each change as it happens.
 *
 * A push becomes text once, however many watch, and the listener's topics carry it: one for everybody, one for the
 * events of all runs, one for each run that somebody chose. Those who chose are off the topic of all runs, so nothing
 * arrives twice.
 */
import type { TemplatedApp, WebSocket } from 'uWebSockets.js'
import type { FrontDesk } from '../../actors/api/host-api.ts'
import type { Clock, Log, Meters } from '../../core/ports.ts'
import { type DashboardPush, DashboardRequest } from '../../protocol/dashboard.ts'
import {
  DASHBOARD_BACKLOG_BYTES_MAX,
  DASHBOARD_FRAME_BYTES_MAX,
  DASHBOARD_SOCKETS_MAX,
  DASHBOARD_SUBSCRIPTIONS_MAX,
  SOCKET_IDLE_SECONDS,
} from '../../protocol/limits.ts'
import { createChecker, parseJson } from '../../protocol/parse.ts'
import { CLOSE } from './bounded-sender.ts'
import { type Seated, TOPIC_ALL, TOPIC_EVENTS, type Told, topicOf, Viewer } from './dashboard-socket.ts'
import type { SocketRoom } from './socket-group.ts'
import type { Upgrade } from './upgrade.ts'

export interface DashboardParts {
  readonly desk: FrontDesk
  readonly clock: Clock
  readonly meters: Meters
  readonly log: Log
}

export interface DashboardSockets extends SocketRoom {
  /** Whether one more fits. */
  room(): boolean
}

/** A frame over the limit is read up to here, so that its sender can be told; beyond, the listener just hangs up. */
const FRAME_BYTES_READ_MAX = 2 * DASHBOARD_FRAME_BYTES_MAX
const LABELS = { socket: 'dashboard' }

/** Registers the socket with the listener. `upgrade` has the last word before a connection becomes a socket. */
export function serveDashboard(
  app: TemplatedApp,
  path: string,
  upgrade: Upgrade,
  { desk, clock, meters, log }: DashboardParts,
): DashboardSockets {
  const viewers = new Set<Viewer>()
  /** Those whose hello is still on its way. */
  const joining = new Set<Viewer>()
  /** How many follow each run, so that nothing is published to nobody. */
  const followers = new Map<string, number>()

  function opened(socket: WebSocket<Seated>): void {
    const viewer = new Viewer(socket, clock)
    socket.getUserData().viewer = viewer
    viewers.add(viewer)
    report()
    try {
      viewer.greet(JSON.stringify(desk.hello()))
      if (!viewer.joined) joining.add(viewer)
    } catch (err) {
      log.error({ err }, 'a dashboard could not be told what there is')
      viewer.outlet.leave(CLOSE.failed, 'the service failed; its log says why')
    }
  }

  function closed(viewer: Viewer): void {
    viewer.outlet.closed()
    viewers.delete(viewer)
    joining.delete(viewer)
    for (const runId of viewer.runs) forget(runId)
    report()
  }

  function message(viewer: Viewer, bytes: ArrayBuffer, isBinary: boolean): void {
    if (!viewer.outlet.open || viewer.tooOften()) return
    const request = readFrame(bytes, isBinary)
    if (!request.ok) viewer.outlet.leave(request.code, request.error)
    else if (request.value.type === 'subscribe') subscribe(viewer, request.value.runId)
    else unsubscribe(viewer, request.value.runId)
  }

  function subscribe(viewer: Viewer, runId: string): void {
    if (viewer.runs.has(runId)) return
    if (viewer.runs.size >= DASHBOARD_SUBSCRIPTIONS_MAX) {
      viewer.outlet.leave(CLOSE.policy, `at most ${DASHBOARD_SUBSCRIPTIONS_MAX} runs can be subscribed to`)
      return
    }
    followers.set(runId, (followers.get(runId) ?? 0) + 1)
    viewer.follow(runId)
  }

  function unsubscribe(viewer: Viewer, runId: string): void {
    if (!viewer.runs.has(runId)) return
    forget(runId)
    viewer.unfollow(runId)
  }

  function forget(runId: string): void {
    const left = (followers.get(runId) ?? 0) - 1
    if (left > 0) followers.set(runId, left)
    else followers.delete(runId)
  }

  function publish(push: DashboardPush, text?: string): void {
    if (viewers.size === 0) return
    const runId = push.type === 'run-event' ? push.event.runId : undefined
    const told = { runId, text: Buffer.from(text ?? JSON.stringify(push)) }
    app.publish(runId === undefined ? TOPIC_ALL : TOPIC_EVENTS, told.text)
    if (runId !== undefined && followers.has(runId)) app.publish(topicOf(runId), told.text)
    for (const viewer of joining) keep(viewer, told)
  }

  function keep(viewer: Viewer, told: Told): void {
    if (viewer.keep(told)) return
    joining.delete(viewer)
    cutOff(viewer)
  }

  /** The listener dropped something for want of room. Not a moment to touch topics: it is walking through them. */
  function dropped(viewer: Viewer): void {
    clock.endOfTick(() => cutOff(viewer))
  }

  function cutOff(viewer: Viewer): void {
    if (!viewer.outlet.open) return
    meters.count('sockets_cut_off_total', LABELS)
    viewer.tooSlow()
  }

  function drained(viewer: Viewer): void {
    viewer.drained()
    if (viewer.joined) joining.delete(viewer)
  }

  const report = (): void => meters.gauge('sockets', viewers.size, LABELS)
  const withViewer = (socket: WebSocket<Seated>, run: (viewer: Viewer) => void): void => {
    const { viewer } = socket.getUserData()
    if (viewer !== undefined) run(viewer)
  }

  app.ws<Seated>(path, {
    maxPayloadLength: FRAME_BYTES_READ_MAX,
    maxBackpressure: DASHBOARD_BACKLOG_BYTES_MAX,
    idleTimeout: SOCKET_IDLE_SECONDS,
    sendPingsAutomatically: true,
    upgrade,
    open: opened,
    message: (socket, bytes, isBinary) => withViewer(socket, (viewer) => message(viewer, bytes, isBinary)),
    ping: (socket) => withViewer(socket, (viewer) => void viewer.tooOften()),
    dropped: (socket) => withViewer(socket, dropped),
    drain: (socket) => withViewer(socket, drained),
    close: (socket) => withViewer(socket, closed),
  })
  const stop = desk.onPush(publish)

  return {
    room: () => viewers.size < DASHBOARD_SOCKETS_MAX,
    count: () => viewers.size,
    closeAll: (code, reason) => {
      for (const viewer of [...viewers]) viewer.outlet.leave(code, reason)
    },
    stop,
  }
}

type FrameRead =
  | { readonly ok: true; readonly value: DashboardRequest }
  | { readonly ok: false; readonly code: number; readonly error: string }

const readRequest = createChecker(DashboardRequest)

function readFrame(bytes: ArrayBuffer, isBinary: boolean): FrameRead {
  if (isBinary) return { ok: false, code: CLOSE.badData, error: 'frames are JSON text, not binary' }
  if (bytes.byteLength > DASHBOARD_FRAME_BYTES_MAX) {
    return { ok: false, code: CLOSE.tooBig, error: `a frame has at most ${DASHBOARD_FRAME_BYTES_MAX} bytes` }
  }
  const parsed = parseJson(Buffer.from(bytes).toString())
  const request = parsed.ok ? readRequest(parsed.value) : parsed
  if (request.ok) return request
  return { ok: false, code: CLOSE.policy, error: request.error.replace(/^\/: /, 'a frame ') }
}
