/**
 * Rate limit rules of GitHub.
 *
 * Headers report an hourly budget with its reset time, separately for REST, GraphQL and search. Secondary limits appear
 * only as a refusal, with or without a pause. GitHub asks for one write at a time, a second apart. The limits per
 * minute are documented but not reported; unchanged replies may count there too.
 */
import { parseJson } from '../../protocol/parse.ts'
import type { BudgetReport, MinuteQuota, RateLimitRules, ServiceRequest } from '../http/client-types.ts'
import { retryAfterMs } from '../http/http.ts'
import type { HttpReply } from '../http/http-types.ts'
import { readField } from '../http/reply-fields.ts'
import { isRateLimited } from './errors.ts'
import { asList } from './fields.ts'

/** GitHub allows 100, shared by all programs that use tokens of this account. */
const CONCURRENT_REQUESTS_MAX = 50
const WRITE_PAUSE_MS = 1_000
/** Pause that GitHub asks for when its reply names none. */
const DEFAULT_PAUSE_MS = 60_000
/** Budgets reset within the hour; a later reset means a wrong clock, most likely ours. */
const WINDOW_MS_MAX = 60 * 60_000
/** Limits per minute as documented by GitHub. */
const MINUTE_QUOTAS: Readonly<Record<string, MinuteQuota>> = {
  core: { points: 900, read: 1, write: 5 },
  graphql: { points: 2_000, read: 1, write: 5 },
}
const GRAPHQL_LIMITED = /"type"\s*:\s*"RATE_LIMIT(ED)?"/
const GRAPHQL_KEYS_MAX = 200_000

export const GITHUB_RATE_LIMITS: RateLimitRules = {
  name: 'GitHub',
  concurrencyMax: CONCURRENT_REQUESTS_MAX,
  writeIntervalMs: WRITE_PAUSE_MS,
  resourceOf: resourceOfRequest,
  minuteQuota: (resource) => MINUTE_QUOTAS[resource],
  budgets: readBudgets,
  tooManyRequestsMs: rateLimitPauseMs,
}

function resourceOfRequest({ url }: ServiceRequest): string {
  const { pathname } = new URL(url)
  if (pathname.endsWith('/graphql')) return 'graphql'
  return /\/search\//.test(pathname) ? 'search' : 'core'
}

function readBudgets({ headers }: HttpReply, request: ServiceRequest): readonly BudgetReport[] {
  const [limit, remaining, reset] = ['limit', 'remaining', 'reset'].map((name) =>
    parseWhole(headers[`x-ratelimit-${name}`]),
  )
  if (limit === undefined && remaining === undefined) return []
  return [
    {
      resource: headers['x-ratelimit-resource'] ?? resourceOfRequest(request),
      ...(limit === undefined ? {} : { limit }),
      ...(remaining === undefined ? {} : { remaining }),
      ...(reset === undefined ? {} : { resetsAt: reset * 1000 }),
    },
  ]
}

function parseWhole(header: string | undefined): number | undefined {
  return header !== undefined && /^\d{1,12}$/.test(header) ? Number(header) : undefined
}

/** Milliseconds without requests; undefined when the reply is not a rate limit. `now`: wall milliseconds. */
export function rateLimitPauseMs(reply: HttpReply, now: number): number | undefined {
  if (!isRateLimited(reply) && !isGraphqlRateLimited(reply)) return undefined
  const { headers } = reply
  const asked = retryAfterMs(headers['retry-after'], now)
  if (asked !== undefined) return asked
  const reset =
    headers['x-ratelimit-remaining'] === '0' ? parseWhole(headers['x-ratelimit-reset']) : undefined
  return reset === undefined ? DEFAULT_PAUSE_MS : Math.min(Math.max(0, reset * 1000 - now), WINDOW_MS_MAX)
}

/** The text may also occur in a comment, so check the error types. */
function isGraphqlRateLimited({ status, text }: HttpReply): boolean {
  if (status !== 200 || !GRAPHQL_LIMITED.test(text)) return false
  const body = parseJson(text, GRAPHQL_KEYS_MAX)
  const errors = body.ok ? asList(readField(body.value, 'errors')) : []
  return errors.some((error) => /^RATE_LIMIT(ED)?$/.test(String(readField(error, 'type'))))
}
