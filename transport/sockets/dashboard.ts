/**
 * The dashboard socket: a hello with everything, then each change as it happens.
 *
 * A push becomes text once, however many watch, and the listener's topics carry it: `all` to everybody, and a run's
 * events to `events` (those who follow every run) and to the run's own topic (those who chose). A socket is on one
 * or the other, never on both, so nothing arrives twice. Hello and the topics are taken up in one go, so nothing
 * falls between them either.
 */
import type { TemplatedApp, WebSocket } from 'uWebSockets.js'
import type { FrontDesk } from '../../actors/root/front-desk.ts'
import type { Clock, Meters } from '../../core/ports.ts'
import { type DashboardPush, DashboardRequest } from '../../protocol/dashboard.ts'
import {
  DASHBOARD_BACKLOG_BYTES_MAX,
  DASHBOARD_FRAME_BYTES_MAX,
  DASHBOARD_FRAMES_PER_10_SECONDS_MAX,
  DASHBOARD_SOCKETS_MAX,
  DASHBOARD_SUBSCRIPTIONS_MAX,
  SOCKET_IDLE_SECONDS,
} from '../../protocol/limits.ts'
import { checker, parseJson } from '../../protocol/parse.ts'
import { CLOSE, Outlet } from './outlet.ts'

export interface DashboardParts {
  readonly desk: FrontDesk
  readonly clock: Clock
  readonly meters: Meters
}

export interface DashboardSockets {
  /** Whether one more fits. */
  room(): boolean
  count(): number
  closeAll(code: number, reason: string): void
  /** No more pushes. */
  stop(): void
}

/** What is known of one socket. */
export interface Viewer {
  outlet?: Outlet
  readonly runs: Set<string>
  windowFrom: number
  framesInWindow: number
}

export const newViewer = (): Viewer => ({ runs: new Set(), windowFrom: 0, framesInWindow: 0 })

const WINDOW_MS = 10_000
/** A frame over the limit is read up to here, so that its sender can be told; beyond, the listener just hangs up. */
const FRAME_BYTES_READ_MAX = 2 * DASHBOARD_FRAME_BYTES_MAX

const readRequest = checker(DashboardRequest)
const topicOf = (runId: string): string => `run:${runId}`

type FrameRead =
  | { readonly ok: true; readonly value: DashboardRequest }
  | { readonly ok: false; readonly code: number; readonly error: string }

function readFrame(bytes: ArrayBuffer, isBinary: boolean): FrameRead {
  if (isBinary) return { ok: false, code: CLOSE.badData, error: 'frames are JSON text, not binary' }
  if (bytes.byteLength > DASHBOARD_FRAME_BYTES_MAX) {
    return { ok: false, code: CLOSE.tooBig, error: `a frame has at most ${DASHBOARD_FRAME_BYTES_MAX} bytes` }
  }
  const parsed = parseJson(Buffer.from(bytes).toString())
  const request = parsed.ok ? readRequest(parsed.value) : parsed
  return request.ok ? request : { ok: false, code: CLOSE.policy, error: `frame ${request.error}` }
}

