/**
 * Rate limit rules of Linear.
 *
 * Linear counts requests and complexity points, and each reply reports both. Exhaustion is reported in the body, with
 * varying status.
 */
import { no, type Result, yes } from '../../../core/result.ts'
import { LINEAR_API } from '../../../protocol/drivers.ts'
import { parseJson } from '../../../protocol/parse.ts'
import type { BudgetReport, RateLimitRules } from '../../http/client-types.ts'
import { retryAfterMs } from '../../http/http.ts'
import type { HttpReply } from '../../http/http-types.ts'
import { readField, readList } from '../../http/reply-fields.ts'

/** Each resource has headers of its own. */
const COUNTED_RESOURCES = ['requests', 'complexity'] as const
const CONCURRENT_REQUESTS_MAX = 4
/** Pause when Linear names none. */
const DEFAULT_PAUSE_MS = 60_000
/** Linear's buckets refill within an hour. */
const PAUSE_MS_MAX = 60 * 60_000
const JSON_KEYS_MAX = 100_000

export const LINEAR_RATE_LIMITS: RateLimitRules = {
  name: 'Linear',
  resourceOf: () => 'requests',
  budgets: (reply) => readCounters(reply),
  tooManyRequestsMs: (reply, now) => (isRateLimited(reply) ? rateLimitPauseMs(reply, now) : undefined),
  concurrencyMax: CONCURRENT_REQUESTS_MAX,
  writeIntervalMs: 0,
}

/** Code and former type of an error, in lower case. */
export function errorKinds(error: unknown): readonly string[] {
  const kinds = [readField(error, 'extensions', 'code'), readField(error, 'extensions', 'type')]
  return kinds.flatMap((kind) => (typeof kind === 'string' ? [kind.toLowerCase()] : []))
}

export const isRateLimitError = (error: unknown): boolean => errorKinds(error).includes('ratelimited')

// ---- rate limit replies ---------------------------------------------------------------------------------------------

function isRateLimited({ status, text }: HttpReply): boolean {
  if (status === 429) return true
  // The text is rare, but a ticket may contain it; check the error kinds.
  if (!/ratelimited/i.test(text)) return false
  const parsed = parseJson(text, JSON_KEYS_MAX)
  return parsed.ok && readList(parsed.value, 'errors').some(isRateLimitError)
}

function rateLimitPauseMs(reply: HttpReply, now: number): number {
  const asked = retryAfterMs(reply.headers['retry-after'], now)
  const exhausted = [...readCounters(reply), ...readEndpointCounter(reply)].filter(
    ({ remaining }) => remaining === 0,
  )
  const resets = exhausted.flatMap(({ resetsAt }) => (resetsAt === undefined ? [] : [resetsAt - now]))
  const wait = asked ?? (resets.length === 0 ? DEFAULT_PAUSE_MS : Math.max(...resets))
  return wait > 0 && Number.isFinite(wait) ? Math.min(wait, PAUSE_MS_MAX) : DEFAULT_PAUSE_MS
}

// ---- budgets --------------------------------------------------------------------------------------------------------

function readCounters(reply: HttpReply): BudgetReport[] {
  return COUNTED_RESOURCES.flatMap((name) => readCounter(reply, name))
}

/** A few operations have a separate limit, which is no budget of other operations. */
function readEndpointCounter(reply: HttpReply): BudgetReport[] {
  return readCounter(reply, 'endpoint-requests')
}

function readCounter({ headers }: HttpReply, name: string): BudgetReport[] {
  const [limit, remaining, resetsAt] = ['limit', 'remaining', 'reset'].map((what) =>
    parseCount(headers[`x-ratelimit-${name}-${what}`]),
  )
  if (remaining === undefined) return []
  return [
    {
      resource: name,
      remaining,
      ...(limit === undefined ? {} : { limit }),
      ...(resetsAt === undefined ? {} : { resetsAt }),
    },
  ]
}

function parseCount(text: string | undefined): number | undefined {
  return text !== undefined && /^\d{1,15}(\.\d+)?$/.test(text) ? Math.floor(Number(text)) : undefined
}

export interface LinearEndpoint {
  readonly origin: string
  readonly graphqlUrl: string
  readonly authorizeUrl: string
  readonly tokenUrl: string
}

/** People consent at another host than programs use. */
const SITE = 'https://linear.app'
const LOOPBACK = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/

/**
 * Derives Linear's addresses and the authorization header. The credential goes to these addresses, so plain http is
 * allowed for this machine only.
 *
 * @param apiUrl a base address, or the address of GraphQL itself
 */
export function parseLinearEndpoint(apiUrl: string = LINEAR_API): Result<LinearEndpoint> {
  if (!URL.canParse(apiUrl)) return no('invalid', 'tracker.apiUrl is not a URL; correct it')
  const { protocol, hostname, origin, pathname, username, password } = new URL(apiUrl)
  if (username !== '' || password !== '') {
    return no('invalid', 'tracker.apiUrl must not hold a user or a password; use tracker.apiKey')
  }
  if (protocol !== 'https:' && !(protocol === 'http:' && LOOPBACK.test(hostname))) {
    return no('invalid', 'tracker.apiUrl must begin with https://, because the credential is sent there')
  }
  const base = origin + pathname.replace(/\/+$/, '').replace(/\/graphql$/, '')
  return yes({
    origin,
    graphqlUrl: `${base}/graphql`,
    authorizeUrl: `${base === LINEAR_API ? SITE : base}/oauth/authorize`,
    tokenUrl: `${base}/oauth/token`,
  })
}

/** Personal API keys stand alone; OAuth tokens need `Bearer`. */
export function authorizationHeader(credential: string): string {
  return credential.startsWith('lin_api_') ? credential : `Bearer ${credential}`
}
