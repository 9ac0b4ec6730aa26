/**
 * Admits or refuses requests, in the order of checks of each of the two listeners.
 *
 * Management listener: Host, Origin, preflight, then authentication. Everything needs the launch token unless the route
 * says otherwise, so existing and missing paths look the same to outsiders. (The parser refuses requests without Host.)
 * Fleet listener: remote machines use any name for this host, so Host is not checked. Browsers have no use for this
 * listener, so any Origin is refused. Paths that are not served there answer 404.
 */
import { timingSafeEqual } from 'node:crypto'
import type { HostApi } from '../actors/api/host-api.ts'
import { type ActionSource, NAMED_SOURCES, SOURCES } from '../protocol/audit.ts'
import { LAUNCH_TOKEN_CHARS_MAX } from '../protocol/limits.ts'
import { LOOPBACK_IPV4 } from '../protocol/loopback.ts'
import { readPlainPair } from '../protocol/query.ts'
import type { RouteAccess } from '../protocol/routes.ts'
import { checkHeaders, type Headers, type Reply, refusal } from './reply.ts'
import type { RequestHead } from './request-head.ts'
import type { RouteMatch } from './router.ts'
import type { Asker, ServedRoute } from './routes/route-table.ts'

/** The decision about a request. `cors`: headers for every reply to a trusted page, refusals included. */
export interface Admission {
  readonly refused?: Reply
  readonly cors?: Headers
  readonly asker?: Asker
}

/** @param row of the path that was found, the route of the request's method */
export type AdmissionCheck = (
  head: RequestHead,
  found: RouteMatch<ServedRoute> | undefined,
  row: ServedRoute | undefined,
) => Admission

const HOST_REFUSED: Admission = {
  refused: refusal(403, 'the Host header must name a loopback address, such as 127.0.0.1 or localhost'),
}
const ORIGIN_REFUSED: Admission = {
  refused: refusal(403, 'pages of this Origin may not ask; list it in server.allowedOrigins to allow them'),
}
const FLEET_ORIGIN_REFUSED: Admission = {
  refused: refusal(403, 'browsers may not ask here; the dashboard uses the management listener'),
}
/** Clients tell the two refusals apart by the challenge, as RFC 6750 (section 3.1) defines it. */
const TOKEN_MISSING = refusal(
  401,
  'the launch token is missing: send it in one header "Authorization: Bearer …"; launch.json in the data directory holds it',
  [['www-authenticate', 'Bearer']],
)
const TOKEN_WRONG = refusal(
  401,
  'this is not the launch token of the running host, which gets a new one at each start: read launch.json in its data directory again',
  [['www-authenticate', 'Bearer error="invalid_token"']],
)
const WORKER_REFUSED = refusal(
  403,
  'this needs workerId and that worker\'s credential as "Authorization: Bearer …"; the demand also takes a join key, without workerId',
)
export const UNKNOWN_PATH = refusal(
  404,
  'there is nothing at this path; GET /api/openapi.json lists what there is',
)
/** The fleet listener has no list of routes to point at. */
const FLEET_UNKNOWN_PATH: Admission = { refused: refusal(404, 'there is nothing at this path') }
const ADMITTED: Admission = {}
/** Kept, because most requests only read, and need none of their own. */
const ADMITTED_FROM = new Map(
  SOURCES.map((source): [ActionSource, Admission] => [source, { asker: { source } }]),
)

const PREFLIGHT_SECONDS = '600'

export function createManagementCheck(hostApi: HostApi, token: string): AdmissionCheck {
  const isToken = createSecretCheck(token)
  return (head, found, row) => {
    if (head.hosts !== 1 || !isLoopbackHost(head.host)) return HOST_REFUSED
    if (head.origins === 0) return identify(hostApi, isToken, head, row, undefined)
    if (head.origins > 1 || !isTrustedOrigin(head.origin, hostApi.allowedOrigins())) return ORIGIN_REFUSED
    const cors = corsHeaders(head.origin)
    if (isPreflight(head)) return { refused: preflight(found), cors }
    return identify(hostApi, isToken, head, row, cors)
  }
}

