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
import { failureOf, placeOf, proxyRefusal, stopping } from './errors.ts'
import { type WayOut, wayTo } from './proxy-selection.ts'
import { isThisMachine, isWrittenPrivate, leadsInside, outwardLookup } from './public-address-guard.ts'
import { struck } from './redact-reply.ts'
import { Intake } from './response-reader.ts'

export interface HttpRequest {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string
  /** Parts of the body that must not come back; they are struck out of the reply, like a credential in a header. */
  readonly secrets?: readonly string[]
  /** It is for a service out in the world: on a private network nobody is asked. */
  readonly outside?: true
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
  ask(request: HttpRequest): Promise<Result<HttpReply>>
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
  readonly random: Pick<RandomSource, 'fraction'>
  /** Certificates that may vouch for a service; without them, those that Node comes with. */
  readonly authorities?: readonly string[]
  /** The way out of this network; without it services are asked directly. */
  readonly proxies?: Proxies
  /** How names are resolved, if not as this machine does. */
  readonly lookup?: LookupFunction
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
): Promise<Result<HttpReply>> {
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
  answer: Result<HttpReply>,
  { method }: HttpRequest,
  { clock, random }: HttpParts,
  tries: number,
): number | undefined {
  const own = backoffMs(tries, HTTP_PAUSE_MS, HTTP_PAUSE_MS_MAX, random.fraction())
  if (!answer.ok) return answer.refusal.kind === 'failed' && SAFE_TWICE.has(method) ? own : undefined
  const { status, headers } = answer.value
  const asked = retryAfterMs(headers['retry-after'], clock.now())
  const isTooOften = status === 429 || (status === 403 && asked !== undefined)
  if (!isTooOften && !(OUTAGES.has(status) && SAFE_TWICE.has(method))) return undefined
  const wait = Math.max(own, asked ?? 0)
  // Whoever is to wait for so long says so to a person instead.
  return wait > HTTP_PAUSE_MS_MAX ? undefined : wait
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

async function followed(
  network: Network,
  parts: HttpParts,
  request: HttpRequest,
): Promise<Result<HttpReply>> {
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
): Promise<Result<HttpReply>> {
  const url = URL.canParse(request.url) ? new URL(request.url) : undefined
  if (url === undefined || !/^https?:$/.test(url.protocol)) {
    return no('invalid', 'the address of the service is no http address; correct apiUrl')
  }
  if (network.isClosed) return stopping(url.host)
  if (mustLeadOut(request, url) && isWrittenPrivate(url)) return leadsInside(url.host)
  const way = wayTo(url, proxies)
  if (!way.ok) return way
  const intake = new Intake()
  let isLate = false
  const cancel = clock.after(HTTP_ANSWER_MS_MAX, () => {
    isLate = true
    intake.giveUp()
  })
  try {
    network.send(request, url, way.value, intake)
    return whole(await intake.reply, request, url.host, way.value)
  } catch (error) {
    return failureOf(error, request.url, isLate, way.value?.url.host)
  } finally {
    cancel()
  }
}

/** What a person wrote down as this very machine is meant. */
const mustLeadOut = ({ outside }: HttpRequest, url: URL): boolean => outside === true && !isThisMachine(url)

/** @param reply undefined: it was too long */
function whole(
  reply: HttpReply | undefined,
  request: HttpRequest,
  place: string,
  proxy: WayOut | undefined,
): Result<HttpReply> {
  // A service itself has no reason to say this, and what it says of proxies is not for people.
  if (proxy !== undefined && reply?.status === 407) return proxyRefusal(place, proxy.url.host, '407')
  if (reply === undefined)
    return no('failed', `${place} answered with more than ${HTTP_ANSWER_BYTES_MAX} bytes`)
  return yes(struck(reply, request))
}

// ---- lines -----------------------------------------------------------------------------------------------------------

/** The open lines, direct ones and those by each proxy. */
class Network {
  readonly #clock: HttpParts['clock']
  readonly #authorities: HttpParts['authorities']
  readonly #options: Agent.Options
  readonly #direct: Agent
  readonly #outward: Agent
  /** By address and login: there is one for each scheme at most. */
  readonly #around = new Map<string, ProxyAgent>()
  readonly #end = new AbortController()
  #context: SecureContext | undefined

  constructor({ clock, authorities, lookup }: HttpParts) {
    this.#clock = clock
    this.#authorities = authorities
    this.#options = {
      connections: CONNECTIONS_MAX,
      keepAliveTimeout: IDLE_LINE_MS_MAX,
      keepAliveMaxTimeout: IDLE_LINE_MS_TOLD_MAX,
    }
    this.#direct = this.#agent(lookup === undefined ? {} : { lookup })
    this.#outward = this.#agent({ lookup: outwardLookup(lookup) })
  }

  get isClosed(): boolean {
    return this.#end.signal.aborted
  }

  async close(): Promise<void> {
    this.#end.abort()
    await Promise.all([this.#direct, this.#outward, ...this.#around.values()].map((agent) => agent.destroy()))
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

  send(request: HttpRequest, url: URL, proxy: WayOut | undefined, intake: Intake): void {
    const { method, headers, body } = request
    const { origin, protocol, host, pathname, search } = url
    const path = pathname + search
    const rest = { method, headers, ...(body === undefined ? {} : { body }) }
    const direct = mustLeadOut(request, url) ? this.#outward : this.#direct
    if (proxy === undefined) direct.dispatch({ origin, path, ...rest }, intake)
    // Most proxies open tunnels only for what is encrypted; the rest they are handed whole.
    else if (protocol === 'http:' && /^http/.test(proxy.url.protocol)) {
      const login = proxy.login === undefined ? {} : { 'proxy-authorization': basic(proxy.login) }
      const whole = { origin: proxy.url.origin, path: origin + path }
      this.#direct.dispatch({ ...rest, ...whole, headers: { ...headers, host, ...login } }, intake)
    } else this.#tunnels(proxy).dispatch({ origin, path, ...rest }, intake)
  }

  #tunnels(proxy: WayOut): ProxyAgent {
    const key = JSON.stringify([proxy.url.href, proxy.login])
    const known = this.#around.get(key)
    if (known !== undefined) return known
    const connect = { ...this.#trust(), timeout: CONNECT_MS_MAX }
    const made = new ProxyAgent(tunnelOptions(proxy, { ...this.#options, connect }))
    this.#around.set(key, made)
    return made
  }

  #agent(how: buildConnector.BuildOptions): Agent {
    const plain = { ...how, timeout: CONNECT_MS_MAX }
    const connect = (origin: string) => (origin.startsWith('https:') ? { ...plain, ...this.#trust() } : plain)
    return new Agent({
      ...this.#options,
      factory: (origin, options) => new Pool(origin, { ...options, connect: connect(String(origin)) }),
    })
  }

  /**
   * Once, and when the first encrypted line is opened: reading hundreds of certificates takes longer than all the rest
   * of connecting, and a quarter of the time in which a host starts.
   */
  #trust(): buildConnector.BuildOptions {
    if (this.#authorities === undefined) return {}
    this.#context ??= createSecureContext({ ca: [...this.#authorities], minVersion: 'TLSv1.2' })
    return { secureContext: this.#context }
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
