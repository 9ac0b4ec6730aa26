/** Reading what the services that give out credentials answer: a stranger's JSON, field by field. */
import type { RefusalKind } from '../../core/result.ts'
import { no, type Refused } from '../../core/result.ts'
import { CREDENTIAL_CHARS_MAX, HTTP_PAUSE_MS } from '../../protocol/limits.ts'
import { parseJson } from '../../protocol/parse.ts'
import { printable } from '../../protocol/schema-errors.ts'
import { type HttpReply, retryAfterMs } from '../http/http.ts'

export type ReplyFields = Readonly<Record<string, unknown>>

const CREDENTIAL = new RegExp(`^[!-~]{1,${CREDENTIAL_CHARS_MAX}}$`)
/** Of a handful of fields. */
const REPLY_CHARS_MAX = 1024 * 1024
const QUOTE_CHARS_MAX = 300

/** undefined: no JSON object, or a hostile one. */
export function fieldsIn(text: string): ReplyFields | undefined {
  const parsed = text.length > REPLY_CHARS_MAX ? undefined : parseJson(text)
  return parsed?.ok === true ? asFields(parsed.value) : undefined
}

export function asFields(value: unknown): ReplyFields | undefined {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? { ...value } : undefined
}

export const textAt = (fields: ReplyFields | undefined, key: string): string | undefined => {
  const value = fields?.[key]
  return typeof value === 'string' && value !== '' ? value : undefined
}

/** What may go into a header, and so into the configuration. */
export const isCredential = (text: string | undefined): text is string =>
  text !== undefined && CREDENTIAL.test(text)

/** Somebody's words in a sentence of ours. */
export function quoted(text: string): string {
  const short = text.length > QUOTE_CHARS_MAX ? `${text.slice(0, QUOTE_CHARS_MAX)}…` : text
  return printable(short)
}

/** `unavailable`, naming the wait when there is one. */
export function tooManyRequests(service: string, reply: HttpReply, now: number): Refused {
  const waitMs = retryAfterMs(reply.headers['retry-after'], now)
  const when = waitMs === undefined ? 'later' : `in ${Math.ceil(Math.max(waitMs, HTTP_PAUSE_MS) / 1000)} s`
  return no('unavailable', `${service} wants fewer requests; try again ${when}`)
}

export const isTooManyRequests = ({ status, headers }: HttpReply): boolean =>
  status === 429 || (status === 403 && headers['retry-after'] !== undefined)

/** What is left when no rule knew the status: an outage passes, anything else is not what was asked for. */
export function unexpectedStatus(service: string, status: number, advice: string): Refused {
  const kind: RefusalKind = status >= 500 ? 'unavailable' : 'failed'
  return no(kind, `${service} answered with status ${status}; ${status >= 500 ? 'try again later' : advice}`)
}
