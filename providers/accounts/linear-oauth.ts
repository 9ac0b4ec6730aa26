/**
 * Linear's OAuth with the person's own client id: the consent address, the code exchange and the token refresh.
 *
 * Every request is sent once. A code works for one exchange, and a refresh token is invalid once its successor exists.
 * A lost reply may have used it up, so retrying is left to the caller, who knows what is on disk. Messages from Linear
 * are returned without the secrets that were sent.
 */
import { createHash } from 'node:crypto'
import type { RedirectAuthorization, TokenPair } from '../../core/ports/accounts.ts'
import type { Clock, RandomSource } from '../../core/ports/clock.ts'
import { redactSecrets } from '../../core/redact-secrets.ts'
import { no, type Refused, type Result, yes } from '../../core/result.ts'
import type { ServiceConfig } from '../../protocol/config.ts'
import { CREDENTIAL_CHARS_MAX, NAME_CHARS_MAX } from '../../protocol/limits.ts'
import { parseJson } from '../../protocol/parse.ts'
import { printable } from '../../protocol/schema-errors.ts'
import type { RateLimitedClient } from '../http/client-types.ts'
import { retryAfterMs } from '../http/http.ts'
import type { HttpReply } from '../http/http-types.ts'
import { readField, readText } from '../http/reply-fields.ts'
import { tokenFormRequest } from '../http/token-form.ts'
import { LinearClient } from '../tracker/linear/client.ts'
import { parseLinearEndpoint } from '../tracker/linear/rate-limits.ts'
import type { TokenClient } from './reply-fields.ts'

export interface LinearCodeExchange {
  readonly code: string
  readonly port: number
  /** The PKCE verifier; absent when the client secret identifies the service. */
  readonly verifier?: string | undefined
}

/** `read` for issues; `write` for moving them and attaching links. */
const SCOPE = 'read,write'
/** 256 bits, which are 43 characters of base64url, the minimum of PKCE. */
const VERIFIER_BYTES = 32
const MESSAGE_CHARS_MAX = 300
/** The longest accepted lifetime of a token. */
const EXPIRY_SECONDS_MAX = 10 * 365 * 86_400
/** The characters that may stand in a header, as in the configuration schema. */
const HEADER_SAFE = /^[!-~]+$/
const VIEWER_QUERY = 'query Viewer { viewer { id name displayName } organization { id name urlKey } }'

export function authorizeLinear(
  config: ServiceConfig,
  { state, port }: { readonly state: string; readonly port: number },
  random: Pick<RandomSource, 'bytes'>,
): Result<RedirectAuthorization> {
  const client = readOauthClient(config)
  if (!client.ok) return client
  const verifier = Buffer.from(random.bytes(VERIFIER_BYTES)).toString('base64url')
  const query = new URLSearchParams({
    client_id: client.value.id,
    redirect_uri: redirectUri(port),
    response_type: 'code',
    scope: SCOPE,
    state,
    code_challenge: createHash('sha256').update(verifier).digest('base64url'),
    code_challenge_method: 'S256',
  })
  return yes({ url: `${client.value.authorizeUrl}?${query}`, verifier })
}

export async function exchangeLinear(
  http: TokenClient,
  clock: Pick<Clock, 'now'>,
  config: ServiceConfig,
  { code, port, verifier }: LinearCodeExchange,
): Promise<Result<TokenPair>> {
  const fields = { grant_type: 'authorization_code', code, redirect_uri: redirectUri(port) }
  const form = verifier === undefined ? fields : { ...fields, code_verifier: verifier }
  return requestTokens(http, clock, config, form, 'the code of this consent')
}

/** Refused as `unauthorized` only when the refresh token is dead for good. */
export async function refreshLinear(
  http: TokenClient,
  clock: Pick<Clock, 'now'>,
  config: ServiceConfig,
  refreshToken: string,
): Promise<Result<TokenPair>> {
  const form = { grant_type: 'refresh_token', refresh_token: refreshToken }
  return requestTokens(http, clock, config, form, 'the authorization that was given once')
}

/** Returns the owner of the credential for display: `Ada in Acme`. */
export async function checkLinear(client: RateLimitedClient, config: ServiceConfig): Promise<Result<string>> {
  const { apiKey, apiUrl } = config.tracker
  if (apiKey === undefined || apiKey === '') {
    return no('invalid', 'there is no credential for Linear; connect Linear, or set tracker.apiKey')
  }
  const endpoint = parseLinearEndpoint(apiUrl)
  if (!endpoint.ok) return endpoint
  const api = new LinearClient({
    httpClient: client,
    graphqlUrl: endpoint.value.graphqlUrl,
    credential: apiKey,
  })
  const reply = await api.send({ document: VIEWER_QUERY, urgency: 'person' })
  if (!reply.ok) return reply
  const person =
    readText(reply.value.data, 'viewer', 'name') ?? readText(reply.value.data, 'viewer', 'displayName')
  const workspace = readText(reply.value.data, 'organization', 'name')
  if (person === undefined)
    return no('failed', 'Linear does not say whose credential this is; see tracker.apiUrl')
  const detail = workspace === undefined ? person : `${person} in ${workspace}`
  return yes(printable(detail).slice(0, NAME_CHARS_MAX))
}

