/**
 * Personal keys, OAuth applications and grants of the fake Linear.
 *
 * A grant is one person's consent to one application. Its refresh token works once; access tokens work until they
 * expire. Revoking any of them ends the grant.
 */
import { createHash, randomBytes } from 'node:crypto'
import type { UserRow } from './rows.ts'

export interface AppOptions {
  readonly clientId: string
  readonly clientSecret: string
  /** Each is compared as text. */
  readonly redirectUris: readonly string[]
}

export interface Consent {
  readonly app: AppOptions
  readonly user: UserRow
  readonly scopes: readonly string[]
  /** The application needs no secret. */
  readonly isPkce: boolean
}

export interface LinearTokenPair {
  readonly accessToken: string
  readonly refreshToken: string
  readonly expiresAt: number
}

/** Permissions and rate limit bucket of a request. */
export interface Caller {
  readonly user: UserRow
  readonly scopes: readonly string[]
  readonly bucket: string
  readonly isOauth: boolean
}

export interface AuthorizationCode extends Consent {
  readonly redirectUri: string
  readonly challenge: { readonly text: string; readonly method: string } | undefined
  readonly expiresAt: number
}

interface Grant extends Consent {
  current: LinearTokenPair
  readonly accessTokens: Map<string, number>
  /** The refresh token before the current one. */
  retired: { readonly token: string; readonly at: number } | undefined
}

const ACCESS_MS = 86_400_000
const CODE_MS = 600_000

export class LinearAccounts {
  /** Lifetime of new access tokens. */
  accessMs = ACCESS_MS
  codeMs = CODE_MS
  /** Time during which the previous refresh token still answers the current pair. */
  replayMs = 0
  readonly #now: () => number
  readonly #apps = new Map<string, AppOptions>()
  readonly #keys = new Map<string, UserRow>()
  readonly #codes = new Map<string, AuthorizationCode>()
  #grants: Grant[] = []

  constructor(now: () => number) {
    this.#now = now
  }

  addKey(user: UserRow): string {
    const key = `lin_api_${randomBytes(20).toString('hex')}`
    this.#keys.set(key, user)
    return key
  }

  removeKey(key: string): void {
    this.#keys.delete(key)
  }

  addApp(app: AppOptions): AppOptions {
    this.#apps.set(app.clientId, app)
    return app
  }

  app(clientId: string): AppOptions | undefined {
    return this.#apps.get(clientId)
  }

  /** Accepts a key alone and a token as `Bearer`, but not the other way round. */
  callerOf(authorization: string): Caller | undefined {
    const token = /^Bearer (.+)$/i.exec(authorization)?.[1]
    if (token === undefined) return this.#callerByKey(authorization)
    const grant = this.#grants.find(({ accessTokens }) => (accessTokens.get(token) ?? 0) > this.#now())
    if (grant === undefined) return undefined
    const { user, scopes, app } = grant
    return { user, scopes, bucket: `${app.clientId} ${user.id}`, isOauth: true }
  }

  issueCode(code: Omit<AuthorizationCode, 'expiresAt'>): string {
    const text = randomBytes(16).toString('hex')
    this.#codes.set(text, { ...code, expiresAt: this.#now() + this.codeMs })
    return text
  }

  /** A code is consumed even when the request fails. */
  consumeCode(text: string): AuthorizationCode | undefined {
    const code = this.#codes.get(text)
    this.#codes.delete(text)
    return code && code.expiresAt > this.#now() ? code : undefined
  }

  grant(consent: Consent): LinearTokenPair {
    const current = this.#pair()
    const accessTokens = new Map([[current.accessToken, current.expiresAt]])
    this.#grants.push({ ...consent, current, accessTokens, retired: undefined })
    return current
  }

  /** Owner of a refresh token, also of a recent previous one. */
  consentOf(refreshToken: string): Consent | undefined {
    return this.#grantOf(refreshToken)
  }

  /** Issues the next pair and retires the old refresh token. */
  refresh(refreshToken: string, keepsToken = false): LinearTokenPair | undefined {
    const grant = this.#grantOf(refreshToken)
    if (grant === undefined) return undefined
    if (grant.current.refreshToken !== refreshToken) return grant.current
    const next = this.#pair()
    grant.current = keepsToken ? { ...next, refreshToken } : next
    if (!keepsToken) grant.retired = { token: refreshToken, at: this.#now() }
    grant.accessTokens.set(next.accessToken, next.expiresAt)
    return grant.current
  }

  /** False when the token is already invalid. */
  revoke(token: string): boolean {
    const grant = this.#grants.find(
      ({ current, accessTokens }) => current.refreshToken === token || accessTokens.has(token),
    )
    this.#grants = this.#grants.filter((kept) => kept !== grant)
    return grant !== undefined
  }

  #grantOf(refreshToken: string): Grant | undefined {
    return this.#grants.find(
      ({ current, retired }) =>
        current.refreshToken === refreshToken ||
        (retired?.token === refreshToken && this.#now() < retired.at + this.replayMs),
    )
  }

  #callerByKey(key: string): Caller | undefined {
    const user = this.#keys.get(key)
    return user && { user, scopes: ['read', 'write'], bucket: `key ${user.id}`, isOauth: false }
  }

  #pair(): LinearTokenPair {
    return {
      accessToken: `lin_oauth_${randomBytes(32).toString('hex')}`,
      refreshToken: `lin_refresh_${randomBytes(32).toString('hex')}`,
      expiresAt: this.#now() + this.accessMs,
    }
  }
}

/** Checks the verifier against the PKCE challenge. */
export function isVerified(challenge: AuthorizationCode['challenge'], verifier: string | undefined): boolean {
  if (challenge === undefined) return true
  if (verifier === undefined) return false
  const text =
    challenge.method === 'S256' ? createHash('sha256').update(verifier).digest('base64url') : verifier
  return text === challenge.text
}
