/**
 * The two listeners and what each serves.
 *
 * Management, on loopback only, whatever the configuration says: everything. Fleet, where remote workers call: the
 * rows of the table that name it, and nothing else. Both are one table behind two orders of fences. A door knows how
 * to ask the front desk; it knows no actor, no store and no file but its own certificate.
 */
import type { TemplatedApp } from 'uWebSockets.js'
import type { FrontDesk } from '../actors/api/host-api.ts'
import type { Clock, Log, Meters } from '../core/ports.ts'
import { no, type Result, yes } from '../core/result.ts'
import { routes } from '../protocol/routes.ts'
import { isLoopbackHost } from './authentication.ts'
import { CLOSING, type HttpDoor, httpDoor } from './http.ts'
import { type Address, type Listening, listen, newApp, type TlsFiles } from './listener.ts'
import { refusal } from './reply.ts'
import { fleetAdmission, managementAdmission } from './request-checks.ts'
import { type Tally, tally } from './request-counter.ts'
import { router } from './router.ts'
import { connectHandlers } from './routes/connect.ts'
import { memoryHandlers } from './routes/memories.ts'
import { pullHandlers } from './routes/pulls.ts'
import { type BuiltSocket, type Handlers, type Row, rows } from './routes/route-table.ts'
import { runHandlers } from './routes/runs.ts'
import { serviceHandlers } from './routes/service.ts'
import { workerHandlers } from './routes/workers.ts'
import { serveAttach } from './sockets/attach.ts'
import { CLOSE } from './sockets/bounded-sender.ts'
import { serveDashboard } from './sockets/dashboard.ts'
import type { SocketRoom } from './sockets/socket-group.ts'
import { type Seat, type UpgradeParts, upgradeDoor } from './sockets/upgrade.ts'
import { WorkerSockets } from './sockets/worker.ts'

