/**
 * Asking a service on the web: one request, one reply, both bounded.
 *
 * A redirect is followed only within the same origin, so a credential never reaches another place. What passes is
 * tried again a few times, as late as the service asks for: a refusal for having asked too often always, an outage
 * only where asking twice is harmless. A refusal here never quotes a header, a body or a query. Closing it ends what
 * is under way and what waits for its next try.
 */
import { createSecureContext } from 'node:tls'
import { Agent, type Dispatcher, Pool, ProxyAgent } from 'undici'
import { backoffMs } from '../core/backoff.ts'
import type { Chance, Clock } from '../core/ports.ts'
import { type Answer, no, yes } from '../core/refusal.ts'
import {
  HTTP_ANSWER_BYTES_MAX,
  HTTP_ANSWER_MS_MAX,
  HTTP_PAUSE_MS,
  HTTP_PAUSE_MS_MAX,
  HTTP_REDIRECTS_MAX,
  HTTP_TRIES_MAX,
} from '../protocol/limits.ts'
import { failureOf, placeOf, proxyRefusal, stopping } from './http-failures.ts'
import { type WayOut, wayTo } from './way-out.ts'

export interface HttpRequest {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string
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
  ask(request: HttpRequest): Promise<Answer<HttpReply>>
  close(): Promise<void>
}

/** As the environment of a machine names them; an empty one is none. */
export interface Proxies {
  readonly http: string
  readonly https: string
  readonly except: string
}

export interface HttpParts {
  readonly clock: Pick<Clock, 'after' | 'now'>
  readonly chance: Pick<Chance, 'fraction'>
  /** Certificates that may vouch for a service; without them, those that Node comes with. */
  readonly authorities?: readonly string[]
  /** The way out of this network; without it services are asked directly. */
  readonly proxies?: Proxies
}

const CONNECT_MS_MAX = 10_000
/** To one origin: every repository that is asked at once, and people beside them. */
const CONNECTIONS_MAX = 64
/** An idle line is let go well before what is between here and there forgets it, or a request would be lost with it. */
const IDLE_LINE_MS_MAX = 15_000
/** However long the service itself would keep it. */
const IDLE_LINE_MS_TOLD_MAX = 60_000
const SAFE_TWICE = new Set<string>(['GET', 'PUT', 'DELETE'])
const OUTAGES = new Set([500, 502, 503, 504])
const REDIRECTS = new Set([301, 302, 303, 307, 308])
const ALWAYS_SAME_METHOD = new Set([307, 308])

export function makeHttp(parts: HttpParts): Http {
  const network = new Network(parts)
  return { ask: (request) => patiently(network, parts, request), close: () => network.close() }
}

async function patiently(
  network: Network,
  parts: HttpParts,
  request: HttpRequest,
): Promise<Answer<HttpReply>> {
  for (let tries = 1; ; tries++) {
    const answer = await followed(network, parts, request)
    const waitMs = tries < triesOf(request) ? pauseBefore(answer, request, parts, tries) : undefined
    if (waitMs === undefined) return answer
    await network.pause(waitMs)
  }
}

export function triesOf({ tries = HTTP_TRIES_MAX }: HttpRequest): number {
  return Math.min(Math.max(1, Math.floor(tries)), HTTP_TRIES_MAX)
}

/**
 * How long to wait before this is sent once more; undefined: it is not.
 *
 * @param tries how often it was sent
 */
export function pauseBefore(
  answer: Answer<HttpReply>,
  { method }: HttpRequest,
  { clock, chance }: HttpParts,
  tries: number,
): number | undefined {
  const own = backoffMs(tries, HTTP_PAUSE_MS, HTTP_PAUSE_MS_MAX, chance.fraction())
  if (!answer.ok) return answer.refusal.kind === 'failed' && SAFE_TWICE.has(method) ? own : undefined
  const { status, headers } = answer.value
  const asked = retryAfterMs(headers['retry-after'], clock.now())
  const isTooOften = status === 429 || (status === 403 && asked !== undefined)
  if (!isTooOften && !(OUTAGES.has(status) && SAFE_TWICE.has(method))) return undefined
  const wait = Math.max(own, asked ?? 0)
  // Whoever is to wait for so long says so to a person instead.
  return wait > HTTP_PAUSE_MS_MAX ? undefined : wait
}

