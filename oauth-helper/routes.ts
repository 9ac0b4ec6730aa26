/**
 * The helper's routes: the protocol's route table, each row with its handler.
 *
 * Every handled request is logged with route, status and duration. Queries, bodies and headers are never logged,
 * because they hold codes and tokens.
 */
import type { Clock } from '../core/ports/clock.ts'
import type { Log } from '../core/ports/log.ts'
import type {
  DeviceTokenRequest,
  HelperHealth,
  HelperIndex,
  TrackerAuthorizeQuery,
  TrackerRefreshRequest,
  TrackerTokenRequest,
} from '../protocol/connect.ts'
import { type HelperRouteName, helperRoutes } from '../protocol/routes.ts'
import { json, type Reply } from '../transport/reply.ts'
import { type ServedRoute, serveRoute } from '../transport/routes/route-table.ts'
import type { CodehostApi } from './codehost.ts'
import type { TrackerOauthApi } from './tracker.ts'

export interface HelperRoutesPorts {
  readonly tracker: TrackerOauthApi
  readonly codehost: CodehostApi
  /** The address of the helper's documentation. */
  readonly docsUrl: string
  readonly clock: Pick<Clock, 'monotonic'>
  readonly log: Log
}

type HelperHandler = (query: unknown, body: unknown) => Reply | Promise<Reply>

export function createHelperRoutes(ports: HelperRoutesPorts): ServedRoute[] {
  const handlers = createHandlers(ports)
  return routeNames().map((name) => {
    const handle = handlers[name]
    return serveRoute(name, helperRoutes[name], (placed, body) =>
      logged(ports, name, () => handle(placed.query, body)),
    )
  })
}

/** The casts are safe because the router checked queries and bodies with the schemas of these types. */
function createHandlers({
  tracker,
  codehost,
  docsUrl: docs,
}: HelperRoutesPorts): Record<HelperRouteName, HelperHandler> {
  const index = json(createIndex(docs))
  const health = json({ ok: true } satisfies HelperHealth)
  return {
    index: () => index,
    health: () => health,
    startDevice: () => codehost.startDevice(),
    pollDevice: (_query, body) => codehost.pollDevice(body as DeviceTokenRequest),
    authorizeTracker: (query) => tracker.authorize(query as TrackerAuthorizeQuery),
    exchangeTracker: (_query, body) => tracker.exchange(body as TrackerTokenRequest),
    refreshTracker: (_query, body) => tracker.refresh(body as TrackerRefreshRequest),
  }
}

function routeNames(): HelperRouteName[] {
  // Object.keys returns string[], although the keys are known.
  return Object.keys(helperRoutes) as HelperRouteName[]
}

function createIndex(docs: string): HelperIndex {
  const rows = Object.values(helperRoutes)
  return {
    service: 'switchyard-oauth-helper',
    docs,
    endpoints: rows.map(({ method, path, summary }) => `${method} ${path}: ${summary}`),
  }
}

// ---- the log -------------------------------------------------------------------------------------------------------

function logged(
  ports: HelperRoutesPorts,
  name: HelperRouteName,
  answer: () => Reply | Promise<Reply>,
): Reply | Promise<Reply> {
  const startedAt = ports.clock.monotonic()
  const logReply = (reply: Reply): Reply => {
    const ms = Math.round(ports.clock.monotonic() - startedAt)
    const { method, path } = helperRoutes[name]
    const fields = { method, path, status: reply.status, ms }
    // Load balancers request the health route every few seconds.
    if (name === 'health') ports.log.debug(fields, 'answered')
    else ports.log.info(fields, 'answered')
    return reply
  }
  const reply = answer()
  return reply instanceof Promise ? reply.then(logReply) : logReply(reply)
}
