/**
 * Opens the two listeners and serves the route table on them.
 *
 * The management listener serves all routes, on loopback only, whatever the configuration says. The fleet listener, for
 * remote workers, serves only the routes that name it. Both call the host API and know no actor and no store.
 */
import type { HostApi } from '../actors/api/host-api.ts'
import { pathsIn, shortenName } from '../core/audit-paths.ts'
import { isTakenOver } from '../core/owner.ts'
import type { Clock } from '../core/ports/clock.ts'
import type { Log, Meters } from '../core/ports/log.ts'
import type { AuditTrail } from '../core/ports/store.ts'
import { no, type Result, yes } from '../core/result.ts'
import { exposureOf, findAddressFault, type ListenerAddresses } from '../core/settings/listeners.ts'
import type { AuditAction } from '../protocol/audit.ts'
import { routes } from '../protocol/routes.ts'
import { createHostServer, type HostServer } from './host-server.ts'
import { HttpHandler, STOPPING_REFUSAL } from './http.ts'
import {
  type Address,
  certificateFingerprint,
  createApp,
  type HttpListener,
  type ListenerApp,
  listen,
  type OpenPort,
} from './listener-port.ts'
import { refusal } from './reply.ts'
import { createFleetCheck, createManagementCheck, isLoopbackHost } from './request-checks.ts'
import { createRequestCounter, type RequestCounter } from './request-counter.ts'
import { createRouter } from './router.ts'
import { connectHandlers } from './routes/connect.ts'
import { memoryHandlers } from './routes/memories.ts'
import { pullHandlers } from './routes/pulls.ts'
import {
  type Asker,
  createRoutes,
  type Handlers,
  type RouteParameters,
  type ServedRoute,
  type SocketName,
} from './routes/route-table.ts'
import { runHandlers } from './routes/runs.ts'
import { serviceHandlers } from './routes/service.ts'
import { workerHandlers } from './routes/workers.ts'
import { serveAttach } from './sockets/attach.ts'
import { DashboardSockets } from './sockets/dashboard.ts'
import { serveInspect } from './sockets/inspect.ts'
import { type AdmitSocket, createUpgrade, type SocketGroup, type UpgradeOptions } from './sockets/upgrade.ts'
import { WorkerSockets } from './sockets/worker.ts'

export interface HostServerOptions extends ListenerAddresses {
  readonly hostApi: HostApi
  readonly listener: HttpListener
  /** The launch token. */
  readonly token: string
  readonly clock: Clock
  readonly log: Log
  readonly meters: Meters
  readonly trail: AuditTrail
  readonly version: string
  /** The user of this process, whom workers on this machine expect at the other end. */
  readonly hostUser?: string
  /** Creates the OpenAPI document; called when it is first requested. */
  readonly openApi: (version: string) => object
  readonly metricsText: () => Promise<string> | string
}

const TOO_MANY_DASHBOARDS = refusal(503, 'too many dashboards are connected; close one')

export async function openHostServer(options: HostServerOptions): Promise<Result<HostServer>> {
  const { management, fleet } = options
  if (!isLoopbackHost(bracketed(management.host))) {
    return no(
      'invalid',
      `the management listener serves loopback only, and ${management.host} is not loopback`,
    )
  }
  const fault = findAddressFault(options)
  if (fault !== undefined) return no('invalid', `${fault.path.slice(1).replace('/', '.')} ${fault.problem}`)
  const exposure = fleet === undefined ? undefined : exposureOf(fleet)
  if (exposure !== undefined)
    options.log.warn({ host: fleet?.host }, `fleet.host ${exposure}; fleet.insecure allows it`)
  const counter = createRequestCounter()
  const shared: SharedParts = {
    options,
    table: recordRoutes(createRoutes(handlersOf(options, counter)), options.trail),
    requestCounter: counter,
    workers: new WorkerSockets(options),
  }
  const openedManagement = await openManagement(shared)
  if (!openedManagement.ok || fleet === undefined)
    return openedManagement.ok ? yes(createHostServer(options, openedManagement.value)) : openedManagement
  const openedFleet = await openFleet(shared, fleet)
  if (!openedFleet.ok) abandon(openedManagement.value)
  return openedFleet.ok
    ? yes(createHostServer(options, openedManagement.value, openedFleet.value))
    : openedFleet
}

