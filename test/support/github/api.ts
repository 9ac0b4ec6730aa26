/**
 * Handles what all API requests of the fake GitHub share: authentication, rate limits and ETags. A fresh ETag answers
 * 304, which costs nothing.
 */
import type { IncomingMessage } from 'node:http'
import type { Counters } from './counters.ts'
import type { GithubFaults } from './faults.ts'
import type { GithubGraphql } from './graphql.ts'
import { writes } from './graphql-cost.ts'
import { type Quotas, type Resource, rateHeaders, type Window } from './quotas.ts'
import { type GithubReply, RawBody, refused } from './replies.ts'
import { instant } from './repo-shapes.ts'
import { etagOf, matches, type Rest } from './rest.ts'
import { type GithubViewer, type GithubWorld, hasScopes } from './world.ts'

const VERSIONS = ['2022-11-28', '2026-03-10']

export interface GithubApiDependencies {
  readonly world: GithubWorld
  readonly rest: Rest
  readonly graphql: GithubGraphql
  readonly quotas: Quotas
  readonly counters: Counters
  readonly faults: GithubFaults
}

export interface GithubApiRequest {
  readonly request: IncomingMessage
  readonly method: string
  readonly url: URL
  readonly text: string
  readonly web: string
  /** REST root as the caller addressed it. */
  readonly api: string
  /** Path below the REST root; undefined for GraphQL. */
  readonly path: string | undefined
}

export interface RoutedReply extends GithubReply {
  readonly route: string
  readonly charged?: boolean
}

export interface RequestIdentity {
  readonly isFaultTarget: boolean
  readonly token: string | undefined
  readonly viewer: GithubViewer | undefined
}

export async function answerApiRequest(
  parts: GithubApiDependencies,
  request: GithubApiRequest,
  who: RequestIdentity,
): Promise<RoutedReply> {
  const { faults, quotas } = parts
  const early = refuseEarly(request, who, faults)
  if (early !== undefined) return { ...early, route: `${request.method} refused` }
  const login = who.viewer?.person.login
  const resource: Resource = request.path === undefined ? 'graphql' : 'core'
  const window = quotas.window(login, resource)
  const limited = limitedReply(parts, request, who, { resource, window })
  if (limited !== undefined)
    return { ...limited, headers: { ...commonHeaders(request, who, window, resource), ...limited.headers } }
  const reply =
    request.path === undefined
      ? await answerGraphql(parts, request, who, window)
      : await answerRest(parts, request, who, window)
  return { ...reply, headers: { ...commonHeaders(request, who, window, resource), ...reply.headers } }
}

function refuseEarly(
  { request }: GithubApiRequest,
  who: RequestIdentity,
  faults: GithubFaults,
): GithubReply | undefined {
  if (who.isFaultTarget && faults.badGateway)
    return htmlReply(502, '<html><body><h1>502 Bad Gateway</h1></body></html>')
  if ((request.headers['user-agent'] ?? '') === '')
    return htmlReply(
      403,
      'Request forbidden by administrative rules. Please make sure your request has a User-Agent header.',
    )
  const version = request.headers['x-github-api-version']
  if (version !== undefined && !VERSIONS.includes(String(version)))
    return refused(400, `Invalid API version: ${String(version)}`)
  return who.token !== undefined && who.viewer === undefined ? refused(401, 'Bad credentials') : undefined
}

function limitedReply(
  { counters, faults, quotas }: GithubApiDependencies,
  { method, path, text }: GithubApiRequest,
  { isFaultTarget: hit, viewer }: RequestIdentity,
  { resource, window }: { resource: Resource; window: Window },
): RoutedReply | undefined {
  if (path === '/rate_limit') return undefined
  const login = viewer?.person.login
  if (hit && faults.primary !== undefined) window.used = window.limit
  if (window.used >= window.limit) {
    counters.refusedPrimary++
    return { ...primaryLimitReply(resource, viewer, faults.primary ?? 403), route: `${method} rate limited` }
  }
  const changes = resource === 'graphql' ? writes(readGraphqlQuery(text)) : !/^(GET|HEAD)$/.test(method)
  const points = changes ? 5 : 1
  const forced = hit ? faults.secondary : undefined
  const seconds =
    forced === undefined ? quotas.secondary(login, { resource, points, creates: changes }) : undefined
  if (forced === undefined && seconds === undefined) return undefined
  counters.refusedSecondary++
  const wait = forced === undefined ? seconds : forced.retryAfterSeconds
  return { ...secondaryLimitReply(forced?.status ?? 403, wait), route: `${method} secondary limited` }
}

