/**
 * Upstream sends a caller's request to the tracker or the code host: once, with limits on time and size.
 *
 * Requests are never repeated: a grant that a lost reply used up would be refused and look invalid. A rate limit is
 * passed on with its `Retry-After`. Sent and received data is never stored, logged or quoted, except the OAuth error
 * code.
 */
import type { Clock } from '../core/ports/clock.ts'
import { withTimeout } from '../core/with-timeout.ts'
import { HELPER_UPSTREAM_MS_MAX } from '../protocol/limits.ts'
import { parseJson } from '../protocol/parse.ts'
import type { Http, HttpReply } from '../providers/http/http-types.ts'
import { tokenFormRequest } from '../providers/http/token-form.ts'
import { type Headers, type Reply, refusal } from '../transport/reply.ts'

export const HELPER_UPSTREAM_AT_ONCE_MAX = 256
const HELPER_UPSTREAM_CHARS_MAX = 64 * 1024

export type UpstreamAnswer =
  | { readonly is: 'answer'; readonly status: number; readonly fields: Readonly<Record<string, unknown>> }
  /** The reply that the caller receives instead. */
  | { readonly is: 'no answer'; readonly reply: Reply }

export interface Upstream {
  /** `service`: its name in messages. */
  postForm(service: string, url: string, form: Readonly<Record<string, string>>): Promise<UpstreamAnswer>
}

const USER_AGENT = 'switchyard-oauth-helper'
/** Seconds or a date, as the grammar of the header allows. */
const RETRY_AFTER = /^[A-Za-z0-9 ,:]{1,64}$/
/** OAuth error codes contain no digits, so a code or secret in their place does not match. */
const ERROR_WORD = /^[a-z_]{1,64}$/
const BUSY_REPLY = refusal(503, 'too many requests are under way; try again in a moment', [
  ['retry-after', '1'],
])

export function createUpstream(http: Http, clock: Pick<Clock, 'after'>): Upstream {
  let inFlight = 0
  return {
    async postForm(service, url, form) {
      if (inFlight >= HELPER_UPSTREAM_AT_ONCE_MAX) return { is: 'no answer', reply: BUSY_REPLY }
      inFlight += 1
      // Count the request until it ends, even after its caller's timeout.
      const sent = http.send(tokenFormRequest(url, form, USER_AGENT)).finally(() => {
        inFlight -= 1
      })
      const answer = await withTimeout(clock, HELPER_UPSTREAM_MS_MAX, sent, service)
      return answer.ok
        ? readAnswer(service, answer.value)
        : failed(`${service} could not be reached; try again later`)
    },
  }
}

/** Returns the OAuth error code of an answer, or undefined. */
export function oauthError(fields: Readonly<Record<string, unknown>>): string | undefined {
  const { error } = fields
  return typeof error === 'string' && ERROR_WORD.test(error) ? error : undefined
}

export function badGateway(message: string): Reply {
  return refusal(502, message)
}

/** Returns a 502 that quotes the answer's OAuth error code, or else its status. */
export function unexpectedAnswer(
  service: string,
  { status, fields }: Extract<UpstreamAnswer, { is: 'answer' }>,
): Reply {
  const error = oauthError(fields)
  return badGateway(
    `${service} answered with ${error === undefined ? `status ${status}` : error}, which is not a usable answer`,
  )
}

function readAnswer(service: string, reply: HttpReply): UpstreamAnswer {
  if (isTooManyRequests(reply)) return { is: 'no answer', reply: rateLimitReply(service, reply) }
  if (reply.text.length > HELPER_UPSTREAM_CHARS_MAX)
    return failed(`${service} sent an answer that is too long`)
  const parsed = parseJson(reply.text)
  const isObject =
    parsed.ok && typeof parsed.value === 'object' && parsed.value !== null && !Array.isArray(parsed.value)
  if (!isObject) return failed(`${service} answered with status ${reply.status} and no JSON object`)
  return { is: 'answer', status: reply.status, fields: { ...parsed.value } }
}

const isTooManyRequests = ({ status, headers }: HttpReply): boolean =>
  status === 429 || (status === 403 && headers['retry-after'] !== undefined)

function rateLimitReply(service: string, reply: HttpReply): Reply {
  const retryAfter = reply.headers['retry-after']
  const headers: Headers =
    retryAfter !== undefined && RETRY_AFTER.test(retryAfter) ? [['retry-after', retryAfter]] : []
  return refusal(429, `the rate limit of ${service} is reached; wait as long as Retry-After says`, headers)
}

const failed = (message: string): UpstreamAnswer => ({ is: 'no answer', reply: badGateway(message) })
