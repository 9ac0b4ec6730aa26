/**
 * The door of the fake GitHub: one server for both halves of the API, the device flow, git and the pages.
 *
 * It does what GitHub does before anybody looks at a request: who is it, have they asked too much, and whether what
 * they hold is still fresh, in which case the answer costs nothing.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { Counters } from './counters.ts'
import type { DeviceFlow } from './device.ts'
import type { Faults } from './faults.ts'
import { type GitHttp, gitAddress } from './git-http.ts'
import type { GraphqlHalf } from './graphql.ts'
import { type Quotas, type Resource, rateHeaders, type Window } from './quotas.ts'
import { Ready, type Reply, refused } from './replies.ts'
import { instant } from './repo-shapes.ts'
import { etagOf, matches, type Rest } from './rest.ts'
import { hasScopes, type Viewer, type World } from './world.ts'

const BODY_BYTES_MAX = 10 * 1024 * 1024
const VERSIONS = ['2022-11-28', '2026-03-10']
const ROOTED = /^\/(user|users|repos|repositories|issues|rate_limit)(\/|$)/

export interface Parts {
  readonly world: World
  readonly rest: Rest
  readonly graphql: GraphqlHalf
  readonly gitHttp: GitHttp
  readonly device: DeviceFlow
  readonly quotas: Quotas
  readonly counters: Counters
  readonly faults: Faults
}

interface Asked {
  readonly request: IncomingMessage
  readonly method: string
  readonly url: URL
  readonly text: string
  readonly web: string
  /** Root of the REST half as it was addressed. */
  readonly api: string
  /** Below the root; undefined: GraphQL. */
  readonly path: string | undefined
}

interface Dressed extends Reply {
  readonly route: string
  readonly charged?: boolean
}

export function serveGithub(parts: Parts): Server {
  return createServer((request, response) => {
    receive(parts, request, response).catch((bug: unknown) => {
      parts.counters.bugs.push(bug instanceof Error ? (bug.stack ?? bug.message) : String(bug))
      if (!response.headersSent) response.writeHead(500, { 'content-type': 'text/plain' })
      response.end('the fake GitHub failed')
    })
  })
}

async function receive(parts: Parts, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const web = `http://${request.headers.host ?? '127.0.0.1'}`
  const url = new URL(request.url ?? '/', web)
  const repo = gitAddress(url.pathname)
  if (repo !== undefined) return parts.gitHttp.answer(request, response, url, repo)
  const text = await bodyOf(request)
  const method = request.method ?? 'GET'
  if (url.pathname.startsWith('/login/'))
    return send(response, parts.device.answer(method, url.pathname, text, request))
  const place = apiPlace(url.pathname, web)
  if (place === undefined) return send(response, page(url.pathname))
  await api(parts, { request, method, url, text, web, ...place }, response)
}

function apiPlace(path: string, web: string): Pick<Asked, 'api' | 'path'> | undefined {
  if (path === '/api/graphql') return { api: `${web}/api/v3`, path: undefined }
  if (path === '/graphql') return { api: web, path: undefined }
  if (path.startsWith('/api/v3/')) return { api: `${web}/api/v3`, path: path.slice('/api/v3'.length) }
  return ROOTED.test(path) ? { api: web, path } : undefined
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  const parts: Buffer[] = []
  let size = 0
  for await (const part of request) {
    size += part.length
    if (size <= BODY_BYTES_MAX) parts.push(part)
  }
  return Buffer.concat(parts).toString('utf8')
}

// ---- the API -----------------------------------------------------------------------------------------------------

async function api(parts: Parts, asked: Asked, response: ServerResponse): Promise<void> {
  const { counters, faults, quotas } = parts
  const hit = faults.matching?.test(`${asked.method} ${asked.path ?? '/graphql'}`) ?? true
  const token = tokenOf(asked.request)
  const viewer = token === undefined ? undefined : parts.world.viewerOf(token)
  const leave = quotas.enter(viewer?.person.login)
  try {
    if (hit && faults.latencyMs > 0) await new Promise((resolve) => setTimeout(resolve, faults.latencyMs))
    if (hit && faults.reset) return cutOff(parts, asked, response)
    const reply = await answered(parts, asked, { hit, token, viewer })
    counters.count(reply.route, reply.status, reply.charged === true)
    send(response, reply, asked.method === 'HEAD')
  } finally {
    leave()
  }
}

