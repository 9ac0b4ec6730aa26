/**
 * REST API of the fake: finds and runs the route of a request. Every request is checked against GitHub's description.
 * Violations are recorded and answered as GitHub would, which mostly ignores them.
 */
import { createHash } from 'node:crypto'
import { operationOf, validateRequest, validateResponse } from './description.ts'
import type { GithubFaults } from './faults.ts'
import type { History } from './history.ts'
import { fullNameOf } from './records.ts'
import { type GithubReply, notFound, type RestHandler, refused } from './replies.ts'
import type { GithubUrls, Json } from './repo-shapes.ts'
import { issueRoutes } from './rest-issues.ts'
import { pullRoutes } from './rest-pulls.ts'
import { repoRoutes } from './rest-repos.ts'
import { reviewRoutes } from './rest-reviews.ts'
import type { GithubViewer, GithubWorld } from './world.ts'

export interface RestRequest extends GithubUrls {
  readonly method: string
  /** Path below the REST root. */
  readonly path: string
  readonly query: URLSearchParams
  readonly text: string
  readonly viewer: GithubViewer | undefined
}

export interface RestAnswer extends GithubReply {
  /** Route as the description writes it, for counting. */
  readonly route: string
}

const ROUTES: Readonly<Record<string, RestHandler>> = {
  ...repoRoutes,
  ...pullRoutes,
  ...reviewRoutes,
  ...issueRoutes,
}

export class Rest {
  /** Requests that violate the description of the API. */
  readonly violations: string[] = []
  /** Replies of the fake that violate the description; checked on request only, because it takes time. */
  readonly misanswers: string[] = []
  checksAnswers = false
  readonly #world: GithubWorld
  readonly #history: History
  readonly #faults: GithubFaults

  constructor(world: GithubWorld, history: History, faults: GithubFaults) {
    this.#world = world
    this.#history = history
    this.#faults = faults
  }

  async answer(request: RestRequest): Promise<RestAnswer> {
    const path = this.#byName(request.path)
    const match = operationOf(request.method, path)
    const body = parsed(request.text)
    this.violations.push(...validateRequest(request.method, path, request.query, body))
    const route = `${request.method} ${match?.operation.path ?? 'unknown'}`
    const handle = ROUTES[route]
    if (match === undefined || handle === undefined) return { ...notFound(), route }
    const moved = this.#moved(request, path, match.params)
    if (moved !== undefined) return { ...moved, route }
    if (request.text !== '' && !isObject(body)) return { ...badBody(body), route }
    const reply = await handle({
      world: this.#world,
      history: this.#history,
      faults: this.#faults,
      viewer: request.viewer,
      api: request.api,
      web: request.web,
      params: match.params,
      query: request.query,
      body: isObject(body) ? body : {},
      listUrl: `${request.api}${this.#byId(path)}`,
    })
    if (this.checksAnswers) this.#check(request.method, path, reply)
    return { ...reply, route }
  }

  #check(method: string, path: string, { status, body }: GithubReply): void {
    const sent = body === undefined ? undefined : JSON.parse(JSON.stringify(body))
    this.misanswers.push(...validateResponse(method, path, status, sent))
  }

  /** Links and redirects identify repositories by id. */
  #byName(path: string): string {
    const [, id, rest = ''] = /^\/repositories\/(\d+)(\/.*)?$/.exec(path) ?? []
    const repo = id === undefined ? undefined : this.#world.repoById(Number(id))
    return repo === undefined ? path : `/repos/${fullNameOf(repo)}${rest}`
  }

  #byId(path: string): string {
    const [, fullName, rest = ''] = /^\/repos\/([^/]+\/[^/]+)(\/.*)?$/.exec(path) ?? []
    const repo = fullName === undefined ? undefined : this.#world.repo(fullName)
    return repo === undefined ? path : `/repositories/${repo.id}${rest}`
  }

  #moved(
    request: RestRequest,
    path: string,
    params: Readonly<Record<string, string>>,
  ): GithubReply | undefined {
    const old = `${params.owner}/${params.repo}`.toLowerCase()
    const repo = this.#world.repos.has(old) ? undefined : this.#world.renamed.get(old)
    if (repo === undefined || !this.#world.may(request.viewer, repo, 'pull')) return undefined
    const rest = path.split('/').slice(4).join('/')
    const query = request.query.size > 0 ? `?${request.query}` : ''
    const url = `${request.api}/repositories/${repo.id}${rest === '' ? '' : `/${rest}`}${query}`
    const reading = request.method === 'GET'
    const message = reading ? 'Moved Permanently' : 'Temporary Redirect'
    return refused(reading ? 301 : 307, message, { url }, { location: url })
  }
}

/** ETags depend on the token, as replies may. */
export function etagOf(body: string, token: string, accept: string): string {
  return `W/"${createHash('sha256').update(`${token}\n${accept}\n`).update(body).digest('hex')}"`
}

export function matches(ifNoneMatch: string | undefined, etag: string): boolean {
  const bare = (tag: string): string => tag.trim().replace(/^W\//, '')
  return (ifNoneMatch ?? '').split(',').some((tag) => tag.trim() === '*' || bare(tag) === bare(etag))
}

const BROKEN = Symbol('not JSON')

function parsed(text: string): unknown {
  if (text === '') return undefined
  try {
    return JSON.parse(text)
  } catch {
    return BROKEN
  }
}

function isObject(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function badBody(body: unknown): GithubReply {
  return body === BROKEN
    ? refused(400, 'Problems parsing JSON')
    : refused(400, 'Body should be a JSON object')
}
