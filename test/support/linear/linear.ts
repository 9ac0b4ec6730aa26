/**
 * Fake Linear: GraphQL against the published schema, OAuth with token rotation, rate limits and switchable faults.
 *
 * It accepts and refuses what the real Linear would, uses a clock that tests may set, and records its requests.
 * Anything unknown causes an internal error, so that no test relies on a silent default.
 */
import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type AppOptions, LinearAccounts, type LinearTokenPair } from './accounts.ts'
import { FaultQueue, type GraphFault, type TokenFault } from './faults.ts'
import { GraphqlEndpoint } from './graphql-endpoint.ts'
import { bodyOfRequest, deliver, type HttpExchange, html, pause, send } from './http-exchange.ts'
import { authorize, json } from './oauth.ts'
import { KEY_LIMITS, type LinearLimits, OAUTH_LIMITS, type Quota } from './quota.ts'
import type { UserRow } from './rows.ts'
import { authorizePage, grantOf, revocation, tokensFor } from './token-endpoint.ts'
import { LinearWorkspace } from './workspace.ts'

export interface FakeLinearOptions {
  /** Wall milliseconds; `advance` adds to them. */
  readonly now?: () => number
  readonly organization?: { readonly name: string; readonly urlKey: string }
  readonly app?: Partial<AppOptions>
  readonly keyLimits?: LinearLimits
  readonly oauthLimits?: LinearLimits
  /** Status of rate limit refusals; Linear mostly sends 400. */
  readonly limitedStatus?: 200 | 400 | 429
}

/** An answered GraphQL request. */
export interface LinearCall {
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
  readonly pair: LinearTokenPair
}

const ENDPOINT = '/graphql'
/** Longer than clients keep idle connections, so that none is closed while in use. */
const KEEP_ALIVE_MS = 300_000

export async function startLinear(options: FakeLinearOptions = {}): Promise<FakeLinear> {
  const linear = new FakeLinear(options)
  await linear.listen()
  return linear
}

export class FakeLinear {
  readonly world: LinearWorkspace
  readonly accounts: LinearAccounts
  readonly app: AppOptions
  /** Owner of `apiKey`, and the person who consents by default. */
  readonly viewer: UserRow
  readonly apiKey: string
  readonly faults = new FaultQueue<GraphFault>()
  readonly tokenFaults = new FaultQueue<TokenFault>()
  readonly calls: LinearCall[] = []
  readonly tokenCalls: TokenCall[] = []
  /** Delay of every GraphQL reply. */
  latencyMs = 0
  hasGitHub = false
  /** Called after a new pair is issued and before the reply is written; `drop` closes the connection instead. */
  onTokenAnswer: ((event: TokenEvent) => unknown) | undefined
  readonly #options: FakeLinearOptions
  readonly #server: Server
  readonly #endpoint: GraphqlEndpoint
  #skewMs = 0

