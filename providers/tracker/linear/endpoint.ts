/**
 * Where Linear is, and how it is told who asks.
 *
 * A credential goes there, so the way is encrypted or does not leave this machine.
 */
import { no, type Result, yes } from '../../../core/result.ts'

export interface LinearEndpoint {
  readonly origin: string
  readonly graphqlUrl: string
  readonly authorizeUrl: string
  readonly tokenUrl: string
}

const API = 'https://api.linear.app'
/** People consent at another address than programs ask at. */
const SITE = 'https://linear.app'
const LOOPBACK = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/

/** `apiUrl` is a base, or the address of its GraphQL itself. */
export function parseLinearEndpoint(apiUrl: string = API): Result<LinearEndpoint> {
  if (!URL.canParse(apiUrl)) return no('invalid', 'tracker.apiUrl is no address; correct it')
  const { protocol, hostname, origin, pathname, username, password } = new URL(apiUrl)
  if (username !== '' || password !== '') {
    return no('invalid', 'tracker.apiUrl must not hold a user or a password; use tracker.apiKey')
  }
  if (protocol !== 'https:' && !(protocol === 'http:' && LOOPBACK.test(hostname))) {
    return no('invalid', 'tracker.apiUrl must begin with https://, for a credential goes there')
  }
  const base = origin + pathname.replace(/\/+$/, '').replace(/\/graphql$/, '')
  return yes({
    origin,
    graphqlUrl: `${base}/graphql`,
    authorizeUrl: `${base === API ? SITE : base}/oauth/authorize`,
    tokenUrl: `${base}/oauth/token`,
  })
}

/** A personal key stands by itself; all else is a token of an app. */
export function authorizationHeader(credential: string): string {
  return credential.startsWith('lin_api_') ? credential : `Bearer ${credential}`
}
