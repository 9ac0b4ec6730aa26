/**
 * Derives Linear's addresses and the authorization header.
 *
 * The credential goes to these addresses, so plain http is allowed for this machine only.
 */
import { no, type Result, yes } from '../../../core/result.ts'
import { LINEAR_API } from '../../../protocol/drivers.ts'

export interface LinearEndpoint {
  readonly origin: string
  readonly graphqlUrl: string
  readonly authorizeUrl: string
  readonly tokenUrl: string
}

/** People consent at another host than programs use. */
const SITE = 'https://linear.app'
const LOOPBACK = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/

/** `apiUrl` is a base address or the address of GraphQL itself. */
export function parseLinearEndpoint(apiUrl: string = LINEAR_API): Result<LinearEndpoint> {
  if (!URL.canParse(apiUrl)) return no('invalid', 'tracker.apiUrl is not a URL; correct it')
  const { protocol, hostname, origin, pathname, username, password } = new URL(apiUrl)
  if (username !== '' || password !== '') {
    return no('invalid', 'tracker.apiUrl must not hold a user or a password; use tracker.apiKey')
  }
  if (protocol !== 'https:' && !(protocol === 'http:' && LOOPBACK.test(hostname))) {
    return no('invalid', 'tracker.apiUrl must begin with https://, because the credential is sent there')
  }
  const base = origin + pathname.replace(/\/+$/, '').replace(/\/graphql$/, '')
  return yes({
    origin,
    graphqlUrl: `${base}/graphql`,
    authorizeUrl: `${base === LINEAR_API ? SITE : base}/oauth/authorize`,
    tokenUrl: `${base}/oauth/token`,
  })
}

/** Personal API keys stand alone; OAuth tokens need `Bearer`. */
export function authorizationHeader(credential: string): string {
  return credential.startsWith('lin_api_') ? credential : `Bearer ${credential}`
}