  constructor(options: FakeLinearOptions) {
    this.#options = options
    this.world = new LinearWorkspace(this.now, options.organization ?? { name: 'Acme', urlKey: 'acme' })
    this.accounts = new LinearAccounts(this.now)
    this.viewer = this.world.user({ name: 'Ada Lovelace', displayName: 'ada', email: 'ada@acme.example' })
    this.apiKey = this.accounts.addKey(this.viewer)
    this.app = this.accounts.addApp({
      clientId: options.app?.clientId ?? 'linear-client-id',
      clientSecret: options.app?.clientSecret ?? 'linear-client-secret',
      redirectUris: options.app?.redirectUris ?? [],
    })
    this.#endpoint = new GraphqlEndpoint({
      world: this.world,
      accounts: this.accounts,
      faults: this.faults,
      now: this.now,
      hasGitHub: () => this.hasGitHub,
      keyLimits: options.keyLimits ?? KEY_LIMITS,
      oauthLimits: options.oauthLimits ?? OAUTH_LIMITS,
      limitedStatus: options.limitedStatus ?? 400,
    })
    this.#server = createServer(
      { keepAliveTimeout: KEEP_ALIVE_MS },
      (request, response) => void this.#serve(request, response),
    )
  }

  now = (): number => (this.#options.now ?? Date.now)() + this.#skewMs

  /** Advances the fake's clock: tokens expire, buckets refill. */
  advance(ms: number): void {
    this.#skewMs += ms
  }

  /** Listening again on the same port after `stop` ends an outage. */
  async listen(port = 0): Promise<void> {
    this.#server.listen(port, '127.0.0.1')
    await once(this.#server, 'listening')
  }

  async stop(): Promise<void> {
    if (!this.#server.listening) return
    const closed = once(this.#server, 'close')
    this.#server.close()
    this.#server.closeAllConnections()
    await closed
  }

  /** Base address of `/graphql`, `/oauth/authorize`, `/oauth/token` and `/oauth/revoke`. */
  get url(): string {
    const { port } = this.#server.address() as AddressInfo // a TCP server that listens
    return `http://127.0.0.1:${port}`
  }

  get graphqlUrl(): string {
    return this.url + ENDPOINT
  }

  /** Requests by operation, refused ones included. */
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

  /** Creates a grant as if a person had consented and the code had been exchanged. */
  grant({ user = this.viewer, scopes = ['read', 'write'], isPkce = true } = {}): LinearTokenPair {
    return this.accounts.grant({ app: this.app, user, scopes, isPkce })
  }

  /** Redirect of the browser after the decision; throws the page that the person would see instead. */
  consent(url: string, decision: 'approve' | 'refuse' = 'approve', user = this.viewer): URL {
    const { headers, body } = authorize(this.accounts, new URL(url), user, decision)
    if (headers.location === undefined) throw new Error(`Linear shows a page: ${body}`)
    return new URL(headers.location)
  }

  /** Quota of an authorization header, to drain or to inspect. */
  quotaOf(authorization: string): Quota {
    return this.#endpoint.quotaOf(this.accounts.callerOf(authorization))
  }

  // ---- serving ------------------------------------------------------------------------------------------------------

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    try {
      const body = await bodyOfRequest(request)
      const url = new URL(request.url ?? '/', 'http://linear')
      if (body === undefined) return send(response, html(413))
      await this.#route(`${request.method} ${url.pathname}`, { request, response, body, url })
    } catch (thrown) {
      // A bug of the fake or of a test's hook; the test will see this reply.
      if (response.headersSent) return void response.destroy()
      send(response, { status: 500, headers: { 'content-type': 'text/plain' }, body: String(thrown) })
    }
  }

  async #route(route: string, visit: HttpExchange): Promise<void> {
    if (route === `POST ${ENDPOINT}`) return this.#graphql(visit)
    if (route === 'POST /oauth/token') return this.#token(visit)
    if (route === 'POST /oauth/revoke') return send(visit.response, revocation(this.accounts, visit))
    if (route === 'GET /oauth/authorize')
      return send(visit.response, authorizePage(this.accounts, visit, this.viewer))
    send(visit.response, html(404))
  }

  async #graphql({ request, response, body }: HttpExchange): Promise<void> {
    const { answer, quota, fault, ...call } = await this.#endpoint.handle(request, body)
    const { status, points } = answer
    this.calls.push({ at: this.now(), ...call, status, points })
    if (this.latencyMs > 0) await pause(this.latencyMs)
    await deliver(response, json(status, answer.body), fault, quota.headers(points))
  }

  async #token(visit: HttpExchange): Promise<void> {
    const grant = grantOf(visit)
    const fault = this.tokenFaults.next(grant)
    const answer = tokensFor(this.accounts, visit, this.now(), fault)
    this.tokenCalls.push({ at: this.now(), grant, status: answer.status })
    const verdict = answer.pair && (await this.onTokenAnswer?.({ grant, pair: answer.pair }))
    if (verdict === 'drop') return void visit.response.destroy()
    await deliver(visit.response, answer, fault)
  }
}