function abandon({ app, socketGroups }: OpenListener): void {
  for (const group of socketGroups) group.stop()
  app.close()
}

/** The form of a host in a Host header: `::1` becomes `[::1]`. */
const bracketed = (host: string): string => (host.includes(':') && !host.startsWith('[') ? `[${host}]` : host)

function fingerprintOf(tls: Parameters<typeof certificateFingerprint>[0]) {
  const fingerprint = certificateFingerprint(tls)
  return fingerprint === undefined ? {} : { fingerprint }
}

function handlersOf(
  { hostApi, clock, meters, openApi, version, metricsText, fleet, hostUser }: HostServerOptions,
  requestCounter: RequestCounter,
): Handlers {
  return {
    ...serviceHandlers({
      hostApi,
      meters,
      openApi: () => openApi(version),
      metricsText,
      requestCounter,
    }),
    ...runHandlers(hostApi, clock),
    ...workerHandlers(hostApi, {
      ...(hostUser === undefined ? {} : { hostUser }),
      ...(fleet?.port === 0 ? {} : { fleetPort: fleet?.port ?? 0 }),
      ...(fleet?.tls === undefined ? {} : fingerprintOf(fleet.tls)),
    }),
    ...connectHandlers(hostApi),
    ...pullHandlers(hostApi),
    ...memoryHandlers(hostApi),
  }
}

// ---- the two listeners -----------------------------------------------------------------------------------------------

/** The values that both listeners share. */
interface SharedParts {
  readonly options: HostServerOptions
  readonly table: readonly ServedRoute[]
  readonly requestCounter: RequestCounter
  readonly workers: WorkerSockets
}

export interface OpenListener {
  readonly app: ListenerApp
  readonly http: HttpHandler
  readonly listening: OpenPort
  readonly socketGroups: readonly SocketGroup[]
}

async function openManagement(shared: SharedParts): Promise<Result<OpenListener>> {
  const { options, table, requestCounter } = shared
  const made = createApp(options.listener)
  if (!made.ok) return made
  const admit = createManagementCheck(options.hostApi, options.token)
  const route = createRouter(table.filter((row) => row.listeners.includes('management')))
  const checks = { ...options, ...fenceOf(options), admit, route, counter: requestCounter, compresses: true }
  const http = new HttpHandler(checks)
  const socketGroups = serveManagementSockets(made.value, shared, checks, http)
  return startListening(
    { app: made.value, http, socketGroups: Object.values(socketGroups) },
    options.management,
    '--port or server.port',
  )
}

async function openFleet(
  shared: SharedParts,
  fleet: NonNullable<HostServerOptions['fleet']>,
): Promise<Result<OpenListener>> {
  const { options, table, requestCounter } = shared
  const made = createApp(options.listener, fleet.tls)
  if (!made.ok) return made
  const route = createRouter(table.filter((row) => row.listeners.includes('fleet')))
  const admit = createFleetCheck(options.hostApi)
  const checks = { ...options, ...fenceOf(options), admit, route, counter: requestCounter }
  const http = new HttpHandler(checks)
  const socketGroups = [serveWorkerSocket(made.value, shared, checks, http)]
  return startListening({ app: made.value, http, socketGroups }, fleet, '--fleet-port or fleet.port')
}

const fenceOf = ({ hostApi }: HostServerOptions) => ({
  isTakenOver: () => isTakenOver(hostApi.storeState()),
})

