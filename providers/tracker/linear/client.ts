/**
 * Asking Linear one question, with one credential.
 *
 * What kind of failure it is, the body says and not the status: a ticket that is not there comes as 200, having asked
 * too often as 400. An answer may have errors and data at once; what is there is used, and what is missing is named.
 */
import type { Urgency } from '../../../core/provider-ports.ts'
import { no, type RefusalKind, type Refused, type Result, yes } from '../../../core/result.ts'
import { parseJson } from '../../../protocol/parse.ts'
import { printable } from '../../../protocol/schema-errors.ts'
import type { RateLimitedClient } from '../../http/client-types.ts'
import type { HttpReply } from '../../http/http.ts'
import { authorizationOf } from './endpoint.ts'
import { at, listAt, textAt } from './fields.ts'
import { isRateLimit, kindsOf } from './rate-limits.ts'

export interface Question {
  readonly document: string
  readonly variables?: object
  readonly urgency: Urgency
  readonly writes?: true
}

export interface Reply {
  readonly data: unknown
  /** What it could not tell, one sentence each. */
  readonly problems: readonly string[]
}

export interface DeskParts {
  readonly courier: RateLimitedClient
  readonly graphqlUrl: string
  readonly credential: string
}

/** A page of tickets has some thousands. */
const KEYS_MAX = 100_000
const MESSAGE_CHARS_MAX = 500
const PROBLEMS_MAX = 10

export class LinearDesk {
  readonly #parts: DeskParts

  constructor(parts: DeskParts) {
    this.#parts = parts
  }

  async ask({ document, variables = {}, urgency, writes }: Question): Promise<Result<Reply>> {
    const { courier, graphqlUrl, credential } = this.#parts
    const reply = await courier.send({
      method: 'POST',
      url: graphqlUrl,
      publicOnly: true,
      headers: {
        accept: 'application/json',
        'content-type': 'application/json; charset=utf-8',
        'user-agent': 'switchyard',
        authorization: authorizationOf(credential),
      },
      body: JSON.stringify({ query: document, variables }),
      urgency,
      // Every question of GraphQL's is a POST, whether it changes something or not.
      writes: writes === true,
    })
    return reply.ok ? read(reply.value, credential) : reply
  }
}

// ---- reading ---------------------------------------------------------------------------------------------------------

function read(reply: HttpReply, credential: string): Result<Reply> {
  const parsed = parseJson(reply.text, KEYS_MAX)
  const body = parsed.ok ? parsed.value : undefined
  const data = at(body, 'data')
  const errors = listAt(body, 'errors')
  const first = errors[0]
  if (first === undefined)
    return hasData(data) && isFine(reply) ? yes({ data, problems: [] }) : byStatus(reply)
  const lasting = errors.find((error) => isRateLimit(error) || isAuthentication(error))
  if (lasting !== undefined) return byError(lasting, credential)
  if (!hasData(data)) return byError(first, credential)
  const problems = errors.slice(0, PROBLEMS_MAX).map((error) => `Linear says: ${sentence(error, credential)}`)
  return yes({ data, problems: [...new Set(problems)] })
}

const isFine = ({ status }: HttpReply): boolean => status >= 200 && status < 300

function hasData(data: unknown): boolean {
  return typeof data === 'object' && data !== null && Object.values(data).some((one) => one !== null)
}

// ---- refusals --------------------------------------------------------------------------------------------------------

const AUTHENTICATION = ['authentication_error', 'authentication error']

const isAuthentication = (error: unknown): boolean =>
  kindsOf(error).some((kind) => AUTHENTICATION.includes(kind))

const KINDS: Readonly<Record<string, RefusalKind>> = {
  forbidden: 'forbidden',
  'feature not accessible': 'forbidden',
  'usage limit exceeded': 'forbidden',
  'invalid input': 'invalid',
  input_error: 'invalid',
  'user error': 'invalid',
  'graphql error': 'invalid',
  graphql_validation_failed: 'invalid',
  'lock timeout': 'unavailable',
  'network error': 'unavailable',
}

function byError(error: unknown, credential: string): Refused {
  if (isAuthentication(error)) return unauthorized()
  const said = sentence(error, credential)
  if (isRateLimit(error))
    return no('unavailable', `Linear wants fewer requests just now: ${said}; try again later`)
  if (/^entity not found/i.test(textAt(error, 'message') ?? '')) return no('unknown', `Linear says: ${said}`)
  const known = kindsOf(error).find((kind) => Object.hasOwn(KINDS, kind))
  const kind = known === undefined ? undefined : KINDS[known]
  return no(kind ?? 'failed', `Linear says: ${said}`)
}

function byStatus({ status }: HttpReply): Refused {
  if (status === 401) return unauthorized()
  if (status === 403)
    return no('forbidden', 'Linear does not allow this; give the account access, or use another one')
  if (status === 429) return no('unavailable', 'Linear wants fewer requests just now; try again later')
  if (status >= 500) return no('unavailable', `Linear is out of order (${status}); try again later`)
  return no(
    'failed',
    `Linear answered ${status}, and not as Linear does; see tracker.apiUrl and the way there`,
  )
}

function unauthorized(): Refused {
  return no('unauthorized', 'Linear refused the credential; connect Linear again, or set tracker.apiKey')
}

/** Linear's own words for people, where it has some. A credential that it repeats is struck out. */
function sentence(error: unknown, credential: string): string {
  const said = textAt(error, 'extensions', 'userPresentableMessage') ?? textAt(error, 'message') ?? ''
  const short = printable(said.replaceAll(credential, '***')).slice(0, MESSAGE_CHARS_MAX).trim()
  return short.replace(/\.$/, '') || 'no reason given'
}
