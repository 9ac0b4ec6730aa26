/**
 * The helper's routes: rows of the protocol's table, each with what answers it.
 *
 * What reached a handler is noted in the log: which route, which status, how long. Never a query, a body or a header,
 * for these are codes and tokens.
 */
import type { Clock, Log } from '../core/ports.ts'
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
import { type Row, servedRow } from '../transport/routes/route-table.ts'
import type { CodehostDesk } from './codehost.ts'
import type { TrackerDesk } from './tracker.ts'

export interface RoutesParts {
  readonly tracker: TrackerDesk
  readonly codehost: CodehostDesk
  /** Where people read about it. */
  readonly docs: string
  readonly clock: Pick<Clock, 'monotonic'>
  readonly log: Log
}

type Answerer = (query: unknown, body: unknown) => Reply | Promise<Reply>

export function helperRows(parts: RoutesParts): Row[] {
  const answerers = answerersFor(parts)
  return names().map((name) => {
    const answer = answerers[name]
    return servedRow(name, helperRoutes[name], (placed, body) =>
      noted(parts, name, () => answer(placed.query, body)),
    )
  })
}

/** Queries and bodies were checked with the very schemas that these types are of. */
function answerersFor({ tracker, codehost, docs }: RoutesParts): Record<HelperRouteName, Answerer> {
  const index = json(indexOf(docs))
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

function names(): HelperRouteName[] {
  // Object.keys forgets that the keys of a constant are known.
  return Object.keys(helperRoutes) as HelperRouteName[]
}

function indexOf(docs: string): HelperIndex {
  const rows = Object.values(helperRoutes)
  return {
    service: 'switchyard-oauth-helper',
    docs,
    endpoints: rows.map(({ method, path, summary }) => `${method} ${path}: ${summary}`),
  }
}

// ---- the log -------------------------------------------------------------------------------------------------------

function noted(
  parts: RoutesParts,
  name: HelperRouteName,
  answer: () => Reply | Promise<Reply>,
): Reply | Promise<Reply> {
  const began = parts.clock.monotonic()
  const note = (reply: Reply): Reply => {
    const ms = Math.round(parts.clock.monotonic() - began)
    const { method, path } = helperRoutes[name]
    const fields = { method, path, status: reply.status, ms }
    // Balancers ask for it every few seconds.
    if (name === 'health') parts.log.debug(fields, 'answered')
    else parts.log.info(fields, 'answered')
    return reply
  }
  const reply = answer()
  return reply instanceof Promise ? reply.then(note) : note(reply)
}
