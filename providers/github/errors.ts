/**
 * Translates GitHub's error replies into refusals.
 *
 * A status may have several meanings: 422 is an invalid field or a pull request in the wrong state. Messages keep
 * GitHub's own words.
 */
import { no, type RefusalKind, type Refused } from '../../core/result.ts'
import { parseJson } from '../../protocol/parse.ts'
import { printable } from '../../protocol/schema-errors.ts'
import type { HttpReply } from '../http/http-types.ts'
import { readField } from '../http/reply-fields.ts'
import { asList } from './fields.ts'

/** Subject of the request, for messages: `pull request 12 of ada/lamps`. */
export type RefusalSubject = string

const MESSAGE_CHARS_MAX = 500
/** GitHub's errors are short; a proxy may answer with a long page. */
const REFUSAL_KEYS_MAX = 1_000
const STATE_CONFLICT_WORDS =
  /already|cannot be changed|own pull request|has been (merged|deleted)|force-pushed|not open|is closed|still a draft/i
const NO_REASON = 'no reason given'

export function toRefusal(reply: HttpReply, subject: RefusalSubject): Refused {
  const { status } = reply
  const message = errorMessage(reply)
  if (status === 401) {
    return no(
      'unauthorized',
      'GitHub refused the token; connect GitHub again, or give it a token that is still good',
    )
  }
  if (isRateLimited(reply))
    return no('unavailable', `GitHub limits requests at the moment: ${message}; try again later`)
  if (status === 403)
    return no(
      'forbidden',
      `GitHub does not allow this for ${subject}: ${message}${describeMissingPermissions(reply)}`,
    )
  if (status === 404) {
    return no(
      'unknown',
      `GitHub has no ${subject}, or the token may not see it; give it access if it is there`,
    )
  }
  if (status === 410) return no('gone', `GitHub no longer has ${subject}: ${message}`)
  if (status >= 500) return no('unavailable', `GitHub failed (${status}) for ${subject}; try again later`)
  return no(refusalKind(status, message), `GitHub says of ${subject}: ${message}`)
}

function refusalKind(status: number, message: string): RefusalKind {
  if (status === 405 || status === 409) return 'conflict'
  return status === 422 && STATE_CONFLICT_WORDS.test(message) ? 'conflict' : 'invalid'
}

export function isRateLimited({ status, headers, text }: HttpReply): boolean {
  if (status === 429) return true
  if (status !== 403) return false
  const asked = headers['retry-after'] !== undefined || headers['x-ratelimit-remaining'] === '0'
  return asked || /secondary rate limit|abuse detection/i.test(text.slice(0, MESSAGE_CHARS_MAX))
}

/** GitHub names the permissions that a fine-grained token lacks. */
function describeMissingPermissions({ headers }: HttpReply): string {
  const wanted = headers['x-accepted-github-permissions']
  return wanted === undefined || wanted === ''
    ? ''
    : `; the token needs ${printable(wanted).slice(0, MESSAGE_CHARS_MAX)}`
}

/** GitHub's message, with the details of each error. */
export function errorMessage({ text }: HttpReply): string {
  const parsed = parseJson(text, REFUSAL_KEYS_MAX)
  if (!parsed.ok) return NO_REASON
  const message = readField(parsed.value, 'message')
  const details = asList(readField(parsed.value, 'errors')).map(errorDetail)
  const words = [message, ...details].filter(
    (text): text is string => typeof text === 'string' && text !== '',
  )
  return printable([...new Set(words)].join(': ')).slice(0, MESSAGE_CHARS_MAX) || NO_REASON
}

function errorDetail(error: unknown): unknown {
  if (typeof error === 'string') return error
  const [message, field, code] = ['message', 'field', 'code'].map((name) => readField(error, name))
  if (typeof message === 'string') return message
  return typeof field === 'string' && typeof code === 'string' ? `${field} ${code}` : undefined
}

// ---- GraphQL -------------------------------------------------------------------------------------------------------

const GRAPHQL_KINDS: Readonly<Record<string, RefusalKind>> = {
  NOT_FOUND: 'unknown',
  FORBIDDEN: 'forbidden',
  INSUFFICIENT_SCOPES: 'forbidden',
  UNAUTHENTICATED: 'unauthorized',
  RATE_LIMITED: 'unavailable',
  RATE_LIMIT: 'unavailable',
  SERVICE_UNAVAILABLE: 'unavailable',
  UNPROCESSABLE: 'conflict',
}

/** GraphQL errors have status 200. Undefined: the reply holds no error. */
export function toGraphqlRefusal(body: unknown, subject: RefusalSubject): Refused | undefined {
  const [first] = asList(readField(body, 'errors'))
  if (first === undefined) return undefined
  const [type, message] = ['type', 'message'].map((name) => readField(first, name))
  const kind =
    typeof type === 'string' && Object.hasOwn(GRAPHQL_KINDS, type) ? GRAPHQL_KINDS[type] : undefined
  if (kind === 'unknown') return no(kind, `GitHub has no ${subject}, or the token may not see it`)
  const reason = typeof message === 'string' ? printable(message).slice(0, MESSAGE_CHARS_MAX) : NO_REASON
  return no(kind ?? 'failed', `GitHub says of ${subject}: ${reason}`)
}

export function unexpectedReply(subject: RefusalSubject): Refused {
  return no('failed', `GitHub's reply about ${subject} has an unexpected form; try again later`)
}