export function createFleetCheck(hostApi: HostApi): AdmissionCheck {
  return (head, _found, row) => {
    if (head.origins > 0) return FLEET_ORIGIN_REFUSED
    if (row === undefined || !row.listeners.includes('fleet')) return FLEET_UNKNOWN_PATH
    return admitOnWorkerRoute(hostApi, row.who, head, undefined) ?? ADMITTED
  }
}

function identify(
  hostApi: HostApi,
  isToken: (presented: string | undefined) => boolean,
  head: RequestHead,
  row: ServedRoute | undefined,
  cors: Headers | undefined,
): Admission {
  const who = row?.who ?? 'launch-token'
  const admitted = admitOnWorkerRoute(hostApi, who, head, cors)
  if (admitted !== undefined) return admitted
  if (who === 'launch-token') {
    const presented = presentedToken(head, row)
    if (!isToken(presented))
      return withCors({ refused: presented === undefined ? TOKEN_MISSING : TOKEN_WRONG }, cors)
  }
  return withCors(ADMITTED_FROM.get(sourceOf(head)) ?? ADMITTED, cors)
}

/** Browsers cannot set headers on a WebSocket, so only there the query may carry the token. */
function presentedToken(head: RequestHead, row: ServedRoute | undefined): string | undefined {
  if (head.authorizations > 1) return undefined
  if (head.authorizations === 1) return readBearer(head.authorization)
  if (row?.socket !== true) return undefined
  return onlyValue(head.query, 'token')
}

/** Every source that a program may name is open to the holder of the token, so a name proves nothing more. */
export const sourceOf = ({ source }: Pick<RequestHead, 'source'>): ActionSource =>
  NAMED_SOURCES.find((named) => named === source) ?? 'api'

/** Undefined on routes that are not for workers. */
function admitOnWorkerRoute(
  hostApi: HostApi,
  who: RouteAccess,
  head: RequestHead,
  cors: Headers | undefined,
): Admission | undefined {
  if (who !== 'worker' && who !== 'worker-or-join-key') return undefined
  const plainId = readPlainPair(head.query, 'workerId')
  if (
    who === 'worker-or-join-key' &&
    plainId === undefined &&
    !new URLSearchParams(head.query).has('workerId')
  )
    return admitJoinKey(hostApi, head, cors)
  return admitWorker(hostApi, head, plainId ?? onlyValue(head.query, 'workerId'), cors)
}

function admitJoinKey(hostApi: HostApi, head: RequestHead, cors: Headers | undefined): Admission {
  const key = head.authorizations === 1 ? readBearer(head.authorization) : undefined
  const admitted = hostApi.admitJoinKey(key ?? '')
  if (!admitted.ok || key === undefined) return withCors({ refused: WORKER_REFUSED }, cors)
  return withCors({ asker: { source: 'join-key', joinKeyId: admitted.value.id } }, cors)
}

/** An unknown worker, a wrong credential and a missing one take the same path and receive the same refusal. */
function admitWorker(
  hostApi: HostApi,
  head: RequestHead,
  workerId: string | undefined,
  cors: Headers | undefined,
): Admission {
  const secret = head.authorizations === 1 ? readBearer(head.authorization) : undefined
  const admitted = hostApi.admitWorker(workerId ?? '', secret ?? '')
  if (!admitted.ok || secret === undefined) return withCors({ refused: WORKER_REFUSED }, cors)
  return withCors({ asker: { source: 'worker', workerId: admitted.value.workerId } }, cors)
}

function onlyValue(query: string, name: string): string | undefined {
  const values = new URLSearchParams(query).getAll(name)
  return values.length === 1 ? values[0] : undefined
}