export interface DoorsParts {
  readonly desk: FrontDesk
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

export interface Doors {
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
const CLOSE_LOOK_MS = 20

const DASHBOARDS_FULL = refusal(503, 'too many dashboards are connected; close one')

export async function openDoors(parts: DoorsParts): Promise<Result<Doors>> {
  const { management, fleet } = parts
  if (!isLoopbackHost(bracketed(management.host))) {
    return no(
      'invalid',
      `the management listener serves loopback only, and ${management.host} is not loopback`,
    )
  }
  const counts = tally()
  const hall: Hall = {
    parts,
    table: rows(handlersOf(parts, counts)),
    counts,
    workers: new WorkerSockets(parts),
  }
  const inner = openManagement(hall)
  if (!inner.ok || fleet === undefined) return inner.ok ? yes(doorsOf(parts, inner.value)) : inner
  const outer = openFleet(hall, fleet)
  if (!outer.ok) abandon(inner.value)
  return outer.ok ? yes(doorsOf(parts, inner.value, outer.value)) : outer
}

function abandon({ app, rooms }: Door): void {
  for (const room of rooms) room.stop()
  app.close()
}

/** `::1` is a host to listen on, `[::1]` the same in a Host header. */
const bracketed = (host: string): string => (host.includes(':') && !host.startsWith('[') ? `[${host}]` : host)

function handlersOf({ desk, meters, openApi, version, metricsText }: DoorsParts, counts: Tally): Handlers {
  return {
    ...serviceHandlers({ desk, meters, openApi: () => openApi(version), metricsText, requests: counts }),
    ...runHandlers(desk),
    ...workerHandlers(desk),
    ...connectHandlers(desk),
    ...pullHandlers(desk),
    ...memoryHandlers(desk),
  }
}

// ---- the two listeners -----------------------------------------------------------------------------------------------

/** What both listeners share. */
interface Hall {
  readonly parts: DoorsParts
  readonly table: readonly Row[]
  readonly counts: Tally
  readonly workers: WorkerSockets
}

interface Door {
  readonly app: TemplatedApp
  readonly http: HttpDoor
  readonly listening: Listening
  readonly rooms: readonly SocketRoom[]
}

function openManagement(hall: Hall): Result<Door> {
  const { parts, table, counts } = hall
  const made = newApp()
  if (!made.ok) return made
  const admit = managementAdmission(parts.desk, parts.token)
  const route = router(table.filter((row) => row.listeners.includes('management')))
  const fences = { ...parts, admit, route, tally: counts }
  const http = httpDoor(fences)
  const rooms = managementSockets(made.value, hall, fences, http)
  return opened({ app: made.value, http, rooms: Object.values(rooms) }, parts.management)
}

function openFleet(hall: Hall, fleet: NonNullable<DoorsParts['fleet']>): Result<Door> {
  const { parts, table, counts } = hall
  const made = newApp(fleet.tls)
  if (!made.ok) return made
  const route = router(table.filter((row) => row.listeners.includes('fleet')))
  const fences = { ...parts, admit: fleetAdmission(parts.desk), route, tally: counts }
  const http = httpDoor(fences)
  const rooms = [workerSocket(made.value, hall, fences, http)]
  return opened({ app: made.value, http, rooms }, fleet)
}

function opened(door: Omit<Door, 'listening'>, address: Address): Result<Door> {
  door.app.any('/*', door.http.answer)
  const listening = listen(door.app, address)
  if (!listening.ok) for (const room of door.rooms) room.stop()
  return listening.ok ? yes({ ...door, listening: listening.value }) : listening
}

/** Every socket that works; one that the protocol's table has and this lacks must be in the list of the unbuilt. */
type Sockets = { readonly [N in BuiltSocket]: SocketRoom }

function managementSockets(app: TemplatedApp, hall: Hall, fences: UpgradeParts, http: HttpDoor): Sockets {
  const seat: Seat = () =>
    dashboards.room() ? { ok: true, data: {} } : { ok: false, reply: DASHBOARDS_FULL }
  const upgradeFor = (seat: Seat) => upgradeDoor(fences, whileOpen(http, seat))
  const dashboards = serveDashboard(app, routes.dashboardSocket.path, upgradeFor(seat), hall.parts)
  const attachSocket = serveAttach(app, routes.attachSocket.path, upgradeFor, hall.parts)
  return { dashboardSocket: dashboards, attachSocket, workerSocket: workerSocket(app, hall, fences, http) }
}

function workerSocket(
  app: TemplatedApp,
  { workers }: Hall,
  fences: UpgradeParts,
  http: HttpDoor,
): SocketRoom {
  return workers.serve(app, routes.workerSocket.path, (seat) => upgradeDoor(fences, whileOpen(http, seat)))
}

const whileOpen =
  (http: HttpDoor, seat: Seat): Seat =>
  (params) =>
    http.isShut() ? { ok: false, reply: CLOSING } : seat(params)

// ---- stopping --------------------------------------------------------------------------------------------------------

function doorsOf({ clock }: DoorsParts, inner: Door, outer?: Door): Doors {
  const doors = outer === undefined ? [inner] : [inner, outer]
  let closing: Promise<void> | undefined

  const stopAccepting = (): void => {
    for (const door of doors) door.listening.stop()
  }
  const busy = (): boolean =>
    doors.some((door) => door.http.waiting() > 0 || door.rooms.some((room) => room.count() > 0))

  async function closeAll(reason: string): Promise<void> {
    stopAccepting()
    for (const door of doors) {
      door.http.shut()
      for (const room of door.rooms) {
        room.stop()
        room.closeAll(CLOSE.goingAway, reason)
      }
    }
    const until = clock.monotonic() + CLOSE_MS_MAX
    // One look at least, so that goodbyes leave before their connections are closed.
    do await pause(clock, CLOSE_LOOK_MS)
    while (busy() && clock.monotonic() < until)
    for (const door of doors) door.app.close()
  }

  return {
    managementPort: inner.listening.port,
    ...(outer === undefined ? {} : { fleetPort: outer.listening.port }),
    stopAccepting,
    close: (reason) => (closing ??= closeAll(reason)),
  }
}

const pause = (clock: Clock, ms: number): Promise<void> =>
  new Promise((resolve) => {
    clock.after(ms, resolve)
  })
