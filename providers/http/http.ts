/**
 * Asking a service on the web: one request, one reply, both bounded.
 *
 * A redirect is followed only within the same origin, so a credential never reaches another place. What passes is
 * tried again a few times, as late as the service asks for: a refusal for having asked too often always, an outage
 * only where asking twice is harmless. A refusal here never quotes a header, a body or a query, and a reply never
 * repeats the credential that it was asked with, whatever the service says back. Closing it ends what is under way and
 * what waits for its next try.
 */
import type { LookupFunction } from 'node:net'
import { createSecureContext, type SecureContext } from 'node:tls'
import { Agent, type buildConnector, Pool, ProxyAgent } from 'undici'
import { backoffMs } from '../../core/backoff.ts'
import type { Clock, RandomSource } from '../../core/ports.ts'
import { no, type Result, yes } from '../../core/result.ts'
import {
  HTTP_ANSWER_BYTES_MAX,
  HTTP_ANSWER_MS_MAX,
  HTTP_PAUSE_MS,
  HTTP_PAUSE_MS_MAX,
  HTTP_REDIRECTS_MAX,
  HTTP_TRIES_MAX,
} from '../../protocol/limits.ts'
import { connectionFailure, hostInUrl, proxyRefusal, stoppingRefusal } from './errors.ts'
import { type ProxyAddress, selectProxy } from './proxy-selection.ts'
import {
  isLoopbackUrl,
  isPrivateLiteral,
  privateAddressRefusal,
  publicOnlyLookup,
} from './public-address-guard.ts'
import { redactReply } from './redact-reply.ts'
import { ResponseReader } from './response-reader.ts'

export interface HttpRequest {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string
  /** Parts of the body that must not come back; they are struck out of the reply, like a credential in a header. */
  readonly secrets?: readonly string[]
  /** It is for a service out in the world: on a private network nobody is asked. */
  readonly publicOnly?: true
  /** How often it may be sent, at most HTTP_TRIES_MAX times; absent: as often as that. */
  readonly tries?: number
}

export interface HttpReply {
  readonly status: number
  /** Names in lower case; of a repeated one the first. */
  readonly headers: Readonly<Record<string, string>>
  readonly text: string
}

export interface Http {
  /** Any status is a reply; refused (`failed`) is only what brought none, `unavailable` once this is closed. */
  send(request: HttpRequest): Promise<Result<HttpReply>>
  close(): Promise<void>
}

/** As the environment of a machine names them; an empty one is none. */
export interface ProxySettings {
  readonly http: string
  readonly https: string
  readonly noProxy: string
}

export interface HttpOptions {
  readonly clock: Pick<Clock, 'after' | 'now'>
  readonly random: Pick<RandomSource, 'fraction'>
  /** Certificates that may vouch for a service; without them, those that Node comes with. */
  readonly certificateAuthorities?: readonly string[]
  /** The way out of this network; without it services are asked directly. */
  readonly proxies?: ProxySettings
  /** How names are resolved, if not as this machine does. */
  readonly lookup?: LookupFunction
}

const CONNECT_MS_MAX = 10_000
/** To one origin: every repository that is asked at once, and people beside them. */
const CONNECTIONS_MAX = 64
/** An idle line is let go well before what is between here and there forgets it, or a request would be lost with it. */
const IDLE_CONNECTION_MS_MAX = 15_000
/** However long the service itself would keep it. */
const IDLE_CONNECTION_HINT_MS_MAX = 60_000
const REPEATABLE_METHODS = new Set<string>(['GET', 'PUT', 'DELETE'])
const OUTAGE_STATUSES = new Set([500, 502, 503, 504])
const REDIRECT_STATUSES = new Set([301, 302, 303, 307, 308])
const METHOD_KEEPING_STATUSES = new Set([307, 308])

export function createHttp(options: HttpOptions): Http {
  const network = new ConnectionPools(options)
  return { send: (request) => sendWithRetries(network, options, request), close: () => network.close() }
}

async function sendWithRetries(
  network: ConnectionPools,
  options: HttpOptions,
  request: HttpRequest,
): Promise<Result<HttpReply>> {
  for (let tries = 1; ; tries++) {
    const answer = await sendFollowingRedirects(network, options, request)
    const waitMs = tries < triesAllowed(request) ? retryDelayMs(answer, request, options, tries) : undefined
    if (waitMs === undefined) return answer
    await network.pause(waitMs)
  }
}

export function triesAllowed({ tries = HTTP_TRIES_MAX }: HttpRequest): number {
  return Math.min(Math.max(1, Math.floor(tries)), HTTP_TRIES_MAX)
}

/**
 * How long to wait before this is sent once more; undefined: it is not.
 *
 * @param tries how often it was sent
 */