function cutOff({ counters }: Parts, { method }: Asked, response: ServerResponse): void {
  counters.count(`${method} reset`, 0, false)
  response.socket?.resetAndDestroy()
}

interface Who {
  readonly hit: boolean
  readonly token: string | undefined
  readonly viewer: Viewer | undefined
}

async function answered(parts: Parts, asked: Asked, who: Who): Promise<Dressed> {
  const { faults, quotas } = parts
  const early = refusedAtTheDoor(asked, who, faults)
  if (early !== undefined) return { ...early, route: `${asked.method} refused` }
  const login = who.viewer?.person.login
  const resource: Resource = asked.path === undefined ? 'graphql' : 'core'
  const window = quotas.window(login, resource)
  const limited = limitedReply(parts, asked, who, { resource, window })
  if (limited !== undefined)
    return { ...limited, headers: { ...common(asked, who, window, resource), ...limited.headers } }
  const dressed =
    asked.path === undefined
      ? await graphql(parts, asked, who, window)
      : await rest(parts, asked, who, window)
  return { ...dressed, headers: { ...common(asked, who, window, resource), ...dressed.headers } }
}

function refusedAtTheDoor({ request }: Asked, who: Who, faults: Faults): Reply | undefined {
  if (who.hit && faults.badGateway) return html(502, '<html><body><h1>502 Bad Gateway</h1></body></html>')
  if ((request.headers['user-agent'] ?? '') === '')
    return html(
      403,
      'Request forbidden by administrative rules. Please make sure your request has a User-Agent header.',
    )
  const version = request.headers['x-github-api-version']
  if (version !== undefined && !VERSIONS.includes(String(version)))
    return refused(400, `Invalid API version: ${String(version)}`)
  return who.token !== undefined && who.viewer === undefined ? refused(401, 'Bad credentials') : undefined
}

function limitedReply(
  { counters, faults, quotas }: Parts,
  { method, path, text }: Asked,
  { hit, viewer }: Who,
  { resource, window }: { resource: Resource; window: Window },
): Dressed | undefined {
  if (path === '/rate_limit') return undefined
  const login = viewer?.person.login
  if (hit && faults.primary !== undefined) window.used = window.limit
  if (window.used >= window.limit) {
    counters.refusedPrimary++
    const whose = viewer === undefined ? 'for 127.0.0.1' : `for user ID ${viewer.person.id}`
    return {
      ...refused(faults.primary ?? 403, `API rate limit exceeded ${whose}.`),
      route: `${method} rate limited`,
    }
  }
  const writes = resource === 'graphql' ? /^\s*mutation\b/.test(queryOf(text)) : !/^(GET|HEAD)$/.test(method)
  const points = writes ? 5 : 1
  const forced = hit ? faults.secondary : undefined
  const seconds =
    forced === undefined ? quotas.secondary(login, { resource, points, creates: writes }) : undefined
  if (forced === undefined && seconds === undefined) return undefined
  counters.refusedSecondary++
  const wait = forced === undefined ? seconds : forced.retryAfterSeconds
  return { ...tooMuch(forced?.status ?? 403, wait), route: `${method} secondary limited` }
}

function tooMuch(status: number, seconds: number | undefined): Reply {
  const sentence = 'You have exceeded a secondary rate limit. Please wait a few minutes before you try again.'
  return refused(status, sentence, {}, seconds === undefined ? {} : { 'retry-after': String(seconds) })
}

function queryOf(text: string): string {
  try {
    return String(JSON.parse(text)?.query ?? '')
  } catch {
    return ''
  }
}

async function rest(parts: Parts, asked: Asked, who: Who, window: Window): Promise<Dressed> {
  const { method, api: root, web, url, text, path = '/' } = asked
  if (method === 'GET' && path === '/rate_limit') return rateLimit(parts, who.viewer)
  const { route, ...reply } = await parts.rest.answer({
    method: method === 'HEAD' ? 'GET' : method,
    path,
    query: url.searchParams,
    text,
    viewer: who.viewer,
    api: root,
    web,
  })
  const fresh = method === 'GET' && reply.status === 200 ? cached(asked, who, reply) : reply
  const charged = fresh.status !== 304 || who.viewer === undefined
  if (charged) window.used++
  return { ...fresh, route, charged }
}

