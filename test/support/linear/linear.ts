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
import { type AppOptions, LinearAccounts, type LinearTokenPair } from './accounts.ts'
import { FaultQueue, type GraphFault, type TokenFault } from './faults.ts'
import { GraphqlEndpoint } from './graphql-endpoint.ts'
import { authorize, json } from './oauth.ts'
import { KEY_LIMITS, type LinearLimits, OAUTH_LIMITS, type Quota } from './quota.ts'
import type { UserRow } from './rows.ts'
import { authorizePage, grantOf, revocation, tokensFor } from './token-endpoint.ts'
import { bodyOfRequest, deliver, type HttpExchange, html, pause, send } from './wire.ts'
import { LinearWorkspace } from './workspace.ts'

export interface FakeLinearOptions {
  /** Wall milliseconds; `advance` adds to it. */
  readonly now?: () => number
  readonly organization?: { readonly name: string; readonly urlKey: string }
  readonly app?: Partial<AppOptions>
  readonly keyLimits?: LinearLimits
  readonly oauthLimits?: LinearLimits
  /** Of a refusal for want of quota; 400 is what is seen. */
  readonly limitedStatus?: 200 | 400 | 429
}

/** One GraphQL request, as it was answered. */
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
/** No line is hung up on that a client may be about to use again. */
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
  /** Whose key `apiKey` is, and who consents unless another is named. */
  readonly viewer: UserRow
  readonly apiKey: string
  readonly faults = new FaultQueue<GraphFault>()
  readonly tokenFaults = new FaultQueue<TokenFault>()
  readonly calls: LinearCall[] = []
  readonly tokenCalls: TokenCall[] = []
  /** Every GraphQL answer takes so long. */
  latencyMs = 0
  hasGitHub = false
  /** After the new pair is minted, before the answer is written; answering `drop` closes the connection instead. */
  onTokenAnswer: ((event: TokenEvent) => unknown) | undefined
  readonly #options: FakeLinearOptions
  readonly #server: Server
  readonly #door: GraphqlEndpoint
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
    this.#door = new GraphqlEndpoint({
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

  /** The fake's own clock goes on; tokens run out, buckets fill. */
  advance(ms: number): void {
    this.#skewMs += ms
  }

  /** Again after `stop`, on the port it had, is the end of an outage. */
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
  grant({ user = this.viewer, scopes = ['read', 'write'], isPkce = true } = {}): LinearTokenPair {
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
    return this.#door.quotaOf(this.accounts.callerOf(authorization))
  }

  // ---- serving -----------------------------------------------------------------------------------------------------

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    try {
      const body = await bodyOfRequest(request)
      const url = new URL(request.url ?? '/', 'http://linear')
      if (body === undefined) return send(response, html(413))
      await this.#route(`${request.method} ${url.pathname}`, { request, response, body, url })
    } catch (thrown) {
      // A bug of this double, or of a test's hook: said where the test will see it.
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
    const { answer, quota, fault, ...call } = await this.#door.handle(request, body)
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