/** GraphQL reports an exhausted budget with status 200. */
function primaryLimitReply(
  resource: Resource,
  viewer: GithubViewer | undefined,
  status: number,
): GithubReply {
  const whose = viewer === undefined ? 'for 127.0.0.1' : `for user ID ${viewer.person.id}`
  const message = `API rate limit exceeded ${whose}.`
  if (resource === 'core') return refused(status, message)
  return { status: 200, body: { errors: [{ type: 'RATE_LIMITED', message }] } }
}

function secondaryLimitReply(status: number, seconds: number | undefined): GithubReply {
  const sentence = 'You have exceeded a secondary rate limit. Please wait a few minutes before you try again.'
  return refused(status, sentence, {}, seconds === undefined ? {} : { 'retry-after': String(seconds) })
}

function readGraphqlQuery(text: string): string {
  try {
    return String(JSON.parse(text)?.query ?? '')
  } catch {
    return ''
  }
}

async function answerRest(
  parts: GithubApiDependencies,
  asked: GithubApiRequest,
  who: RequestIdentity,
  window: Window,
): Promise<RoutedReply> {
  const { method, api: root, web, url, text, path = '/' } = asked
  if (method === 'GET' && path === '/rate_limit') return answerRateLimit(parts, who.viewer)
  const { route, ...reply } = await parts.rest.answer({
    method: method === 'HEAD' ? 'GET' : method,
    path,
    query: url.searchParams,
    text,
    viewer: who.viewer,
    api: root,
    web,
  })
  const fresh = method === 'GET' && reply.status === 200 ? withEtag(asked, who, reply) : reply
  const charged = fresh.status !== 304 || who.viewer === undefined
  if (charged) window.used++
  return { ...fresh, route, charged }
}

/** Adds the ETag, or answers 304 when the caller's copy is fresh. */
function withEtag(
  { request }: GithubApiRequest,
  { token }: RequestIdentity,
  reply: GithubReply,
): GithubReply {
  const body = JSON.stringify(withoutDropped(reply.body, request.headers['x-github-api-version']))
  const etag = etagOf(body, token ?? '', request.headers.accept ?? '')
  const headers = { ...reply.headers, etag, 'cache-control': 'private, max-age=60, s-maxage=60' }
  const held = request.headers['if-none-match']
  return matches(held, etag) ? { status: 304, headers } : { status: 200, body: new RawBody(body), headers }
}

/** The newer API version omits some fields of pull requests. */
function withoutDropped(body: unknown, version: unknown): unknown {
  if (version !== '2026-03-10') return body
  if (Array.isArray(body)) return body.map((item) => withoutDropped(item, version))
  if (typeof body !== 'object' || body === null || !('base' in body)) return body
  return { ...body, merge_commit_sha: undefined, assignee: undefined }
}

function answerRateLimit(
  { quotas, world }: GithubApiDependencies,
  viewer: GithubViewer | undefined,
): RoutedReply {
  const shown = (resource: Resource) => {
    const { limit, used, resetMs } = quotas.window(viewer?.person.login, resource)
    return { limit, used, remaining: Math.max(0, limit - used), reset: Math.ceil(resetMs / 1000) }
  }
  const search = { limit: 30, used: 0, remaining: 30, reset: Math.ceil(world.now() / 1000) + 60 }
  const resources = { core: shown('core'), graphql: shown('graphql'), search }
  return { status: 200, body: { resources, rate: resources.core }, route: 'GET /rate_limit' }
}

async function answerGraphql(
  parts: GithubApiDependencies,
  asked: GithubApiRequest,
  who: RequestIdentity,
  window: Window,
): Promise<RoutedReply> {
  const route = 'POST /graphql'
  if (who.viewer === undefined)
    return { ...refused(401, 'This endpoint requires you to be authenticated.'), route }
  const { cost, body, status } = await parts.graphql.answer(asked.text, who.viewer, asked, window)
  window.used += cost
  return { status, body, route, charged: cost > 0 }
}

// ---- headers --------------------------------------------------------------------------------------------------------

function commonHeaders(
  { request }: GithubApiRequest,
  { viewer }: RequestIdentity,
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

export function readToken({ headers }: IncomingMessage): string | undefined {
  const [, token] = /^(?:bearer|token) +(.+)$/i.exec(headers.authorization ?? '') ?? []
  return token?.trim()
}

export function htmlReply(status: number, body: string): GithubReply {
  return { status, body: new RawBody(body), headers: { 'content-type': 'text/html; charset=utf-8' } }
}
