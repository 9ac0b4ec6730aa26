/**
 * The HTTP client sends one request and returns one reply, with limits on time and size.
 *
 * Redirects are followed only within the same origin, so a credential never reaches another one. "Too many requests"
 * is retried always, an outage only where repeating the request is harmless, never earlier than the service asks.
 * Refusals never quote a header, body or query. Replies never repeat the request's credential. Closing the client ends
 * running requests and pending retries. Budgets and request order are left to RateLimitedHttpClient.
 */
import { backoffMs } from '../../core/backoff.ts'
import { no, type Result, yes } from '../../core/result.ts'
import {
  HTTP_ANSWER_BYTES_MAX,
  HTTP_ANSWER_MS_MAX,
  HTTP_PAUSE_MS,
  HTTP_PAUSE_MS_MAX,
  HTTP_REDIRECTS_MAX,
  HTTP_TRIES_MAX,
} from '../../protocol/limits.ts'
import { ConnectionPools, mustBePublic } from './connection-pools.ts'
import { connectionFailure, hostInUrl, proxyRefusal, stoppingRefusal } from './errors.ts'
import type { Http, HttpOptions, HttpReply, HttpRequest } from './http-types.ts'
import { type ProxyAddress, selectProxy } from './proxy-selection.ts'
import { isPrivateLiteral, privateAddressRefusal } from './public-address-guard.ts'
import { redactReply } from './redact-reply.ts'
import { ResponseReader } from './response-reader.ts'

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
