/**
 * The two listeners and what each serves.
 *
 * Management, on loopback only, whatever the configuration says: everything. Fleet, where remote workers call: the
 * rows of the table that name it, and nothing else. Both are one table behind two orders of fences. A door knows how
 * to ask the front desk; it knows no actor, no store and no file but its own certificate.
 */
import type { TemplatedApp } from 'uWebSockets.js'
import type { HostApi } from '../actors/api/host-api.ts'
import type { Clock, Log, Meters } from '../core/ports.ts'
import { no, type Result, yes } from '../core/result.ts'
import { routes } from '../protocol/routes.ts'
import { isLoopbackHost } from './authentication.ts'
import { createHttpHandler, type HttpHandler, STOPPING_REFUSAL } from './http.ts'
import { type Address, createApp, type Listening, listen, type TlsFiles } from './listener.ts'
import { refusal } from './reply.ts'
import { createFleetCheck, createManagementCheck } from './request-checks.ts'
import { createRequestCounter, type RequestCounter } from './request-counter.ts'
import { createRouter } from './router.ts'
import { connectHandlers } from './routes/connect.ts'
import { memoryHandlers } from './routes/memories.ts'
import { pullHandlers } from './routes/pulls.ts'
import { type BuiltSocket, createRoutes, type Handlers, type ServedRoute } from './routes/route-table.ts'
import { runHandlers } from './routes/runs.ts'
import { serviceHandlers } from './routes/service.ts'
import { workerHandlers } from './routes/workers.ts'
import { serveAttach } from './sockets/attach.ts'
import { CLOSE } from './sockets/bounded-sender.ts'
import { serveDashboard } from './sockets/dashboard.ts'
import type { SocketGroup } from './sockets/socket-group.ts'
import { type AdmitSocket, createUpgrade, type UpgradeOptions } from './sockets/upgrade.ts'
import { WorkerSockets } from './sockets/worker.ts'

export interface HostServerOptions {
  readonly hostApi: HostApi
  /** The launch token. */
  readonly token: string
  readonly clock: Clock
  readonly log: Log
  readonly meters: Meters
  readonly version: string
  /** Makes the OpenAPI document; called once somebody reads it. */
  readonly openApi: (version: string) => object
  readonly metricsText: () => Promise<string> | string
  readonly management: Address
  readonly fleet?: Address & { readonly tls?: TlsFiles }
}

export interface HostServer {
  readonly managementPort: number
  readonly fleetPort?: number
  /** No new connections. */
  stopAccepting(): void
  /**
   * Tells every socket why, lets replies that are under way finish for a while, then closes everything. Afterwards
   * nothing here keeps the process alive.
   */
  close(reason: string): Promise<void>
}

/** How long a stop waits for replies that somebody waits for, and for sockets to read their goodbye. */
export const CLOSE_MS_MAX = 2_000
const CLOSE_POLL_MS = 20

const TOO_MANY_DASHBOARDS = refusal(503, 'too many dashboards are connected; close one')

export async function openHostServer(parts: HostServerOptions): Promise<Result<HostServer>> {
  const { management, fleet } = parts
  if (!isLoopbackHost(bracketed(management.host))) {
    return no(
      'invalid',
      `the management listener serves loopback only, and ${management.host} is not loopback`,
    )
  }
  const counter = createRequestCounter()
  const shared: SharedParts = {
    parts,
    table: createRoutes(handlersOf(parts, counter)),
    counts: counter,
    workers: new WorkerSockets(parts),
  }
  const openedManagement = openManagement(shared)
  if (!openedManagement.ok || fleet === undefined)
    return openedManagement.ok ? yes(createHostServer(parts, openedManagement.value)) : openedManagement
  const openedFleet = openFleet(shared, fleet)
  if (!openedFleet.ok) abandon(openedManagement.value)
  return openedFleet.ok
    ? yes(createHostServer(parts, openedManagement.value, openedFleet.value))
    : openedFleet
}

function abandon({ app, socketGroups }: OpenListener): void {
  for (const room of socketGroups) room.stop()
  app.close()
}

/** `::1` is a host to listen on, `[::1]` the same in a Host header. */
const bracketed = (host: string): string => (host.includes(':') && !host.startsWith('[') ? `[${host}]` : host)

function handlersOf(
  { hostApi, meters, openApi, version, metricsText }: HostServerOptions,
  counts: RequestCounter,
): Handlers {
  return {
    ...serviceHandlers({
      hostApi,
      meters,
      openApi: () => openApi(version),
      metricsText,
      requestCounter: counts,
    }),
    ...runHandlers(hostApi),
    ...workerHandlers(hostApi),
    ...connectHandlers(hostApi),
    ...pullHandlers(hostApi),
    ...memoryHandlers(hostApi),
  }
}

// ---- the two listeners -----------------------------------------------------------------------------------------------

/** What both listeners share. */
interface SharedParts {
  readonly parts: HostServerOptions
  readonly table: readonly ServedRoute[]
  readonly counts: RequestCounter
  readonly workers: WorkerSockets
}

