/**
 * OAuth endpoints: consent, token exchange, refresh, revocation.
 *
 * They follow RFC 6749 and Linear's known deviations: a code with a PKCE challenge needs no secret, and neither do its
 * refreshes. Each refresh token works once.
 */
import {
  type AppOptions,
  type Consent,
  isVerified,
  type LinearAccounts,
  type LinearTokenPair,
} from './accounts.ts'
import type { UserRow } from './rows.ts'

export interface OauthAnswer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

export interface TokenRequest {
  readonly form: ReadonlyMap<string, string>
  readonly authorization: string | undefined
  readonly now: number
  /** The pair is issued, but the reply omits the refresh token. */
  readonly keepsToken: boolean
}

export interface TokenAnswer extends OauthAnswer {
  /** The issued pair. */
  readonly pair?: LinearTokenPair
}

type ConsentDecision = 'approve' | 'refuse' | undefined

const SCOPES = ['read', 'write', 'issues:create', 'comments:create', 'timeSchedule:write', 'admin']

// ---- consent --------------------------------------------------------------------------------------------------------

/** Errors of the address itself are shown to the person; others are sent to the application. */
export function authorize(
  accounts: LinearAccounts,
  url: URL,
  user: UserRow,
  decision: ConsentDecision,
): OauthAnswer {
  const asked = (name: string) => url.searchParams.get(name) ?? undefined
  const app = accounts.app(asked('client_id') ?? '')
  if (app === undefined) return page(400, 'Unknown client_id')
  const redirectUri = asked('redirect_uri') ?? ''
  if (!app.redirectUris.includes(redirectUri))
    return page(400, 'Invalid redirect_uri parameter for the application')
  const back = (answer: Record<string, string>) =>
    redirect(redirectUri, { ...answer, ...stateOf(asked('state')) })
  const scopes = ['read', ...(asked('scope') ?? '').split(',').filter((scope) => scope !== '')]
  if (asked('response_type') !== 'code') return back({ error: 'unsupported_response_type' })
  if (scopes.some((scope) => !SCOPES.includes(scope))) return back({ error: 'invalid_scope' })
  if (decision === undefined) return consentPage(app, url)
  if (decision === 'refuse') return back({ error: 'access_denied' })
  const challenge = challengeOf(asked('code_challenge'), asked('code_challenge_method'))
  const consent = { app, user, scopes: [...new Set(scopes)], isPkce: challenge !== undefined }
  return back({ code: accounts.issueCode({ ...consent, redirectUri, challenge }) })
}

function challengeOf(text: string | undefined, method = 'plain') {
  return text === undefined ? undefined : { text, method }
}

function stateOf(state: string | undefined): Record<string, string> {
  return state === undefined ? {} : { state }
}

function redirect(to: string, answer: Readonly<Record<string, string>>): OauthAnswer {
  const url = new URL(to)
  for (const [name, value] of Object.entries(answer)) url.searchParams.set(name, value)
  return { status: 302, headers: { location: url.href }, body: '' }
}

function consentPage({ clientId }: AppOptions, { search }: URL): OauthAnswer {
  const link = (decision: string) =>
    `<a href="/oauth/authorize${escaped(search)}&amp;${decision}=1">${decision}</a>`
  return page(200, `${escaped(clientId)} asks for access: ${link('approve')} ${link('refuse')}`)
}

function page(status: number, inside: string): OauthAnswer {
  return {
    status,
    headers: { 'content-type': 'text/html; charset=utf-8' },
    body: `<!doctype html><p>${inside}</p>`,
  }
}

