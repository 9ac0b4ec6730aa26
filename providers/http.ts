/**
 * Asking a service on the web: one request, one reply, both bounded.
 *
 * A redirect is followed only within the same origin, so a credential never reaches another place. What passes is
 * tried again a few times, as late as the service asks for: a refusal for having asked too often always, an outage
 * only where asking twice is harmless. A refusal here never quotes a header, a body or a query.
 */
import { Agent, type Dispatcher } from 'undici'
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

export interface HttpRequest {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string
}

export interface HttpReply {
  readonly status: number
  /** Names in lower case; of a repeated one the first. */
  readonly headers: Readonly<Record<string, string>>
  readonly text: string
}

export interface Http {
  /** Any status is a reply; refused (`failed`) is only what brought none. */
  ask(request: HttpRequest): Promise<Answer<HttpReply>>
  close(): Promise<void>
}

export interface HttpParts {
  readonly clock: Pick<Clock, 'after' | 'now'>
  readonly chance: Pick<Chance, 'fraction'>
}

const CONNECT_MS_MAX = 10_000
const CONNECTIONS_MAX = 8
const SAFE_TWICE = new Set<string>(['GET', 'PUT', 'DELETE'])
const OUTAGES = new Set([500, 502, 503, 504])
const REDIRECTS = new Set([301, 302, 303, 307, 308])
const ALWAYS_SAME_METHOD = new Set([307, 308])

export function makeHttp(parts: HttpParts): Http {
  const agent = new Agent({ connect: { timeout: CONNECT_MS_MAX }, connections: CONNECTIONS_MAX })
  return { ask: (request) => patiently(agent, parts, request), close: () => agent.destroy() }
}

async function patiently(agent: Agent, parts: HttpParts, request: HttpRequest): Promise<Answer<HttpReply>> {
  for (let tries = 1; ; tries++) {
    const answer = await followed(agent, parts, request)
    const waitMs = tries < HTTP_TRIES_MAX ? waitBefore(answer, request, parts, tries) : undefined
    if (waitMs === undefined) return answer
    await new Promise<void>((resolve) => parts.clock.after(waitMs, resolve))
  }
}

/** undefined: not tried again. */
function waitBefore(
  answer: Answer<HttpReply>,
  { method }: HttpRequest,
  { clock, chance }: HttpParts,
  tries: number,
): number | undefined {
  const own = backoffMs(tries, HTTP_PAUSE_MS, HTTP_PAUSE_MS_MAX, chance.fraction())
  if (!answer.ok) return SAFE_TWICE.has(method) ? own : undefined
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

async function followed(agent: Agent, parts: HttpParts, request: HttpRequest): Promise<Answer<HttpReply>> {
  let at = request
  for (let hops = 0; ; hops++) {
    const reply = await once(agent, parts, at)
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

async function once(agent: Agent, { clock }: HttpParts, request: HttpRequest): Promise<Answer<HttpReply>> {
  if (!/^https?:$/.test(URL.canParse(request.url) ? new URL(request.url).protocol : '')) {
    return no('invalid', 'the address of the service is no http address; correct apiUrl')
  }
  const late = new AbortController()
  const cancel = clock.after(HTTP_ANSWER_MS_MAX, () => late.abort())
  try {
    return await asked(agent, request, late.signal)
  } catch (error) {
    return no('failed', `${placeOf(request.url)} ${late.signal.aborted ? tooSlow : account(error)}`)
  } finally {
    cancel()
  }
}

async function asked(agent: Agent, request: HttpRequest, signal: AbortSignal): Promise<Answer<HttpReply>> {
  const { url, method, headers, body } = request
  const reply = await agent.request({
    origin: new URL(url).origin,
    path: pathOf(url),
    method,
    headers,
    signal,
    ...(body === undefined ? {} : { body }),
  })
  const text = await textOf(reply.body)
  if (text === undefined) {
    return no('failed', `${placeOf(url)} answered with more than ${HTTP_ANSWER_BYTES_MAX} bytes`)
  }
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

function pathOf(url: string): string {
  const { pathname, search } = new URL(url)
  return pathname + search
}

// ---- refusals ------------------------------------------------------------------------------------------------------

const tooSlow = `gave no answer within ${HTTP_ANSWER_MS_MAX / 1000} s; see that this machine has a way to it`

/** Without path and query: they may hold what somebody searched for. */
function placeOf(url: string): string {
  return new URL(url).host
}

function account(error: unknown): string {
  const code = typeof error === 'object' && error !== null && 'code' in error ? String(error.code) : 'no code'
  return `could not be reached (${code}); see that this machine has a way to it`
}
