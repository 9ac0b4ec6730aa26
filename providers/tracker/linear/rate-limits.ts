/**
 * Rate limit rules of Linear.
 *
 * Linear counts requests and complexity points, and each reply reports both. Exhaustion is reported in the body, with
 * varying status.
 */
import { parseJson } from '../../../protocol/parse.ts'
import type { BudgetReport, RateLimitRules } from '../../http/client-types.ts'
import { retryAfterMs } from '../../http/http.ts'
import type { HttpReply } from '../../http/http-types.ts'
import { readField, readList } from './fields.ts'

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