interface OpenListener {
  readonly app: TemplatedApp
  readonly http: HttpHandler
  readonly listening: Listening
  readonly socketGroups: readonly SocketGroup[]
}

function openManagement(shared: SharedParts): Result<OpenListener> {
  const { parts, table, counts } = shared
  const made = createApp()
  if (!made.ok) return made
  const admit = createManagementCheck(parts.hostApi, parts.token)
  const route = createRouter(table.filter((row) => row.listeners.includes('management')))
  const checks = { ...parts, admit, route, counter: counts }
  const http = createHttpHandler(checks)
  const socketGroups = serveManagementSockets(made.value, shared, checks, http)
  return startListening(
    { app: made.value, http, socketGroups: Object.values(socketGroups) },
    parts.management,
  )
}

function openFleet(
  shared: SharedParts,
  fleet: NonNullable<HostServerOptions['fleet']>,
): Result<OpenListener> {
  const { parts, table, counts } = shared
  const made = createApp(fleet.tls)
  if (!made.ok) return made
  const route = createRouter(table.filter((row) => row.listeners.includes('fleet')))
  const checks = { ...parts, admit: createFleetCheck(parts.hostApi), route, counter: counts }
  const http = createHttpHandler(checks)
  const socketGroups = [serveWorkerSocket(made.value, shared, checks, http)]
  return startListening({ app: made.value, http, socketGroups }, fleet)
}

function startListening(listener: Omit<OpenListener, 'listening'>, address: Address): Result<OpenListener> {
  listener.app.any('/*', listener.http.handle)
  const listening = listen(listener.app, address)
  if (!listening.ok) for (const room of listener.socketGroups) room.stop()
  return listening.ok ? yes({ ...listener, listening: listening.value }) : listening
}

/** Every socket that works; one that the protocol's table has and this lacks must be in the list of the unbuilt. */
type ManagementSockets = { readonly [N in BuiltSocket]: SocketGroup }

function serveManagementSockets(
  app: TemplatedApp,
  shared: SharedParts,
  checks: UpgradeOptions,
  http: HttpHandler,
): ManagementSockets {
  const admitSocket: AdmitSocket = () =>
    dashboards.hasCapacity() ? { ok: true, data: {} } : { ok: false, reply: TOO_MANY_DASHBOARDS }
  const upgradeFor = (admitSocket: AdmitSocket) =>
    createUpgrade(checks, refuseWhileStopping(http, admitSocket))
  const dashboards = serveDashboard(app, routes.dashboardSocket.path, upgradeFor(admitSocket), shared.parts)
  const attachSocket = serveAttach(app, routes.attachSocket.path, upgradeFor, shared.parts)
  return {
    dashboardSocket: dashboards,
    attachSocket,
    workerSocket: serveWorkerSocket(app, shared, checks, http),
  }
}

function serveWorkerSocket(
  app: TemplatedApp,
  { workers }: SharedParts,
  checks: UpgradeOptions,
  http: HttpHandler,
): SocketGroup {
  return workers.serve(app, routes.workerSocket.path, (admitSocket) =>
    createUpgrade(checks, refuseWhileStopping(http, admitSocket)),
  )
}

const refuseWhileStopping =
  (http: HttpHandler, admitSocket: AdmitSocket): AdmitSocket =>
  (params) =>
    http.isRefusing() ? { ok: false, reply: STOPPING_REFUSAL } : admitSocket(params)

// ---- stopping --------------------------------------------------------------------------------------------------------

function createHostServer(
  { clock }: HostServerOptions,
  management: OpenListener,
  fleet?: OpenListener,
): HostServer {
  const listeners = fleet === undefined ? [management] : [management, fleet]
  let closing: Promise<void> | undefined

  const stopAccepting = (): void => {
    for (const listener of listeners) listener.listening.stop()
  }
  const busy = (): boolean =>
    listeners.some(
      (listener) =>
        listener.http.pendingCount() > 0 || listener.socketGroups.some((room) => room.count() > 0),
    )

  async function closeAll(reason: string): Promise<void> {
    stopAccepting()
    for (const listener of listeners) {
      listener.http.refuseNew()
      for (const room of listener.socketGroups) {
        room.stop()
        room.closeAll(CLOSE.goingAway, reason)
      }
    }
    const until = clock.monotonic() + CLOSE_MS_MAX
    // One look at least, so that goodbyes leave before their connections are closed.
    do await pause(clock, CLOSE_POLL_MS)
    while (busy() && clock.monotonic() < until)
    for (const listener of listeners) listener.app.close()
  }

  return {
    managementPort: management.listening.port,
    ...(fleet === undefined ? {} : { fleetPort: fleet.listening.port }),
    stopAccepting,
    close: (reason) => (closing ??= closeAll(reason)),
  }
}

const pause = (clock: Clock, ms: number): Promise<void> =>
  new Promise((resolve) => {
    clock.after(ms, resolve)
  })
