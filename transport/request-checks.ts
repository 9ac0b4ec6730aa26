/**
 * The order of the fences, on each of the two listeners.
 *
 * Management: Host, Origin, preflight, then who is asking. Everything needs the launch token unless the row that was
 * found says otherwise, so a path that does not exist and one that does look the same from outside.
 * (A request without Host never gets here: the parser refuses it with 400 of its own, or hangs up on it.)
 * Fleet: remote machines come here, by whatever name they know this one, so Host says nothing; a browser has no
 * business here at all, so any Origin is refused. Whatever is not served there does not exist.
 */
import type { FrontDesk } from '../actors/api/host-api.ts'
import { bearerOf, isLoopbackHost, isTrustedOrigin, secretCheck } from './authentication.ts'
import { type Headers, type Reply, refusal, safe } from './reply.ts'
import type { Head } from './request-head.ts'
import type { Found } from './router.ts'
import type { Row } from './routes/route-table.ts'

/** Come in, or why not. `cors` goes on every reply to a trusted page, refusals included. */
export interface Admission {
  readonly refused?: Reply
  readonly cors?: Headers
  /** The worker that proved who it is. */
  readonly workerId?: string
}

/** `query` is called only when it matters; the raw text after the `?`. */
export type Admit = (head: Head, found: Found<Row> | undefined, query: () => string) => Admission

const HOST_REFUSED: Admission = {
  refused: refusal(403, 'the Host header must name a loopback address, such as 127.0.0.1 or localhost'),
}
const ORIGIN_REFUSED: Admission = {
  refused: refusal(403, 'pages of this Origin may not ask; list it in server.allowedOrigins to allow them'),
}
const FLEET_ORIGIN_REFUSED: Admission = {
  refused: refusal(403, 'browsers may not ask here; the dashboard uses the management listener'),
}
const TOKEN_REFUSED = refusal(
  401,
  'send the launch token as "Authorization: Bearer …"; launch.json holds it',
  [['www-authenticate', 'Bearer']],
)
const WORKER_REFUSED = refusal(
  403,
  'this needs workerId and that worker\'s credential as "Authorization: Bearer …"',
)
export const UNKNOWN_PATH = refusal(
  404,
  'there is nothing at this path; GET /api/openapi.json lists what there is',
)
/** The fleet listener has no list of routes to point at. */
const FLEET_UNKNOWN: Admission = { refused: refusal(404, 'there is nothing at this path') }
const WELCOME: Admission = {}

const PREFLIGHT_SECONDS = '600'

export function managementAdmission(desk: FrontDesk, token: string): Admit {
  const isToken = secretCheck(token)
  return (head, found, query) => {
    if (head.hosts !== 1 || !isLoopbackHost(head.host)) return HOST_REFUSED
    if (head.origins === 0) return identify(desk, isToken, head, found, query, undefined)
    if (head.origins > 1 || !isTrustedOrigin(head.origin, desk.allowedOrigins())) return ORIGIN_REFUSED
    const cors = corsHeaders(head.origin)
    if (isPreflight(head)) return { refused: preflight(found), cors }
    return identify(desk, isToken, head, found, query, cors)
  }
}

export function fleetAdmission(desk: FrontDesk): Admit {
  return (head, found, query) => {
    if (head.origins > 0) return FLEET_ORIGIN_REFUSED
    const row = found?.place.byMethod.get(head.method)
    if (row === undefined || !row.listeners.includes('fleet')) return FLEET_UNKNOWN
    return row.who === 'worker' ? worker(desk, head, query(), undefined) : WELCOME
  }
}

function identify(
  desk: FrontDesk,
  isToken: (presented: string | undefined) => boolean,
  head: Head,
  found: Found<Row> | undefined,
  query: () => string,
  cors: Headers | undefined,
): Admission {
  const row = found?.place.byMethod.get(head.method)
  const who = row?.who ?? 'launch-token'
  if (who === 'worker') return worker(desk, head, query(), cors)
  if (who === 'launch-token' && !isToken(presented(head, row, query)))
    return withCors({ refused: TOKEN_REFUSED }, cors)
  return cors === undefined ? WELCOME : { cors }
}

/** A browser cannot set headers on a socket, so there, and only there, the query may carry the token. */
function presented(head: Head, row: Row | undefined, query: () => string): string | undefined {
  if (head.authorizations > 1) return undefined
  if (head.authorizations === 1) return bearerOf(head.authorization)
  if (row?.socket !== true) return undefined
  return onlyOne(query(), 'token')
}

/** A worker nobody knows, a wrong credential and a missing one take the same way and get the same words. */
function worker(desk: FrontDesk, head: Head, query: string, cors: Headers | undefined): Admission {
  const secret = head.authorizations === 1 ? bearerOf(head.authorization) : undefined
  const admitted = desk.admitWorker(onlyOne(query, 'workerId') ?? '', secret ?? '')
  if (!admitted.ok || secret === undefined) return withCors({ refused: WORKER_REFUSED }, cors)
  return withCors({ workerId: admitted.value.workerId }, cors)
}

/** One name and one value, of letters that stand for themselves in a query: `workerId=wk-0123456789abcdef`. */
const PLAIN_PAIR = /^([A-Za-z]+)=([A-Za-z0-9_-]+)$/

/** A supervisor asks again and again, in the plainest form; that one needs no parser, and reads the same in any. */
function onlyOne(query: string, name: string): string | undefined {
  const plain = PLAIN_PAIR.exec(query)
  if (plain !== null) return plain[1] === name ? plain[2] : undefined
  const values = new URLSearchParams(query).getAll(name)
  return values.length === 1 ? values[0] : undefined
}

const withCors = (admission: Admission, cors: Headers | undefined): Admission =>
  cors === undefined ? admission : { ...admission, cors }

// ---- cross-origin --------------------------------------------------------------------------------------------------

const isPreflight = (head: Head): boolean => head.method === 'OPTIONS' && head.asksMethod !== ''

function corsHeaders(origin: string): Headers {
  return safe([
    ['access-control-allow-origin', origin],
    ['access-control-expose-headers', 'Allow, Link, Retry-After'],
    ['vary', 'Origin'],
  ])
}

/**
 * What a page may do at this path. Reaching from a public network into this machine is not granted on top: a page
 * that the person trusts is either local itself or asks the browser for that permission.
 */
function preflight(found: Found<Row> | undefined): Reply {
  if (found === undefined) return UNKNOWN_PATH
  return {
    status: 204,
    type: '',
    body: '',
    headers: [
      ['access-control-allow-methods', found.place.allow],
      ['access-control-allow-headers', 'Authorization, Content-Type'],
      ['access-control-max-age', PREFLIGHT_SECONDS],
    ],
  }
}