// ---- token requests --------------------------------------------------------------------------------------------------

interface OauthClient {
  readonly id: string
  readonly secret?: string
  readonly authorizeUrl: string
  readonly tokenUrl: string
}

type FormFields = Readonly<Record<string, string>>

function readOauthClient({ connect, tracker }: ServiceConfig): Result<OauthClient> {
  const { trackerClientId: id, trackerClientSecret: secret } = connect
  if (id === undefined || id === '') {
    return no('invalid', 'connect.trackerClientId is not set; set it, or give an API key of Linear by hand')
  }
  const endpoint = parseLinearEndpoint(tracker.apiUrl)
  if (!endpoint.ok) return endpoint
  const { authorizeUrl, tokenUrl } = endpoint.value
  return yes({ id, authorizeUrl, tokenUrl, ...(secret === undefined || secret === '' ? {} : { secret }) })
}

/** Must equal the address registered with Linear, character by character. */
const redirectUri = (port: number): string => `http://localhost:${port}/api/connect/tracker/callback`

async function requestTokens(
  http: TokenClient,
  clock: Pick<Clock, 'now'>,
  config: ServiceConfig,
  grantFields: FormFields,
  grant: string,
): Promise<Result<TokenPair>> {
  const client = readOauthClient(config)
  if (!client.ok) return client
  const { id, secret, tokenUrl } = client.value
  const form: FormFields = {
    ...grantFields,
    client_id: id,
    ...(secret === undefined ? {} : { client_secret: secret }),
  }
  // The lifetime counts from before the request, so the computed expiry is never too late.
  const requestedAt = clock.now()
  const reply = await http.send({ ...tokenFormRequest(tokenUrl, form), publicOnly: true })
  if (!reply.ok) return reply
  if (reply.value.status !== 200) return refusalFor(reply.value, form, grant, clock.now())
  return readTokenPair(reply.value, requestedAt)
}

function readTokenPair({ text }: HttpReply, requestedAt: number): Result<TokenPair> {
  const parsed = parseJson(text)
  const body = parsed.ok ? parsed.value : undefined
  const [accessToken, refreshToken] = [tokenAt(body, 'access_token'), tokenAt(body, 'refresh_token')]
  if (accessToken === undefined) return unexpectedReply()
  const seconds = readField(body, 'expires_in')
  const expiresAt =
    typeof seconds === 'number' && seconds >= 0
      ? new Date(requestedAt + Math.floor(Math.min(seconds, EXPIRY_SECONDS_MAX)) * 1000).toISOString()
      : undefined
  return yes({
    accessToken,
    ...(refreshToken === undefined ? {} : { refreshToken }),
    ...(expiresAt === undefined ? {} : { expiresAt }),
  })
}

function tokenAt(body: unknown, name: string): string | undefined {
  const token = readText(body, name)
  return token !== undefined && token.length <= CREDENTIAL_CHARS_MAX && HEADER_SAFE.test(token)
    ? token
    : undefined
}

// ---- refusals --------------------------------------------------------------------------------------------------------

const unexpectedReply = (): Refused =>
  no('failed', 'Linear returned no token; check tracker.apiUrl, and try again')

function refusalFor(reply: HttpReply, form: FormFields, grant: string, now: number): Refused {
  const { status, headers } = reply
  const parsed = parseJson(reply.text)
  const error = parsed.ok ? readText(parsed.value, 'error') : undefined
  if (status === 429) return rateLimitRefusal(retryAfterMs(headers['retry-after'], now))
  if (error === 'invalid_grant') {
    return no('unauthorized', `Linear no longer accepts ${grant}; connect Linear again`)
  }
  const isClientError = error === 'invalid_client' || error === 'unauthorized_client' || status === 401
  if (isClientError && status < 500) return clientRefusal(form)
  if (status >= 500) return no('unavailable', `Linear is unavailable (status ${status}); try again later`)
  if (error === undefined) return unexpectedReply()
  const description = parsed.ok ? readText(parsed.value, 'error_description') : undefined
  return no(
    'failed',
    `Linear returned an error: ${redactForm(`${error}: ${description ?? 'no reason given'}`, form)}`,
  )
}

function rateLimitRefusal(waitMs: number | undefined): Refused {
  const when = waitMs === undefined ? 'later' : `in ${Math.ceil(waitMs / 1000)} s`
  return no('unavailable', `the rate limit of Linear is reached; try again ${when}`)
}

function clientRefusal(form: FormFields): Refused {
  const settings =
    form.client_secret === undefined
      ? 'correct connect.trackerClientId, or set connect.trackerClientSecret'
      : 'correct connect.trackerClientId and connect.trackerClientSecret'
  return no('failed', `Linear does not know this service by its client id; ${settings}`)
}

const PUBLIC_FIELDS = new Set(['grant_type', 'redirect_uri', 'client_id'])

/** Redacts the sent secrets, which an error description may repeat. */
function redactForm(text: string, form: FormFields): string {
  const secrets = Object.keys(form).filter((name) => !PUBLIC_FIELDS.has(name))
  return printable(
    redactSecrets(
      text,
      secrets.map((name) => form[name]),
    ),
  ).slice(0, MESSAGE_CHARS_MAX)
}
