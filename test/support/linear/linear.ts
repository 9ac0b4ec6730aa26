/**
 * A Linear on this machine: GraphQL executed against the published schema, OAuth with rotation, quotas, and whatever
 * can go wrong switched on by a test.
 *
 * It takes and refuses what the real one would, tells time by a clock that the test may set, and counts what it was
 * asked. What it does not know it says loudly, as an internal error, so that no test believes a silent default.
 */
import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { GraphQLSchema } from 'graphql'
import { Accounts, type AppWish, type Caller, type Pair } from './accounts.ts'
import { Faults, type GraphFault, type TokenFault } from './faults.ts'
import { forcedAnswer, NO_REQUEST, UNAUTHENTICATED, withHole } from './forced.ts'
import { answered, type GraphAnswer, type GraphRequest, type Parsed, parsed, requestOf } from './graph.ts'
import {
  authorize,
  failure,
  json,
  type OauthAnswer,
  revokeAnswer,
  type TokenAnswer,
  tokenAnswer,
} from './oauth.ts'
import { linksOf, mutationRoot, queryRoot } from './operations.ts'
import { ANONYMOUS_LIMITS, KEY_LIMITS, type Limits, OAUTH_LIMITS, Quota } from './quota.ts'
import { type Asker, linearSchema } from './schema.ts'
import { bodyOfRequest, deliver, formOf, html, isJson, pause, send, type Visit } from './wire.ts'
import { type UserRow, World } from './world.ts'

export interface FakeLinearOptions {
  /** Wall milliseconds; `advance` adds to it. */
  readonly now?: () => number
  readonly organization?: { readonly name: string; readonly urlKey: string }
  readonly app?: Partial<AppWish>
  readonly keyLimits?: Limits
  readonly oauthLimits?: Limits
  /** Of a refusal for want of quota; 400 is what is seen. */
  readonly limitedStatus?: 200 | 400 | 429
}

/** One GraphQL request, as it was answered. */
export interface Call {
  readonly at: number
  readonly operation: string
  readonly variables: Readonly<Record<string, unknown>>
  readonly status: number
  readonly points: number
  readonly bucket: string
}

export interface TokenCall {
  readonly at: number
  readonly grant: string
  readonly status: number
}

export interface TokenEvent {
  readonly grant: string
  readonly pair: Pair
}

const ENDPOINT = '/graphql'

export async function startLinear(options: FakeLinearOptions = {}): Promise<FakeLinear> {
  const linear = new FakeLinear(options)
  await linear.listen()
  return linear
}

export class FakeLinear {
  readonly world: World
  readonly accounts: Accounts
  readonly app: AppWish
  /** Whose key `apiKey` is, and who consents unless another is named. */
  readonly viewer: UserRow
  readonly apiKey: string
  readonly faults = new Faults<GraphFault>()
  readonly tokenFaults = new Faults<TokenFault>()
  readonly calls: Call[] = []
  readonly tokenCalls: TokenCall[] = []
  /** Every GraphQL answer takes so long. */
  latencyMs = 0
  hasGitHub = false
  /** After the new pair is minted, before the answer is written; answering `drop` closes the connection instead. */
  onTokenAnswer: ((event: TokenEvent) => unknown) | undefined
  readonly #options: FakeLinearOptions
  readonly #server: Server
  readonly #schema: GraphQLSchema
  readonly #root: object
  readonly #links: Asker['links']
  readonly #quotas = new Map<string, Quota>()
  #skewMs = 0

