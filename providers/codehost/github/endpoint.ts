/**
 * Where a GitHub is: the cloud, or a server of one's own.
 *
 * One address is configured, that of its API; where its GraphQL and its pages are follows from it. A token goes there,
 * so over plain http it may only be this machine.
 */
import { no, type Result, yes } from '../../../core/result.ts'

export interface GithubAddress {
  /** Without a slash at its end. */
  readonly api: string
  readonly graphql: string
  /** Where people and git go. */
  readonly site: string
}

export const GITHUB_API = 'https://api.github.com'
const GITHUB_SITE = 'https://github.com'
const LOOPBACK = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/
/** How a server of one's own keeps its two APIs apart. */
const ENTERPRISE_API_PATH = /\/api\/v3$/

/** `field`: the one of the configuration that has the address. */
export function parseGithubAddress(apiUrl = GITHUB_API, field = 'codehost.apiUrl'): Result<GithubAddress> {
  const api = apiUrl.replace(/\/+$/, '')
  if (!URL.canParse(api)) return no('invalid', `${field} is no address; correct it`)
  const { protocol, hostname, username, password, search, hash } = new URL(api)
  if (username !== '' || password !== '') {
    const credential = field.replace(/apiUrl$/, field.startsWith('tracker') ? 'apiKey' : 'token')
    return no('invalid', `${field} must not hold a user or a password; use ${credential}`)
  }
  if (search !== '' || hash !== '') return no('invalid', `${field} must end with a path; leave out ? and #`)
  const isSafe = protocol === 'https:' || (protocol === 'http:' && LOOPBACK.test(hostname))
  if (!isSafe) return no('invalid', `${field} must begin with https://, for a token goes there`)
  return yes({ api, graphql: graphqlUrl(api), site: siteUrl(api) })
}

function graphqlUrl(api: string): string {
  return ENTERPRISE_API_PATH.test(api) ? api.replace(ENTERPRISE_API_PATH, '/api/graphql') : `${api}/graphql`
}

/** The cloud, and a company's part of it, have their API on a host of its own: `api.` before the site's. */
function siteUrl(api: string): string {
  if (api === GITHUB_API) return GITHUB_SITE
  const { origin, pathname } = new URL(api)
  return pathname === '/' ? origin.replace(/^https:\/\/api\./, 'https://') : origin
}