/** Seconds, or a date. */
export function retryAfterMs(value: string | undefined, now: number): number | undefined {
  if (value === undefined) return undefined
  if (/^\d{1,9}$/.test(value.trim())) return Number(value) * 1000
  const at = Date.parse(value)
  return Number.isNaN(at) ? undefined : Math.max(0, at - now)
}

// ---- one try -------------------------------------------------------------------------------------------------------

async function followed(
  network: Network,
  parts: HttpParts,
  request: HttpRequest,
): Promise<Answer<HttpReply>> {
  let at = request
  for (let hops = 0; ; hops++) {
    const reply = await once(network, parts, at)
    if (!reply.ok || !REDIRECTS.has(reply.value.status)) return reply
    const next = redirected(at, reply.value)
    if (next === undefined) return reply
    if (hops === HTTP_REDIRECTS_MAX) return no('failed', `${placeOf(at.url)} redirects in circles`)
    at = next
  }
}

/** undefined: it leads elsewhere, or would turn one request into another. */
function redirected(request: HttpRequest, { status, headers }: HttpReply): HttpRequest | undefined {
  const { location } = headers
  if (location === undefined || !URL.canParse(location, request.url)) return undefined
  const target = new URL(location, request.url)
  if (target.origin !== new URL(request.url).origin) return undefined
  if (request.method !== 'GET' && !ALWAYS_SAME_METHOD.has(status)) return undefined
  return { ...request, url: target.href }
}

async function once(
  network: Network,
  { clock, proxies }: HttpParts,
  request: HttpRequest,
): Promise<Answer<HttpReply>> {
  if (!/^https?:$/.test(URL.canParse(request.url) ? new URL(request.url).protocol : '')) {
    return no('invalid', 'the address of the service is no http address; correct apiUrl')
  }
  if (network.isClosed) return stopping(placeOf(request.url))
  const way = wayTo(new URL(request.url), proxies)
  if (!way.ok) return way
  const late = new AbortController()
  const cancel = clock.after(HTTP_ANSWER_MS_MAX, () => late.abort())
  try {
    return await asked(network, way.value, request, late.signal)
  } catch (error) {
    return failureOf(error, request.url, late.signal.aborted, way.value?.url.host)
  } finally {
    cancel()
  }
}

async function asked(
  network: Network,
  proxy: WayOut | undefined,
  request: HttpRequest,
  signal: AbortSignal,
): Promise<Answer<HttpReply>> {
  const reply = await network.send(request, proxy, signal)
  const place = placeOf(request.url)
  const text = await textOf(reply.body)
  // A service itself has no reason to say this, and what it says of proxies is not for people.
  if (proxy !== undefined && reply.statusCode === 407) return proxyRefusal(place, proxy.url.host, '407')
  if (text === undefined)
    return no('failed', `${place} answered with more than ${HTTP_ANSWER_BYTES_MAX} bytes`)
  return yes({ status: reply.statusCode, headers: firstOf(reply.headers), text })
}

/** undefined: too long. What is left of it is not waited for. */
async function textOf(body: Dispatcher.ResponseData['body']): Promise<string | undefined> {
  const parts: Buffer[] = []
  let bytes = 0
  for await (const part of body as AsyncIterable<Buffer>) {
    bytes += part.length
    if (bytes > HTTP_ANSWER_BYTES_MAX) return undefined
    parts.push(part)
  }
  return Buffer.concat(parts).toString('utf8')
}

function firstOf(headers: Readonly<Record<string, string | string[] | undefined>>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(headers).flatMap(([name, value]) => {
      const first = Array.isArray(value) ? value[0] : value
      return first === undefined ? [] : [[name, first]]
    }),
  )
}