async function startListening(
  listener: Omit<OpenListener, 'listening'>,
  address: Address,
  portSettings: string,
): Promise<Result<OpenListener>> {
  listener.app.any((response, request) => listener.http.handle(response, request))
  const listening = await listen(listener.app, address, portSettings)
  if (!listening.ok) for (const group of listener.socketGroups) group.stop()
  return listening.ok ? yes({ ...listener, listening: listening.value }) : listening
}

/** Every socket route has a group. */
type ManagementSockets = { readonly [N in SocketName]: SocketGroup }

function serveManagementSockets(
  app: ListenerApp,
  shared: SharedParts,
  checks: UpgradeOptions,
  http: HttpHandler,
): ManagementSockets {
  const admitSocket: AdmitSocket = (_, { query }) =>
    dashboards.hasCapacity()
      ? { ok: true, data: { form: new URLSearchParams(query).has('changes') ? 'changes' : 'whole' } }
      : { ok: false, reply: TOO_MANY_DASHBOARDS }
  const upgradeFor = (admitSocket: AdmitSocket) =>
    createUpgrade(checks, refuseWhileStopping(http, admitSocket))
  const dashboards = new DashboardSockets(
    app,
    routes.dashboardSocket.path,
    upgradeFor(admitSocket),
    shared.options,
  )
  const attachSocket = serveAttach(app, routes.attachSocket.path, upgradeFor, shared.options)
  return {
    dashboardSocket: dashboards,
    attachSocket,
    inspectSocket: serveInspect(app, routes.inspectSocket.path, upgradeFor, shared.options),
    workerSocket: serveWorkerSocket(app, shared, checks, http),
  }
}

function serveWorkerSocket(
  app: ListenerApp,
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
  (params, head, address) =>
    http.isRefusing() ? { ok: false, reply: STOPPING_REFUSAL } : admitSocket(params, head, address)

// ---- stopping --------------------------------------------------------------------------------------------------------

const NOT_RECORDED: readonly ServedRoute['name'][] = ['pollCodehost']
const FAILED = 500

/**
 * Writes what people and workers do to the trail of actions, before its answer leaves.
 *
 * Requests that only read are not recorded, and neither is asking again whether a person has given a consent. A request
 * that was refused before its handler has changed nothing.
 */
function recordRoutes(rows: readonly ServedRoute[], trail: AuditTrail): ServedRoute[] {
  return rows.map((row) => (isRecorded(row) ? recorded(row, trail) : row))
}

const isRecorded = ({ method, name }: ServedRoute): boolean =>
  method !== 'GET' && !NOT_RECORDED.includes(name)

function recorded(row: ServedRoute, trail: AuditTrail): ServedRoute {
  return {
    ...row,
    run: async (placed, body, asker, presence) => {
      const record = (status: number) => trail.record({ ...describe(row, placed, body, asker), status })
      try {
        const reply = await row.run(placed, body, asker, presence)
        await record(reply.status)
        return reply
      } catch (error) {
        await record(FAILED)
        throw error
      }
    },
  }
}

function describe(
  { name }: ServedRoute,
  { params, query }: RouteParameters,
  body: unknown,
  asker: Asker | undefined,
): Omit<AuditAction, 'status'> {
  const on = namesIn({ ...Object(query), ...Object(params) })
  const keys = pathsIn(name === 'changeSettings' ? Object(body).patch : body)
  const by = asker?.workerId ?? asker?.joinKeyId
  return {
    source: asker?.source ?? 'api',
    action: name,
    ...(by === undefined ? {} : { by }),
    ...(Object.keys(on).length === 0 ? {} : { on }),
    ...(keys.length === 0 ? {} : { keys }),
  }
}

/** Path and query of these routes name what an action is about: ids, repositories, numbers and states. */
function namesIn(values: object): Record<string, string | number> {
  return Object.fromEntries(
    Object.entries(values)
      .filter(([, value]) => typeof value === 'string' || typeof value === 'number')
      .map(([key, value]) => [key, typeof value === 'string' ? shortenName(value) : value]),
  )
}
