/**
 * Recognizes the replies by which any service asks for a pause, whatever its own rate limit rules are.
 */
import type { Result } from '../../core/result.ts'
import { HTTP_PAUSE_MS_MAX } from '../../protocol/limits.ts'
import { retryAfterMs } from './http.ts'
import type { HttpReply } from './http-types.ts'

const OUTAGE_STATUS = 503
/** The pause after "too many requests" without a stated duration. */
const DEFAULT_PAUSE_MS = 60_000

/** Gateways in front of a service report rate limits in the standard way, with 429 or with 403 and Retry-After. */
export function standardTooManyRequestsMs({ status, headers }: HttpReply, now: number): number | undefined {
  const asked = retryAfterMs(headers['retry-after'], now)
  return status === 429 ? (asked ?? DEFAULT_PAUSE_MS) : status === 403 ? asked : undefined
}

/** During an outage the service may have processed the request, so it is not repeated automatically. */
export const isOutage = (answer: Result<HttpReply>): boolean =>
  answer.ok && answer.value.status === OUTAGE_STATUS

/** A 503 that names a distant end pauses all requests; a short outage is covered by the retries. */
export function outageMs({ status, headers }: HttpReply, now: number): number | undefined {
  const asked = status === OUTAGE_STATUS ? retryAfterMs(headers['retry-after'], now) : undefined
  return asked !== undefined && asked > HTTP_PAUSE_MS_MAX ? asked : undefined
}
