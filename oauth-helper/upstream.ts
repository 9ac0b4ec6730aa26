/**
 * Asking the tracker or the code host on behalf of somebody's machine: once, bounded in time and in size.
 *
 * Nothing is asked twice: a grant that was used up by an answer that got lost would be refused, and taken for dead.
 * An answer that means "too often" is passed on with its own `Retry-After`. Nothing of what is sent or comes back is
 * kept, logged or repeated in a sentence, but for the one word by which OAuth names an error.
 */

import type { Clock } from '../core/ports.ts'
import { withTimeout } from '../core/with-timeout.ts'
import {
  HELPER_UPSTREAM_AT_ONCE_MAX,
  HELPER_UPSTREAM_CHARS_MAX,
  HELPER_UPSTREAM_MS_MAX,
} from '../protocol/limits.ts'
import { parseJson } from '../protocol/parse.ts'
import type { Http, HttpReply, HttpRequest } from '../providers/http/http.ts'
import { type Headers, type Reply, refusal } from '../transport/reply.ts'

export type UpstreamAnswer =
  | { readonly is: 'answer'; readonly status: number; readonly fields: Readonly<Record<string, unknown>> }
  /** What the caller is told instead. */
  | { readonly is: 'no answer'; readonly reply: Reply }

export interface Upstream {
  /** `who`: as a person knows it. */
  postForm(service: string, url: string, form: Readonly<Record<string, string>>): Promise<UpstreamAnswer>
}

/** Seconds or a date, as the header's own grammar has them. */
const RETRY_AFTER = /^[A-Za-z0-9 ,:]{1,64}$/
/** Without figures: a code or a secret in its place is no word. */
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
      // Counted until it is over, not until nobody waits for it any more.
      const sent = http.send(requestFor(url, form)).finally(() => {
        inFlight -= 1
      })
      const answer = await withTimeout(clock, HELPER_UPSTREAM_MS_MAX, sent, service)
      return answer.ok
        ? readAnswer(service, answer.value)
        : failed(`${service} could not be reached; try again later`)
    },
  }
}

/** The word by which a service names an error; undefined where there is none. */
export function oauthError(fields: Readonly<Record<string, unknown>>): string | undefined {
  const { error } = fields
  return typeof error === 'string' && ERROR_WORD.test(error) ? error : undefined
}

export function badGateway(message: string): Reply {
  return refusal(502, message)
}

/** A 502 that says what the service said, as far as that is one of OAuth's words. */
export function unexpectedAnswer(
  service: string,
  { status, fields }: Extract<UpstreamAnswer, { is: 'answer' }>,
): Reply {
  const error = oauthError(fields)
  return badGateway(
    `${service} answered with ${error === undefined ? `status ${status}` : error}, which is of no use here`,
  )
}

function requestFor(url: string, form: Readonly<Record<string, string>>): HttpRequest {
  return {
    method: 'POST',
    url,
    tries: 1,
    headers: {
      accept: 'application/json',
      'content-type': 'application/x-www-form-urlencoded',
      'user-agent': 'switchyard-oauth-helper',
    },
    body: new URLSearchParams(form).toString(),
  }
}

function readAnswer(service: string, reply: HttpReply): UpstreamAnswer {
  if (isTooManyRequests(reply)) return { is: 'no answer', reply: rateLimitReply(service, reply) }
  if (reply.text.length > HELPER_UPSTREAM_CHARS_MAX) return failed(`${service} answered with too much`)
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
  return refusal(429, `${service} wants fewer requests; wait as long as Retry-After says`, headers)
}

const failed = (message: string): UpstreamAnswer => ({ is: 'no answer', reply: badGateway(message) })
