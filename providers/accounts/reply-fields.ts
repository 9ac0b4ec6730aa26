/** These functions read untrusted JSON replies of services that issue credentials, field by field. */
import type { Urgency } from '../../core/ports/code-host.ts'
import { no, type RefusalKind, type Refused } from '../../core/result.ts'
import { CREDENTIAL_CHARS_MAX, HTTP_PAUSE_MS } from '../../protocol/limits.ts'
import { parseJson } from '../../protocol/parse.ts'
import { printable } from '../../protocol/schema-errors.ts'
import { shortenEnd } from '../../protocol/shorten.ts'
import type { ClientPool, RateLimitRules } from '../http/client-types.ts'
import { retryAfterMs } from '../http/http.ts'
import type { Http, HttpReply } from '../http/http-types.ts'

export type ReplyFields = Readonly<Record<string, unknown>>

const CREDENTIAL = new RegExp(`^[!-~]{1,${CREDENTIAL_CHARS_MAX}}$`)
/** The longest reply that is parsed; real ones have a handful of fields. */
const REPLY_CHARS_MAX = 1024 * 1024
const QUOTE_CHARS_MAX = 300

/** Returns undefined when the text is no JSON object, too long or hostile. */
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

/** Whether the text may stand in a header, and so in the configuration. */
export const isCredential = (text: string | undefined): text is string =>
  text !== undefined && CREDENTIAL.test(text)

/** Makes foreign text safe to quote in a message: printable and of limited length. */
export const quoted = (text: string): string => printable(shortenEnd(text, QUOTE_CHARS_MAX))

/** Returns `unavailable` with the wait that the reply states. */
export function tooManyRequests(service: string, reply: HttpReply, now: number): Refused {
  const waitMs = retryAfterMs(reply.headers['retry-after'], now)
  const when = waitMs === undefined ? 'later' : `in ${Math.ceil(Math.max(waitMs, HTTP_PAUSE_MS) / 1000)} s`
  return no('unavailable', `the rate limit of ${service} is reached; try again ${when}`)
}

export const isTooManyRequests = ({ status, headers }: HttpReply): boolean =>
  status === 429 || (status === 403 && headers['retry-after'] !== undefined)

/** The refusal for a status that no other rule covers. A 5xx is a passing outage; any other status is a failure. */
export function unexpectedStatus(service: string, status: number, advice: string): Refused {
  const kind: RefusalKind = status >= 500 ? 'unavailable' : 'failed'
  return no(kind, `${service} answered with status ${status}; ${status >= 500 ? 'try again later' : advice}`)
}

export type TokenClient = Pick<Http, 'send'>

const TOKEN_REQUESTS_MAX = 4

/**
 * createTokenClient returns the rate-limited client for token requests to one service.
 *
 * Token services count requests per caller, not per account. So all token requests to one origin share a client, and a
 * stated pause applies to all of them.
 *
 * @param service the service's name in messages: `Linear`
 */
export function createTokenClient(clients: ClientPool, service: string, urgency: Urgency): TokenClient {
  const rules: RateLimitRules = {
    name: service,
    resourceOf: () => 'tokens',
    budgets: () => [],
    // Token services report rate limits only in the standard way, which the client knows itself.
    tooManyRequestsMs: () => undefined,
    concurrencyMax: TOKEN_REQUESTS_MAX,
    writeIntervalMs: 0,
  }
  return {
    send: (request) =>
      clients.clientFor(rules, request.url, undefined).send({ ...request, urgency, writes: true }),
  }
}