const withCors = (admission: Admission, cors: Headers | undefined): Admission =>
  cors === undefined ? admission : { ...admission, cors }

// ---- cross-origin --------------------------------------------------------------------------------------------------

const isPreflight = (head: RequestHead): boolean => head.method === 'OPTIONS' && head.preflightMethod !== ''

function corsHeaders(origin: string): Headers {
  return checkHeaders([
    ['access-control-allow-origin', origin],
    ['access-control-expose-headers', 'Allow, Link, Retry-After, WWW-Authenticate'],
    ['vary', 'Origin'],
  ])
}

/**
 * Answers a preflight with the methods of this path. Private network access is not granted, because a trusted page is
 * either local itself or asks the browser for that permission.
 */
function preflight(found: RouteMatch<ServedRoute> | undefined): Reply {
  if (found === undefined) return UNKNOWN_PATH
  return {
    status: 204,
    type: '',
    body: '',
    headers: [
      ['access-control-allow-methods', found.path.allow],
      ['access-control-allow-headers', 'Authorization, Content-Type'],
      ['access-control-max-age', PREFLIGHT_SECONDS],
    ],
  }
}

// ---- hosts and origins ---------------------------------------------------------------------------------------------

// Any web page in the person's browser can reach this port. Three checks keep pages out: the Host header must be a
// loopback name, literally (which stops DNS rebinding); an Origin must be trusted; and the launch token must be present.

const LOOPBACK = `(?:localhost|${LOOPBACK_IPV4}|\\[::1\\])`
const PORT = '(?::(?:0|[1-9]\\d{0,3}|[1-5]\\d{4}|6[0-4]\\d{3}|65[0-4]\\d\\d|655[0-2]\\d|6553[0-5]))?'

const LOOPBACK_HOST = new RegExp(`^${LOOPBACK}${PORT}$`, 'i')
/** Browsers write origins in lower case and without a path, so other spellings are refused. */
const LOOPBACK_ORIGIN = new RegExp(`^http://${LOOPBACK}${PORT}$`)
const DESKTOP_ORIGIN = /^(?:file:\/\/|app:\/\/[a-z0-9.-]*)$/
const HOST_CHARS_MAX = 64
const ORIGIN_CHARS_MAX = 512

/**
 * Whether a Host header names the loopback interface, with or without a port. Unusual spellings (`localhost.`,
 * `127.1`, `[0:0:0:0:0:0:0:1]`) are refused, because no client uses them and a narrower check is easier to verify.
 */
export function isLoopbackHost(host: string): boolean {
  return host.length <= HOST_CHARS_MAX && LOOPBACK_HOST.test(host)
}

/** Whether a page of this origin may send requests. `listed`: the origins that the configuration allows in addition. */
export function isTrustedOrigin(origin: string, listed: readonly string[]): boolean {
  if (origin.length > ORIGIN_CHARS_MAX) return false
  if (LOOPBACK_ORIGIN.test(origin) || DESKTOP_ORIGIN.test(origin)) return true
  return PRINTABLE.test(origin) && listed.includes(origin)
}

const PRINTABLE = /^[\x21-\x7e]+$/
/** The launch token is the longest accepted secret; a worker's credential has a tenth of its length. */
const BEARER = new RegExp(`^bearer +([\\x21-\\x7e]{1,${LAUNCH_TOKEN_CHARS_MAX}})$`, 'i')

/** The bearer token of an Authorization header; undefined when the header has another form. */
export function readBearer(authorization: string): string | undefined {
  return BEARER.exec(authorization)?.[1]
}

/** Compares a secret in a time that does not depend on its characters. The length of a secret is no secret. */
export function createSecretCheck(secret: string): (presented: string | undefined) => boolean {
  const expected = Buffer.from(secret)
  return (presented) => {
    if (presented === undefined) return false
    const bytes = Buffer.from(presented)
    return bytes.length === expected.length && timingSafeEqual(bytes, expected)
  }
}
