/**
 * The HTTP client sends one request and returns one reply, with limits on time and size.
 *
 * Redirects are followed only within the same origin, so a credential never reaches another one. "Too many requests"
 * is retried always, an outage only where repeating the request is harmless, never earlier than the service asks.
 * Refusals never quote a header, body or query. Replies never repeat the request's credential. Closing the client ends
 * running requests and pending retries. Budgets are left to RateLimitedHttpClient. Undici's interceptors lose
 * "with 301 to another origin is not followed" of `http.test.ts`, and cannot tell a 429 from an outage for POST.
 */
import { isNativeError } from 'node:util/types'
import { backoffMs } from '../../core/backoff.ts'
import { createRedactor } from '../../core/redact-secrets.ts'
import { no, type Refused, type Result, yes } from '../../core/result.ts'
import {
  HTTP_ANSWER_BYTES_MAX,
  HTTP_ANSWER_MS_MAX,
  HTTP_PAUSE_MS,
  HTTP_PAUSE_MS_MAX,
} from '../../protocol/limits.ts'
import { ConnectionPools, mustBePublic, ResponseReader } from './connection-pools.ts'
import type { Http, HttpOptions, HttpReply, HttpRequest } from './http-types.ts'
import { type ProxyAddress, selectProxy } from './proxy-selection.ts'
import { isPrivateLiteral, PRIVATE_ADDRESS, privateAddressRefusal } from './public-addresses.ts'

const HTTP_TRIES_MAX = 3
const HTTP_REDIRECTS_MAX = 3

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
 * Returns the wait before the next try, or undefined when the answer is final.
 *
 * @param tries how often the request was sent
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
  // For a longer wait the caller shows the refusal to a person instead.
  return waitMs > HTTP_PAUSE_MS_MAX ? undefined : waitMs
}

/** Parses a Retry-After header: seconds (some services send fractions) or a date. */
export function retryAfterMs(value: string | undefined, now: number): number | undefined {
  if (value === undefined) return undefined
  if (/^\d{1,9}(\.\d{1,9})?$/.test(value.trim())) return Math.ceil(Number(value) * 1000)
  // Date.parse accepts bare numbers; a real date contains letters.
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

/** Returns undefined for a redirect to another origin and for one that would change the method. */
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
  { clock, proxies, maySend }: HttpOptions,
  request: HttpRequest,
): Promise<Result<HttpReply>> {
  const url = URL.canParse(request.url) ? new URL(request.url) : undefined
  if (url === undefined || !/^https?:$/.test(url.protocol)) {
    return no('invalid', 'the address of the service is no http or https address; correct apiUrl')
  }
  if (network.isClosed || maySend?.() === false) return stoppingRefusal(url.host)
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

/** @param reply undefined when the reply was too long */
function completeReply(
  reply: HttpReply | undefined,
  request: HttpRequest,
  host: string,
  proxy: ProxyAddress | undefined,
): Result<HttpReply> {
  // Only the proxy answers 407, with a page that is not meant for people.
  if (proxy !== undefined && reply?.status === 407) return proxyRefusal(host, proxy.url.host, '407')
  if (reply === undefined)
    return no('failed', `${host} answered with more than ${HTTP_ANSWER_BYTES_MAX} bytes`)
  return yes(redactReply(reply, request))
}

// ---- connections -----------------------------------------------------------------------------------------------------

interface SentRequest {
  readonly headers: Readonly<Record<string, string>>
  readonly secrets?: readonly string[]
}

interface ReplyText {
  readonly headers: Readonly<Record<string, string>>
  readonly text: string
}

/** The headers in which services receive a credential. */
const CREDENTIAL_HEADERS = ['authorization', 'x-api-key', 'x-goog-api-key']
const AUTHORIZATION_SCHEME = /^(bearer|basic|token) +/i

/**
 * redactReply removes the request's credential from a reply.
 *
 * Error pages often repeat what was sent, and error texts are displayed, stored and logged. No reply has a reason to
 * contain the credential of its own request.
 */
function redactReply<Reply extends ReplyText>(reply: Reply, { headers, secrets = [] }: SentRequest): Reply {
  const credentials = CREDENTIAL_HEADERS.flatMap(
    (name) => headers[name]?.replace(AUTHORIZATION_SCHEME, '') ?? [],
  )
  if (credentials.length + secrets.length === 0) return reply
  const redact = createRedactor([...credentials, ...secrets])
  const redactedHeaders = Object.entries(reply.headers).map(([name, value]) => [name, redact(value)])
  return { ...reply, headers: Object.fromEntries(redactedHeaders), text: redact(reply.text) }
}

const ERROR_CODE_CHARS_MAX = 60
const CONNECTION_CLOSED_CODES = new Set(['UND_ERR_DESTROYED', 'UND_ERR_CLOSED'])
const UNTRUSTED_CERTIFICATE = /CERT|SIGNATURE|SELF_SIGNED|ISSUER/
const PROXY_RESPONSE = /^Proxy response \((\d{3})\)/

/**
 * Turns a failed connection into a refusal whose message a person can act on. It names the host only: path, query,
 * headers and logins may hold a secret or a search text.
 *
 * @param proxy the host and port of the proxy that was used, if any
 */
export function connectionFailure(
  error: unknown,
  url: string,
  isTimeout: boolean,
  proxy: string | undefined,
): Refused {
  const host = hostInUrl(url)
  const viaProxy = proxy === undefined ? '' : ` through the proxy ${proxy}`
  if (isTimeout)
    return no(
      'failed',
      `${host} did not answer${viaProxy} within ${HTTP_ANSWER_MS_MAX / 1000} s; ${CHECK_NETWORK}`,
    )
  const code = errorCodeOf(error)
  if (CONNECTION_CLOSED_CODES.has(code)) return stoppingRefusal(host)
  if (code === PRIVATE_ADDRESS) return privateAddressRefusal(host)
  if (code === 'UND_ERR_INVALID_ARG') {
    return no(
      'invalid',
      `${host} received no request: its credential holds characters that may not be sent; enter the credential again`,
    )
  }
  const proxyStatus = PROXY_RESPONSE.exec(isNativeError(error) ? error.message : '')?.[1]
  if (proxyStatus !== undefined && proxy !== undefined) return proxyRefusal(host, proxy, proxyStatus)
  const advice = UNTRUSTED_CERTIFICATE.test(code)
    ? 'this machine does not trust its certificate; name the certificate authority in NODE_EXTRA_CA_CERTS'
    : CHECK_NETWORK
  return no('failed', `${host} could not be reached${viaProxy} (${code}); ${advice}`)
}

export function stoppingRefusal(host: string): Refused {
  return no('unavailable', `${host} gets no more requests: this process is stopping`)
}

export function proxyRefusal(host: string, proxy: string, status: string): Refused {
  const advice =
    status === '407' ? 'put a valid user and password into the proxy variable' : 'ask its operator'
  return no('failed', `${host} could not be reached: the proxy ${proxy} answered ${status}; ${advice}`)
}

/** Returns host and port, without path and query. */
export function hostInUrl(url: string): string {
  return new URL(url).host
}

const CHECK_NETWORK = 'check the network connection of this machine'

/** Returns the first error code in the chain of causes; the outer error often has none. */
function errorCodeOf(error: unknown): string {
  for (
    let current = error, depth = 0;
    isNativeError(current) && depth < 3;
    current = current.cause, depth++
  ) {
    if ('code' in current && typeof current.code === 'string')
      return current.code.slice(0, ERROR_CODE_CHARS_MAX)
  }
  return 'no code'
}