/** The answer with its ETag, or that what the caller holds is still fresh. */
function cached({ request }: Asked, { token }: Who, reply: Reply): Reply {
  const body = JSON.stringify(withoutDropped(reply.body, request.headers['x-github-api-version']))
  const etag = etagOf(body, token ?? '', request.headers.accept ?? '')
  const headers = { ...reply.headers, etag, 'cache-control': 'private, max-age=60, s-maxage=60' }
  const held = request.headers['if-none-match']
  return matches(held, etag) ? { status: 304, headers } : { status: 200, body: new Ready(body), headers }
}

/** The newer version of the API tells less of a pull request. */
function withoutDropped(body: unknown, version: unknown): unknown {
  if (version !== '2026-03-10') return body
  if (Array.isArray(body)) return body.map((one) => withoutDropped(one, version))
  if (typeof body !== 'object' || body === null || !('base' in body)) return body
  return { ...body, merge_commit_sha: undefined, assignee: undefined }
}

function rateLimit({ quotas, world }: Parts, viewer: Viewer | undefined): Dressed {
  const shown = (resource: Resource) => {
    const { limit, used, resetMs } = quotas.window(viewer?.person.login, resource)
    return { limit, used, remaining: Math.max(0, limit - used), reset: Math.ceil(resetMs / 1000) }
  }
  const search = { limit: 30, used: 0, remaining: 30, reset: Math.ceil(world.now() / 1000) + 60 }
  const resources = { core: shown('core'), graphql: shown('graphql'), search }
  return { status: 200, body: { resources, rate: resources.core }, route: 'GET /rate_limit' }
}

async function graphql(parts: Parts, asked: Asked, who: Who, window: Window): Promise<Dressed> {
  const route = 'POST /graphql'
  if (who.viewer === undefined)
    return { ...refused(401, 'This endpoint requires you to be authenticated.'), route }
  const { cost, body, status } = await parts.graphql.answer(asked.text, who.viewer, asked, window)
  window.used += cost
  return { status, body, route, charged: cost > 0 }
}

// ---- dressing ----------------------------------------------------------------------------------------------------

function common(
  { request }: Asked,
  { viewer }: Who,
  window: Window,
  resource: Resource,
): Record<string, string> {
  const token = viewer?.token
  const scopes: Record<string, string> =
    token !== undefined && hasScopes(token)
      ? { 'x-oauth-scopes': token.scopes.join(', '), 'x-accepted-oauth-scopes': '' }
      : {}
  const expires: Record<string, string> =
    token?.expiresAtMs === undefined
      ? {}
      : {
          'github-authentication-token-expiration': instant(token.expiresAtMs)
            .replace('T', ' ')
            .replace('Z', ' UTC'),
        }
  return {
    ...scopes,
    ...expires,
    ...rateHeaders(window, resource),
    vary: 'Accept, Authorization, Cookie, X-GitHub-OTP, Accept-Encoding, Accept, X-Requested-With',
    'x-github-media-type': 'github.v3; format=json',
    'x-github-api-version-selected': String(request.headers['x-github-api-version'] ?? VERSIONS[0]),
    server: 'github.com',
  }
}

function tokenOf({ headers }: IncomingMessage): string | undefined {
  const [, token] = /^(?:bearer|token) +(.+)$/i.exec(headers.authorization ?? '') ?? []
  return token?.trim()
}

function html(status: number, body: string): Reply {
  return { status, body: new Ready(body), headers: { 'content-type': 'text/html; charset=utf-8' } }
}

function page(path: string): Reply {
  const known = /^\/[^/]+\/[^/]+(\/(pull|issues)\/\d+)?$/.test(path)
  return html(known ? 200 : 404, `<!doctype html><title>${known ? 'A page' : 'Not found'}</title>`)
}

function send(response: ServerResponse, { status, body, headers }: Reply, headOnly = false): void {
  const text = body instanceof Ready ? body.text : body === undefined ? '' : JSON.stringify(body)
  const type: Record<string, string> =
    text === '' ? {} : { 'content-type': 'application/json; charset=utf-8' }
  const length: Record<string, string> =
    status === 204 || status === 304 ? {} : { 'content-length': String(Buffer.byteLength(text)) }
  response.writeHead(status, { ...type, ...length, ...headers }).end(headOnly ? '' : text)
}