function escaped(text: string): string {
  return text.replace(/[&<>"]/g, (char) => `&#${char.charCodeAt(0)};`)
}

// ---- tokens ---------------------------------------------------------------------------------------------------------

export function tokenAnswer(accounts: LinearAccounts, request: TokenRequest): TokenAnswer {
  const { form } = request
  const client = clientOf(accounts, request)
  if ('status' in client) return client
  switch (form.get('grant_type')) {
    case 'authorization_code':
      return exchanged(accounts, request, client)
    case 'refresh_token':
      return refreshed(accounts, request, client)
    case undefined:
      return failure(400, 'invalid_request', 'grant_type is required')
    case 'client_credentials':
      return failure(400, 'Error', 'Client does not support the client_credentials grant type')
    default:
      return failure(400, 'unsupported_grant_type', 'Unsupported grant type')
  }
}

interface Client {
  readonly app: AppOptions
  /** The client has sent its secret. */
  readonly isProven: boolean
}

/** Reads client id and secret from the form or the Basic header; a sent secret must be correct even if optional. */
function clientOf(accounts: LinearAccounts, { form, authorization }: TokenRequest): Client | TokenAnswer {
  const [basicId, basicSecret] = basicOf(authorization)
  const id = basicId ?? form.get('client_id')
  const secret = basicSecret ?? form.get('client_secret')
  if (id === undefined) return failure(400, 'invalid_request', 'client_id is required')
  const app = accounts.app(id)
  if (app === undefined || (secret !== undefined && secret !== app.clientSecret))
    return failure(401, 'invalid_client', 'Client is invalid')
  return { app, isProven: secret !== undefined }
}

function basicOf(authorization = ''): readonly (string | undefined)[] {
  const encoded = /^Basic (.+)$/i.exec(authorization)?.[1]
  if (encoded === undefined) return []
  const [id = '', ...rest] = Buffer.from(encoded, 'base64').toString().split(':')
  return [id, rest.join(':')].map((part) => decodeURIComponent(part))
}

function exchanged(accounts: LinearAccounts, request: TokenRequest, client: Client): TokenAnswer {
  const { form } = request
  const code = accounts.consumeCode(form.get('code') ?? '')
  if (code === undefined || code.app !== client.app)
    return failure(400, 'invalid_grant', 'Code is invalid or expired')
  if (code.redirectUri !== form.get('redirect_uri'))
    return failure(400, 'invalid_grant', 'redirect_uri does not match')
  if (!isVerified(code.challenge, form.get('code_verifier')))
    return failure(400, 'invalid_grant', 'code_verifier does not match')
  if (!mayGoOn(code, client)) return failure(401, 'invalid_client', 'client_secret is required')
  return granted(accounts.grant(code), code, request)
}

function refreshed(accounts: LinearAccounts, request: TokenRequest, client: Client): TokenAnswer {
  const token = request.form.get('refresh_token') ?? ''
  const consent = accounts.consentOf(token)
  if (consent === undefined || consent.app !== client.app)
    return failure(400, 'invalid_grant', 'Refresh token is invalid')
  if (!mayGoOn(consent, client)) return failure(401, 'invalid_client', 'client_secret is required')
  const pair = accounts.refresh(token, request.keepsToken)
  return pair ? granted(pair, consent, request) : failure(400, 'invalid_grant', 'Refresh token is invalid')
}

function mayGoOn({ isPkce }: Consent, { isProven }: Client): boolean {
  return isPkce || isProven
}

function granted(pair: LinearTokenPair, { scopes }: Consent, { now, keepsToken }: TokenRequest): TokenAnswer {
  const body = {
    access_token: pair.accessToken,
    token_type: 'Bearer',
    // One second less than the lifetime, as in Linear.
    expires_in: Math.max(1, Math.floor((pair.expiresAt - now - 1) / 1000)),
    scope: scopes.join(' '),
    ...(keepsToken ? {} : { refresh_token: pair.refreshToken }),
  }
  return { ...json(200, body), pair }
}

export function revokeAnswer(
  accounts: LinearAccounts,
  form: ReadonlyMap<string, string>,
  authorization = '',
): OauthAnswer {
  const bearer = /^Bearer (.+)$/i.exec(authorization)?.[1]
  const token = form.get('token') ?? form.get('access_token') ?? form.get('refresh_token') ?? bearer
  if (token === undefined) return failure(401, 'invalid_request', 'Unable to authenticate')
  if (!accounts.revoke(token)) return failure(400, 'invalid_request', 'Unable to revoke the token')
  return json(200, {})
}

export function failure(status: number, error: string, description: string): OauthAnswer {
  return json(status, { error, error_description: description })
}

export function json(status: number, body: object): OauthAnswer {
  const headers = { 'content-type': 'application/json; charset=utf-8', 'cache-control': 'no-store' }
  return { status, headers, body: JSON.stringify(body) }
}