export function retryDelayMs(
  answer: Result<HttpReply>,
  { method }: HttpRequest,
  { clock, random }: HttpOptions,
  tries: number,
): number | undefined {
  const backoff = backoffMs(tries, HTTP_PAUSE_MS, HTTP_PAUSE_MS_MAX, random.fraction())
  if (!answer.ok)
    return answer.refusal.kind === 'failed' && REPEATABLE_METHODS.has(method) ? backoff : undefined
  const { status, headers } = answer.value
  const asked = retryAfterMs(headers['retry-after'], clock.now())
  const isTooManyRequests = status === 429 || (status === 403 && asked !== undefined)
  if (!isTooManyRequests && !(OUTAGE_STATUSES.has(status) && REPEATABLE_METHODS.has(method))) return undefined
  const waitMs = Math.max(backoff, asked ?? 0)
  // Whoever is to wait for so long says so to a person instead.
  return waitMs > HTTP_PAUSE_MS_MAX ? undefined : waitMs
}

/** Seconds, some write parts of them, or a date. */
export function retryAfterMs(value: string | undefined, now: number): number | undefined {
  if (value === undefined) return undefined
  if (/^\d{1,9}(\.\d{1,9})?$/.test(value.trim())) return Math.ceil(Number(value) * 1000)
  // Without letters it is no date, whatever could be read into it.
  const at = /[a-z]/i.test(value) ? Date.parse(value) : Number.NaN
  return Number.isNaN(at) ? undefined : Math.max(0, at - now)
}

// ---- one try -------------------------------------------------------------------------------------------------------

async function sendFollowingRedirects(
  network: ConnectionPools,
  options: HttpOptions,
  request: HttpRequest,
): Promise<Result<HttpReply>> {
  let current = request
  for (let hops = 0; ; hops++) {
    const reply = await sendOnce(network, options, current)
    if (!reply.ok || !REDIRECT_STATUSES.has(reply.value.status)) return reply
    const next = redirectedRequest(current, reply.value)
    if (next === undefined) return reply
    if (hops === HTTP_REDIRECTS_MAX) return no('failed', `${hostInUrl(current.url)} redirects in circles`)
    current = next
  }
}

/** undefined: it leads elsewhere, or would turn one request into another. */
function redirectedRequest(request: HttpRequest, { status, headers }: HttpReply): HttpRequest | undefined {
  const { location } = headers
  if (location === undefined || !URL.canParse(location, request.url)) return undefined
  const target = new URL(location, request.url)
  if (target.origin !== new URL(request.url).origin) return undefined
  if (request.method !== 'GET' && !METHOD_KEEPING_STATUSES.has(status)) return undefined
  return { ...request, url: target.href }
}

async function sendOnce(
  network: ConnectionPools,
  { clock, proxies }: HttpOptions,
  request: HttpRequest,
): Promise<Result<HttpReply>> {
  const url = URL.canParse(request.url) ? new URL(request.url) : undefined
  if (url === undefined || !/^https?:$/.test(url.protocol)) {
    return no('invalid', 'the address of the service is no http address; correct apiUrl')
  }
  if (network.isClosed) return stoppingRefusal(url.host)
  if (mustBePublic(request, url) && isPrivateLiteral(url)) return privateAddressRefusal(url.host)
  const proxy = selectProxy(url, proxies)
  if (!proxy.ok) return proxy
  const reader = new ResponseReader()
  let isTimeout = false
  const cancel = clock.after(HTTP_ANSWER_MS_MAX, () => {
    isTimeout = true
    reader.abort()
  })
  try {
    network.dispatch(request, url, proxy.value, reader)
    return completeReply(await reader.reply, request, url.host, proxy.value)
  } catch (error) {
    return connectionFailure(error, request.url, isTimeout, proxy.value?.url.host)
  } finally {
    cancel()
  }
}

/** What a person wrote down as this very machine is meant. */
const mustBePublic = ({ publicOnly: outside }: HttpRequest, url: URL): boolean =>
  outside === true && !isLoopbackUrl(url)

/** @param reply undefined: it was too long */
function completeReply(
  reply: HttpReply | undefined,
  request: HttpRequest,
  host: string,
  proxy: ProxyAddress | undefined,
): Result<HttpReply> {
  // A service itself has no reason to say this, and what it says of proxies is not for people.
  if (proxy !== undefined && reply?.status === 407) return proxyRefusal(host, proxy.url.host, '407')
  if (reply === undefined)
    return no('failed', `${host} answered with more than ${HTTP_ANSWER_BYTES_MAX} bytes`)
  return yes(redactReply(reply, request))
}

// ---- lines -----------------------------------------------------------------------------------------------------------

/** The open lines, direct ones and those by each proxy. */
class ConnectionPools {
  readonly #clock: HttpOptions['clock']
  readonly #certificateAuthorities: HttpOptions['certificateAuthorities']
  readonly #options: Agent.Options
  readonly #direct: Agent
  readonly #publicOnly: Agent
  /** By address and login: there is one for each scheme at most. */
  readonly #tunnelAgents = new Map<string, ProxyAgent>()
  readonly #closing = new AbortController()
  #tlsContext: SecureContext | undefined

