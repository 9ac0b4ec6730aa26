/**
 * Sends one GraphQL request to Linear with one credential.
 *
 * The body tells the kind of failure, not the status: a missing ticket arrives with 200, a rate limit with 400. A reply
 * may hold data and errors; the data is used and the errors are reported.
 */
import type { Urgency } from '../../../core/ports/code-host.ts'
import { no, type RefusalKind, type Refused, type Result, yes } from '../../../core/result.ts'
import { parseJson } from '../../../protocol/parse.ts'
import { printable } from '../../../protocol/schema-errors.ts'
import type { RateLimitedClient } from '../../http/client-types.ts'
import type { HttpReply } from '../../http/http-types.ts'
import { readField, readList, readText } from '../../http/reply-fields.ts'
import { authorizationHeader, errorKinds, isRateLimitError } from './rate-limits.ts'

export interface LinearRequest {
  readonly document: string
  readonly variables?: object
  readonly urgency: Urgency
  readonly writes?: true
}

export interface LinearReply {
  readonly data: unknown
  /** Parts that Linear could not answer, one sentence each. */
  readonly problems: readonly string[]
}

export interface LinearClientOptions {
  readonly httpClient: RateLimitedClient
  readonly graphqlUrl: string
  readonly credential: string
}

/** A page of tickets has some thousand keys. */
const JSON_KEYS_MAX = 100_000
const MESSAGE_CHARS_MAX = 500
const PROBLEMS_MAX = 10

export class LinearClient {
  readonly #options: LinearClientOptions

  constructor(options: LinearClientOptions) {
    this.#options = options
  }

  async send({ document, variables = {}, urgency, writes }: LinearRequest): Promise<Result<LinearReply>> {
    const { httpClient, graphqlUrl, credential } = this.#options
    const reply = await httpClient.send({
      method: 'POST',
      url: graphqlUrl,
      publicOnly: true,
      headers: {
        accept: 'application/json',
        'content-type': 'application/json; charset=utf-8',
        'user-agent': 'switchyard',
        authorization: authorizationHeader(credential),
      },
      body: JSON.stringify({ query: document, variables }),
      urgency,
      // GraphQL uses POST for queries too, so the method does not tell whether it writes.
      writes: writes === true,
    })
    return reply.ok ? parseReply(reply.value, credential) : reply
  }
}

// ---- reading --------------------------------------------------------------------------------------------------------

function parseReply(reply: HttpReply, credential: string): Result<LinearReply> {
  const parsed = parseJson(reply.text, JSON_KEYS_MAX)
  const body = parsed.ok ? parsed.value : undefined
  const data = readField(body, 'data')
  const errors = readList(body, 'errors')
  const first = errors[0]
  if (first === undefined)
    return hasData(data) && isSuccess(reply) ? yes({ data, problems: [] }) : refusalFromStatus(reply)
  const decisive = errors.find((error) => isRateLimitError(error) || isAuthenticationError(error))
  if (decisive !== undefined) return refusalFromError(decisive, credential)
  if (!hasData(data)) return refusalFromError(first, credential)
  const problems = errors
    .slice(0, PROBLEMS_MAX)
    .map((error) => `Linear says: ${describeError(error, credential)}`)
  return yes({ data, problems: [...new Set(problems)] })
}

const isSuccess = ({ status }: HttpReply): boolean => status >= 200 && status < 300

function hasData(data: unknown): boolean {
  return typeof data === 'object' && data !== null && Object.values(data).some((field) => field !== null)
}

// ---- refusals -------------------------------------------------------------------------------------------------------

const AUTHENTICATION_KINDS = ['authentication_error', 'authentication error']

const isAuthenticationError = (error: unknown): boolean =>
  errorKinds(error).some((kind) => AUTHENTICATION_KINDS.includes(kind))

const REFUSAL_KINDS: Readonly<Record<string, RefusalKind>> = {
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

function refusalFromError(error: unknown, credential: string): Refused {
  if (isAuthenticationError(error)) return refuseCredential()
  const message = describeError(error, credential)
  if (isRateLimitError(error))
    return no('unavailable', `Linear limits requests at the moment: ${message}; try again later`)
  if (/^entity not found/i.test(readText(error, 'message') ?? ''))
    return no('unknown', `Linear says: ${message}`)
  const known = errorKinds(error).find((kind) => Object.hasOwn(REFUSAL_KINDS, kind))
  const kind = known === undefined ? undefined : REFUSAL_KINDS[known]
  return no(kind ?? 'failed', `Linear says: ${message}`)
}

function refusalFromStatus({ status }: HttpReply): Refused {
  if (status === 401) return refuseCredential()
  if (status === 403)
    return no('forbidden', 'Linear does not allow this; give the account access, or use another one')
  if (status === 429) return no('unavailable', 'Linear limits requests at the moment; try again later')
  if (status >= 500) return no('unavailable', `Linear failed (${status}); try again later`)
  return no('failed', `Linear answered ${status} in an unexpected form; check tracker.apiUrl and the network`)
}

function refuseCredential(): Refused {
  return no('unauthorized', 'Linear refused the credential; connect Linear again, or set tracker.apiKey')
}

/** Linear's message for people, if there is one. A repeated credential is redacted. */
function describeError(error: unknown, credential: string): string {
  const message = readText(error, 'extensions', 'userPresentableMessage') ?? readText(error, 'message') ?? ''
  const short = printable(message.replaceAll(credential, '***')).slice(0, MESSAGE_CHARS_MAX).trim()
  return short.replace(/\.$/, '') || 'no reason given'
}
