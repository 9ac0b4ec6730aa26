/**
 * Who may ask: personal keys, applications, and what people have granted them.
 *
 * A grant is one person's consent to one application. Its refresh token is good once; the access tokens it has given
 * out stay good until they run out. Revoking any of them ends the grant.
 */
import { createHash, randomBytes } from 'node:crypto'
import type { UserRow } from './rows.ts'

export interface AppOptions {
  readonly clientId: string
  readonly clientSecret: string
  /** Compared as text, each. */
  readonly redirectUris: readonly string[]
}

export interface Consent {
  readonly app: AppOptions
  readonly user: UserRow
  readonly scopes: readonly string[]
  /** The application need not prove itself by its secret. */
  readonly isPkce: boolean
}

export interface LinearTokenPair {
  readonly accessToken: string
  readonly refreshToken: string
  readonly expiresAt: number
}

/** What a request is allowed, and whose quota it uses. */
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
  /** The refresh token that the current one replaced. */
  retired: { readonly token: string; readonly at: number } | undefined
}

const ACCESS_MS = 86_400_000
const CODE_MS = 600_000

export class LinearAccounts {
  /** How long the next access tokens are good. */
  accessMs = ACCESS_MS
  codeMs = CODE_MS
  /** How long the last retired refresh token is still answered (with the pair that replaced it). */
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

  /** A key as it is, a token as a bearer's; neither the other way. */
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

  /** Whatever comes of it, a code is looked at once. */
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

  /** Whose refresh token this is, also when it was replayed in time. */
  consentOf(refreshToken: string): Consent | undefined {
    return this.#grantOf(refreshToken)
  }

  /** The next pair; the old refresh token is good for nothing any more. */
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

  /** False when it is good for nothing already. */
  revoke(token: string): boolean {
    const grant = this.#grants.find(
      ({ current, accessTokens }) => current.refreshToken === token || accessTokens.has(token),
    )
    this.#grants = this.#grants.filter((other) => other !== grant)
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

/** Whether the verifier is the one that the challenge was made of. */
export function isVerified(challenge: AuthorizationCode['challenge'], verifier: string | undefined): boolean {
  if (challenge === undefined) return true
  if (verifier === undefined) return false
  const text =
    challenge.method === 'S256' ? createHash('sha256').update(verifier).digest('base64url') : verifier
  return text === challenge.text
}