/** Registers the socket with the listener. `upgrade` has the last word before a connection becomes a socket. */
export function serveDashboard(
  app: TemplatedApp,
  path: string,
  upgrade: (...asked: Parameters<NonNullable<Parameters<TemplatedApp['ws']>[1]['upgrade']>>) => void,
  { desk, clock, meters }: DashboardParts,
): DashboardSockets {
  const outlets = new Set<Outlet>()
  const watchers = new Map<string, number>()

  function opened(socket: WebSocket<Viewer>): void {
    const viewer = socket.getUserData()
    const outlet = new Outlet(socket, clock, () => {
      for (const topic of socket.getTopics()) socket.unsubscribe(topic)
    })
    viewer.outlet = outlet
    viewer.windowFrom = clock.monotonic()
    outlets.add(outlet)
    report()
    outlet.send(JSON.stringify(desk.hello()))
    socket.subscribe('all')
    socket.subscribe('events')
  }

  function closed(socket: WebSocket<Viewer>): void {
    const viewer = socket.getUserData()
    if (viewer.outlet === undefined) return
    viewer.outlet.closed()
    outlets.delete(viewer.outlet)
    for (const runId of viewer.runs) forget(runId)
    report()
  }

  /** The listener dropped something for want of room. Not a moment to touch topics: it is walking through them. */
  function dropped(socket: WebSocket<Viewer>): void {
    const outlet = socket.getUserData().outlet
    clock.endOfTick(() => {
      if (outlet?.open !== true) return
      meters.count('sockets_cut_off_total', { socket: 'dashboard' })
      outlet.leave(CLOSE.tryAgainLater, 'too slow: more than the backlog limit was waiting; connect again')
    })
  }

  function message(socket: WebSocket<Viewer>, bytes: ArrayBuffer, isBinary: boolean): void {
    const viewer = socket.getUserData()
    if (viewer.outlet?.open !== true || tooOften(viewer)) return
    const request = readFrame(bytes, isBinary)
    if (!request.ok) viewer.outlet.leave(request.code, request.error)
    else if (request.value.type === 'unsubscribe') unsubscribe(socket, viewer, request.value.runId)
    else subscribe(socket, viewer, viewer.outlet, request.value.runId)
  }

  function tooOften(viewer: Viewer): boolean {
    const now = clock.monotonic()
    if (now - viewer.windowFrom >= WINDOW_MS) {
      viewer.windowFrom = now
      viewer.framesInWindow = 0
    }
    viewer.framesInWindow += 1
    if (viewer.framesInWindow <= DASHBOARD_FRAMES_PER_10_SECONDS_MAX) return false
    viewer.outlet?.leave(
      CLOSE.policy,
      `more than ${DASHBOARD_FRAMES_PER_10_SECONDS_MAX} frames within 10 seconds`,
    )
    return true
  }

  function subscribe(socket: WebSocket<Viewer>, viewer: Viewer, outlet: Outlet, runId: string): void {
    if (viewer.runs.has(runId)) return
    if (viewer.runs.size >= DASHBOARD_SUBSCRIPTIONS_MAX) {
      outlet.leave(CLOSE.policy, `at most ${DASHBOARD_SUBSCRIPTIONS_MAX} runs can be subscribed to`)
      return
    }
    if (viewer.runs.size === 0) socket.unsubscribe('events')
    viewer.runs.add(runId)
    watchers.set(runId, (watchers.get(runId) ?? 0) + 1)
    socket.subscribe(topicOf(runId))
  }

  function unsubscribe(socket: WebSocket<Viewer>, viewer: Viewer, runId: string): void {
    if (!viewer.runs.delete(runId)) return
    forget(runId)
    socket.unsubscribe(topicOf(runId))
    if (viewer.runs.size === 0) socket.subscribe('events')
  }

  function forget(runId: string): void {
    const left = (watchers.get(runId) ?? 0) - 1
    if (left > 0) watchers.set(runId, left)
    else watchers.delete(runId)
  }

  function publish(push: DashboardPush): void {
    if (outlets.size === 0) return
    const text = Buffer.from(JSON.stringify(push))
    if (push.type !== 'run-event') {
      app.publish('all', text)
      return
    }
    app.publish('events', text)
    if (watchers.has(push.event.runId)) app.publish(topicOf(push.event.runId), text)
  }

  const report = (): void => meters.gauge('sockets', outlets.size, { socket: 'dashboard' })

  app.ws<Viewer>(path, {
    maxPayloadLength: FRAME_BYTES_READ_MAX,
    maxBackpressure: DASHBOARD_BACKLOG_BYTES_MAX,
    idleTimeout: SOCKET_IDLE_SECONDS,
    sendPingsAutomatically: true,
    upgrade,
    open: opened,
    message,
    ping: (socket) => void tooOften(socket.getUserData()),
    dropped,
    drain: (socket) => socket.getUserData().outlet?.drained(),
    close: closed,
  })
  const stop = desk.onPush(publish)

  return {
    room: () => outlets.size < DASHBOARD_SOCKETS_MAX,
    count: () => outlets.size,
    closeAll: (code, reason) => {
      for (const outlet of [...outlets]) outlet.leave(code, reason)
    },
    stop,
  }
}
