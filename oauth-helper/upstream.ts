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

export type Heard =
  | { readonly is: 'answer'; readonly status: number; readonly fields: Readonly<Record<string, unknown>> }
  /** What the caller is told instead. */
  | { readonly is: 'nothing'; readonly reply: Reply }

export interface Upstream {
  /** `who`: as a person knows it. */
  post(who: string, url: string, form: Readonly<Record<string, string>>): Promise<Heard>
}

/** Seconds or a date, as the header's own grammar has them. */
const RETRY_AFTER = /^[A-Za-z0-9 ,:]{1,64}$/
/** Without figures: a code or a secret in its place is no word. */
const ERROR_WORD = /^[a-z_]{1,64}$/
const BUSY = refusal(503, 'too many requests are under way; try again in a moment', [['retry-after', '1']])

export function makeUpstream(http: Http, clock: Pick<Clock, 'after'>): Upstream {
  let underWay = 0
  return {
    async post(who, url, form) {
      if (underWay >= HELPER_UPSTREAM_AT_ONCE_MAX) return { is: 'nothing', reply: BUSY }
      underWay += 1
      // Counted until it is over, not until nobody waits for it any more.
      const asked = http.send(requestFor(url, form)).finally(() => {
        underWay -= 1
      })
      const answer = await withTimeout(clock, HELPER_UPSTREAM_MS_MAX, asked, who)
      return answer.ok ? heard(who, answer.value) : nothing(`${who} could not be reached; try again later`)
    },
  }
}

/** The word by which a service names an error; undefined where there is none. */
export function errorWord(fields: Readonly<Record<string, unknown>>): string | undefined {
  const { error } = fields
  return typeof error === 'string' && ERROR_WORD.test(error) ? error : undefined
}

export function badGateway(message: string): Reply {
  return refusal(502, message)
}

/** A 502 that says what the service said, as far as that is one of OAuth's words. */
export function strange(who: string, { status, fields }: Extract<Heard, { is: 'answer' }>): Reply {
  const word = errorWord(fields)
  return badGateway(
    `${who} answered with ${word === undefined ? `status ${status}` : word}, which is of no use here`,
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

function heard(who: string, reply: HttpReply): Heard {
  if (isTooOften(reply)) return { is: 'nothing', reply: tooOften(who, reply) }
  if (reply.text.length > HELPER_UPSTREAM_CHARS_MAX) return nothing(`${who} answered with too much`)
  const parsed = parseJson(reply.text)
  const isObject =
    parsed.ok && typeof parsed.value === 'object' && parsed.value !== null && !Array.isArray(parsed.value)
  if (!isObject) return nothing(`${who} answered with status ${reply.status} and no JSON object`)
  return { is: 'answer', status: reply.status, fields: { ...parsed.value } }
}

const isTooOften = ({ status, headers }: HttpReply): boolean =>
  status === 429 || (status === 403 && headers['retry-after'] !== undefined)

function tooOften(who: string, reply: HttpReply): Reply {
  const after = reply.headers['retry-after']
  const headers: Headers = after !== undefined && RETRY_AFTER.test(after) ? [['retry-after', after]] : []
  return refusal(429, `${who} wants fewer requests; wait as long as Retry-After says`, headers)
}

const nothing = (message: string): Heard => ({ is: 'nothing', reply: badGateway(message) })