  constructor({ clock, certificateAuthorities: authorities, lookup }: HttpOptions) {
    this.#clock = clock
    this.#certificateAuthorities = authorities
    this.#options = {
      connections: CONNECTIONS_MAX,
      keepAliveTimeout: IDLE_CONNECTION_MS_MAX,
      keepAliveMaxTimeout: IDLE_CONNECTION_HINT_MS_MAX,
    }
    this.#direct = this.#createAgent(lookup === undefined ? {} : { lookup })
    this.#publicOnly = this.#createAgent({ lookup: publicOnlyLookup(lookup) })
  }

  get isClosed(): boolean {
    return this.#closing.signal.aborted
  }

  async close(): Promise<void> {
    this.#closing.abort()
    await Promise.all(
      [this.#direct, this.#publicOnly, ...this.#tunnelAgents.values()].map((agent) => agent.destroy()),
    )
  }

  /** Ends early when this is closed. */
  async pause(ms: number): Promise<void> {
    const { signal } = this.#closing
    if (signal.aborted) return
    await new Promise<void>((resolve) => {
      const cancel = this.#clock.after(ms, () => {
        signal.removeEventListener('abort', onClose)
        resolve()
      })
      const onClose = () => {
        cancel()
        resolve()
      }
      signal.addEventListener('abort', onClose, { once: true })
    })
  }

  dispatch(request: HttpRequest, url: URL, proxy: ProxyAddress | undefined, reader: ResponseReader): void {
    const { method, headers, body } = request
    const { origin, protocol, host, pathname, search } = url
    const path = pathname + search
    const message = { method, headers, ...(body === undefined ? {} : { body }) }
    const direct = mustBePublic(request, url) ? this.#publicOnly : this.#direct
    if (proxy === undefined) direct.dispatch({ origin, path, ...message }, reader)
    // Most proxies open tunnels only for what is encrypted; the rest they are handed whole.
    else if (protocol === 'http:' && /^http/.test(proxy.url.protocol)) {
      const login =
        proxy.login === undefined ? {} : { 'proxy-authorization': basicAuthorization(proxy.login) }
      const absoluteTarget = { origin: proxy.url.origin, path: origin + path }
      this.#direct.dispatch(
        { ...message, ...absoluteTarget, headers: { ...headers, host, ...login } },
        reader,
      )
    } else this.#tunnelAgent(proxy).dispatch({ origin, path, ...message }, reader)
  }

  #tunnelAgent(proxy: ProxyAddress): ProxyAgent {
    const key = JSON.stringify([proxy.url.href, proxy.login])
    const known = this.#tunnelAgents.get(key)
    if (known !== undefined) return known
    const connect = { ...this.#tlsOptions(), timeout: CONNECT_MS_MAX }
    const agent = new ProxyAgent(tunnelOptions(proxy, { ...this.#options, connect }))
    this.#tunnelAgents.set(key, agent)
    return agent
  }

  #createAgent(connectOptions: buildConnector.BuildOptions): Agent {
    const plain = { ...connectOptions, timeout: CONNECT_MS_MAX }
    const connect = (origin: string) =>
      origin.startsWith('https:') ? { ...plain, ...this.#tlsOptions() } : plain
    return new Agent({
      ...this.#options,
      factory: (origin, options) => new Pool(origin, { ...options, connect: connect(String(origin)) }),
    })
  }

  /**
   * Once, and when the first encrypted line is opened: reading hundreds of certificates takes longer than all the rest
   * of connecting, and a quarter of the time in which a host starts.
   */
  #tlsOptions(): buildConnector.BuildOptions {
    if (this.#certificateAuthorities === undefined) return {}
    this.#tlsContext ??= createSecureContext({ ca: [...this.#certificateAuthorities], minVersion: 'TLSv1.2' })
    return { secureContext: this.#tlsContext }
  }
}

function tunnelOptions({ url, login }: ProxyAddress, options: Agent.Options): ProxyAgent.Options {
  const tls = typeof options.connect === 'object' ? options.connect : {}
  const isSocks = url.protocol.startsWith('socks')
  return {
    ...options,
    uri: url.href,
    requestTls: tls,
    // A SOCKS proxy that is given this is spoken to in TLS, which it does not understand.
    ...(isSocks ? {} : { proxyTls: tls }),
    // A proxy that takes the call and says nothing would hold its line for minutes.
    clientFactory: (origin, clientOptions) =>
      new Pool(origin, { ...clientOptions, headersTimeout: CONNECT_MS_MAX }),
    ...(login === undefined
      ? {}
      : isSocks
        ? { username: login.user, password: login.password }
        : { token: basicAuthorization(login) }),
  }
}

function basicAuthorization({
  user,
  password,
}: {
  readonly user: string
  readonly password: string
}): string {
  return `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`
}