// ---- lines -----------------------------------------------------------------------------------------------------------

/** The open lines, direct ones and those by each proxy. */
class Network {
  readonly #clock: HttpParts['clock']
  readonly #options: Agent.Options
  readonly #direct: Agent
  /** By address and login: there is one for each scheme at most. */
  readonly #around = new Map<string, ProxyAgent>()
  readonly #end = new AbortController()

  constructor({ clock, authorities }: HttpParts) {
    this.#clock = clock
    // Once: reading hundreds of certificates takes longer than all the rest of connecting.
    const trust =
      authorities === undefined
        ? {}
        : { secureContext: createSecureContext({ ca: [...authorities], minVersion: 'TLSv1.2' }) }
    this.#options = {
      connect: { ...trust, timeout: CONNECT_MS_MAX },
      connections: CONNECTIONS_MAX,
      keepAliveTimeout: IDLE_LINE_MS_MAX,
      keepAliveMaxTimeout: IDLE_LINE_MS_TOLD_MAX,
    }
    this.#direct = new Agent(this.#options)
  }

  get isClosed(): boolean {
    return this.#end.signal.aborted
  }

  async close(): Promise<void> {
    this.#end.abort()
    await Promise.all([this.#direct, ...this.#around.values()].map((agent) => agent.destroy()))
  }

  /** Ends early when this is closed. */
  async pause(ms: number): Promise<void> {
    const { signal } = this.#end
    if (signal.aborted) return
    await new Promise<void>((resolve) => {
      const cancel = this.#clock.after(ms, () => {
        signal.removeEventListener('abort', stop)
        resolve()
      })
      const stop = () => {
        cancel()
        resolve()
      }
      signal.addEventListener('abort', stop, { once: true })
    })
  }

  send(
    { url, method, headers, body }: HttpRequest,
    proxy: WayOut | undefined,
    signal: AbortSignal,
  ): Promise<Dispatcher.ResponseData> {
    const { origin, protocol, host, pathname, search } = new URL(url)
    const path = pathname + search
    const rest = { method, headers, signal, ...(body === undefined ? {} : { body }) }
    if (proxy === undefined) return this.#direct.request({ origin, path, ...rest })
    // Most proxies open tunnels only for what is encrypted; the rest they are handed whole.
    if (protocol === 'http:' && /^http/.test(proxy.url.protocol)) {
      const login = proxy.login === undefined ? {} : { 'proxy-authorization': basic(proxy.login) }
      const whole = { origin: proxy.url.origin, path: origin + path }
      return this.#direct.request({ ...rest, ...whole, headers: { ...headers, host, ...login } })
    }
    return this.#tunnels(proxy).request({ origin, path, ...rest })
  }

  #tunnels(proxy: WayOut): ProxyAgent {
    const key = JSON.stringify([proxy.url.href, proxy.login])
    const known = this.#around.get(key)
    if (known !== undefined) return known
    const made = new ProxyAgent(tunnelOptions(proxy, this.#options))
    this.#around.set(key, made)
    return made
  }
}

function tunnelOptions({ url, login }: WayOut, options: Agent.Options): ProxyAgent.Options {
  const tls = typeof options.connect === 'object' ? options.connect : {}
  const isSocks = url.protocol.startsWith('socks')
  return {
    ...options,
    uri: url.href,
    requestTls: tls,
    // A SOCKS proxy that is given this is spoken to in TLS, which it does not understand.
    ...(isSocks ? {} : { proxyTls: tls }),
    // A proxy that takes the call and says nothing would hold its line for minutes.
    clientFactory: (origin, more) => new Pool(origin, { ...more, headersTimeout: CONNECT_MS_MAX }),
    ...(login === undefined
      ? {}
      : isSocks
        ? { username: login.user, password: login.password }
        : { token: basic(login) }),
  }
}

function basic({ user, password }: { readonly user: string; readonly password: string }): string {
  return `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`
}
