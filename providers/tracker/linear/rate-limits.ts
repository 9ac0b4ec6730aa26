/**
 * How Linear speaks of its limits.
 *
 * It counts requests and the points that their fields cost, and says both with every reply; each request draws on both.
 * That it has had enough, it says in the body; the status is one of several.
 */
import { parseJson } from '../../../protocol/parse.ts'
import type { BudgetReport, RateLimitRules } from '../../http/client-types.ts'
import { type HttpReply, retryAfterMs } from '../../http/http.ts'
import { at, listAt } from './fields.ts'

/** Each with headers of its name. */
const COUNTED = ['requests', 'complexity'] as const
const AT_ONCE = 4
/** When it does not say for how long. */
const PAUSE_MS = 60_000
/** Its buckets are full again after an hour. */
const PAUSE_MS_MAX = 60 * 60_000
const KEYS_MAX = 100_000

export const linearManners: RateLimitRules = {
  name: 'Linear',
  resourceOf: () => 'requests',
  budgets: (reply) => counters(reply),
  tooManyRequestsMs: (reply, now) => (isTooOften(reply) ? pauseMs(reply, now) : undefined),
  concurrencyMax: AT_ONCE,
  writeIntervalMs: 0,
}

/** The kind of an error, in small letters: its code, and the word by which it was known before there were codes. */
export function kindsOf(error: unknown): readonly string[] {
  const kinds = [at(error, 'extensions', 'code'), at(error, 'extensions', 'type')]
  return kinds.flatMap((kind) => (typeof kind === 'string' ? [kind.toLowerCase()] : []))
}

export const isRateLimit = (error: unknown): boolean => kindsOf(error).includes('ratelimited')

// ---- too often -----------------------------------------------------------------------------------------------------

function isTooOften({ status, text }: HttpReply): boolean {
  if (status === 429) return true
  // Few replies hold the word, and those that do may hold it in somebody's ticket.
  if (!/ratelimited/i.test(text)) return false
  const parsed = parseJson(text, KEYS_MAX)
  return parsed.ok && listAt(parsed.value, 'errors').some(isRateLimit)
}

function pauseMs(reply: HttpReply, now: number): number {
  const asked = retryAfterMs(reply.headers['retry-after'], now)
  const empty = [...counters(reply), ...endpointCounter(reply)].filter(({ remaining }) => remaining === 0)
  const resets = empty.flatMap(({ resetsAt }) => (resetsAt === undefined ? [] : [resetsAt - now]))
  const wait = asked ?? (resets.length === 0 ? PAUSE_MS : Math.max(...resets))
  return wait > 0 && Number.isFinite(wait) ? Math.min(wait, PAUSE_MS_MAX) : PAUSE_MS
}

// ---- counters ------------------------------------------------------------------------------------------------------

function counters(reply: HttpReply): BudgetReport[] {
  return COUNTED.flatMap((name) => counter(reply, name))
}

/** A few operations have a limit of their own; it is no budget of the others. */
function endpointCounter(reply: HttpReply): BudgetReport[] {
  return counter(reply, 'endpoint-requests')
}

function counter({ headers }: HttpReply, name: string): BudgetReport[] {
  const [limit, remaining, resetsAt] = ['limit', 'remaining', 'reset'].map((what) =>
    numberOf(headers[`x-ratelimit-${name}-${what}`]),
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

function numberOf(text: string | undefined): number | undefined {
  return text !== undefined && /^\d{1,15}(\.\d+)?$/.test(text) ? Math.floor(Number(text)) : undefined
}