  constructor(options: FakeLinearOptions) {
    this.#options = options
    this.world = new World(this.now, options.organization ?? { name: 'Acme', urlKey: 'acme' })
    this.accounts = new Accounts(this.now)
    this.viewer = this.world.user({ name: 'Ada Lovelace', displayName: 'ada', email: 'ada@acme.example' })
    this.apiKey = this.accounts.addKey(this.viewer)
    this.app = this.accounts.addApp({
      clientId: options.app?.clientId ?? 'linear-client-id',
      clientSecret: options.app?.clientSecret ?? 'linear-client-secret',
      redirectUris: options.app?.redirectUris ?? [],
    })
    this.#schema = linearSchema(this.now)
    this.#links = linksOf(this.world)
    const parts = { world: this.world, hasGitHub: () => this.hasGitHub }
    this.#root = { ...queryRoot(parts), ...mutationRoot(parts) }
    this.#server = createServer((request, response) => void this.#serve(request, response))
  }

  now = (): number => (this.#options.now ?? Date.now)() + this.#skewMs

  /** The fake's own clock goes on; tokens run out, buckets fill. */
  advance(ms: number): void {
    this.#skewMs += ms
  }

  async listen(): Promise<void> {
    this.#server.listen(0, '127.0.0.1')
    await once(this.#server, 'listening')
  }

  async stop(): Promise<void> {
    if (!this.#server.listening) return
    const closed = once(this.#server, 'close')
    this.#server.close()
    this.#server.closeAllConnections()
    await closed
  }

  /** The base of every address: `/graphql`, `/oauth/authorize`, `/oauth/token`, `/oauth/revoke`. */
  get url(): string {
    const { port } = this.#server.address() as AddressInfo // a TCP server that listens
    return `http://127.0.0.1:${port}`
  }

  get graphqlUrl(): string {
    return this.url + ENDPOINT
  }

  /** How often each operation was asked for, refused ones too. */
  get counts(): Record<string, number> {
    const counts: Record<string, number> = {}
    for (const { operation } of this.calls) counts[operation] = (counts[operation] ?? 0) + 1
    return counts
  }

  get points(): number {
    return this.calls.reduce((sum, { points }) => sum + points, 0)
  }

  forget(): void {
    this.calls.length = 0
    this.tokenCalls.length = 0
  }

  /** As if a person had consented to the application and it had exchanged the code. */
  grant({ user = this.viewer, scopes = ['read', 'write'], isPkce = true } = {}): Pair {
    return this.accounts.grant({ app: this.app, user, scopes, isPkce })
  }

  /** What the person's browser is sent to after the decision; throws what they would read instead. */
  consent(url: string, decision: 'approve' | 'refuse' = 'approve', user = this.viewer): URL {
    const { headers, body } = authorize(this.accounts, new URL(url), user, decision)
    if (headers.location === undefined) throw new Error(`Linear shows a page: ${body}`)
    return new URL(headers.location)
  }

  /** The quota of whoever sends this header; to drain it, or to see what is left. */
  quotaOf(authorization: string): Quota {
    return this.#quotaOf(this.accounts.callerOf(authorization))
  }

  // ---- serving -----------------------------------------------------------------------------------------------------

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    try {
      const body = await bodyOfRequest(request)
      const url = new URL(request.url ?? '/', 'http://linear')
      if (body === undefined) return send(response, html(413))
      await this.#route(`${request.method} ${url.pathname}`, { request, response, body, url })
    } catch {
      response.destroy()
    }
  }

  async #route(route: string, visit: Visit): Promise<void> {
    if (route === `POST ${ENDPOINT}`) return this.#graphql(visit)
    if (route === 'POST /oauth/token') return this.#token(visit)
    if (route === 'POST /oauth/revoke') return send(visit.response, this.#revoke(visit))
    if (route === 'GET /oauth/authorize') return send(visit.response, this.#authorize(visit))
    send(visit.response, html(404))
  }

  async #graphql({ request, response, body }: Visit): Promise<void> {
    const caller = this.accounts.callerOf(request.headers.authorization ?? '')
    const quota = this.#quotaOf(caller)
    const asked = isJson(request) ? requestOf(body) : undefined
    const query = asked && parsed(asked)
    const operation = query && 'name' in query ? query.name : 'unreadable'
    const fault = this.faults.next(operation)
    const answer = await this.#answer(caller, quota, asked, query, fault)
    if (this.latencyMs > 0) await pause(this.latencyMs)
    const { status, points } = answer
    const variables = asked?.variables ?? {}
    this.calls.push({
      at: this.now(),
      operation,
      variables,
      status,
      points,
      bucket: caller?.bucket ?? 'anonymous',
    })
    await deliver(response, json(status, answer.body), fault, quota.headers(points))
  }

  async #answer(
    caller: Caller | undefined,
    quota: Quota,
    asked: GraphRequest | undefined,
    query: Parsed | GraphAnswer | undefined,
    fault: GraphFault | undefined,
  ): Promise<GraphAnswer> {
    if (caller === undefined) return UNAUTHENTICATED
    if (asked === undefined || query === undefined) return NO_REQUEST
    const forced = fault && forcedAnswer(fault, quota)
    if (forced) return forced
    if (!('name' in query)) return query
    const asker = { viewer: caller.user, scopes: caller.scopes, links: this.#links, limits: quota.status }
    const limitedStatus = this.#options.limitedStatus ?? 400
    const around = { schema: this.#schema, root: this.#root, asker, quota, limitedStatus }
    const answer = await answered(query, asked, around)
    return fault?.kind === 'partial'
      ? withHole(answer, fault.path, fault.message ?? 'Internal server error')
      : answer
  }

  async #token(visit: Visit): Promise<void> {
    const form = formOf(visit)
    const grant = form?.get('grant_type') ?? 'none'
    const fault = this.tokenFaults.next(grant)
    const answer = this.#tokenAnswer(visit, form, fault)
    this.tokenCalls.push({ at: this.now(), grant, status: answer.status })
    const verdict = answer.pair && (await this.onTokenAnswer?.({ grant, pair: answer.pair }))
    if (verdict === 'drop') return void visit.response.destroy()
    await deliver(visit.response, answer, fault)
  }

  /** A `slow`, `reset` or `cut` answer was minted all the same: that is what hurts. */
  #tokenAnswer(
    visit: Visit,
    form: ReadonlyMap<string, string> | undefined,
    fault: TokenFault | undefined,
  ): TokenAnswer {
    if (fault?.kind === 'oauth')
      return failure(fault.status ?? 400, fault.error, fault.description ?? fault.error)
    if (fault?.kind === 'too-many') return failure(429, 'rate_limited', 'Too many requests')
    if (fault?.kind === 'html') return html(fault.status ?? 503)
    if (form === undefined)
      return failure(400, 'invalid_request', 'The body must be application/x-www-form-urlencoded')
    const { authorization } = visit.request.headers
    const keepsToken = fault?.kind === 'no-refresh-token'
    return tokenAnswer(this.accounts, { form, authorization, now: this.now(), keepsToken })
  }

  #revoke(visit: Visit): OauthAnswer {
    const { authorization } = visit.request.headers
    const form = formOf(visit) ?? new Map()
    return revokeAnswer(this.accounts, { form, authorization, now: this.now(), keepsToken: false })
  }

  /** The decision stands in the address, as if the person had followed that link. */
  #authorize({ url }: Visit): OauthAnswer {
    const decision = (['approve', 'refuse'] as const).find((one) => url.searchParams.get(one) === '1')
    return authorize(this.accounts, url, this.viewer, decision)
  }

  #quotaOf(caller: Caller | undefined): Quota {
    const bucket = caller?.bucket ?? 'anonymous'
    const known = this.#quotas.get(bucket)
    if (known) return known
    const quota = new Quota(this.#limitsOf(caller), this.now)
    this.#quotas.set(bucket, quota)
    return quota
  }

  #limitsOf(caller: Caller | undefined): Limits {
    if (caller === undefined) return ANONYMOUS_LIMITS
    const { keyLimits = KEY_LIMITS, oauthLimits = OAUTH_LIMITS } = this.#options
    return caller.isOauth ? oauthLimits : keyLimits
  }
}
