/** The addresses of github.com and of Enterprise Servers, from the configured one. */
import { no, type Result, yes } from '../../core/result.ts'
import { GITHUB_API } from '../../protocol/drivers.ts'

export interface GithubAddress {
  /** Without a trailing slash. */
  readonly api: string
  readonly graphql: string
  /** Address of web pages and git repositories. */
  readonly site: string
}

const GITHUB_SITE = 'https://github.com'
const LOOPBACK = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/
/** Enterprise Server has REST at `/api/v3` and GraphQL at `/api/graphql`. */
const ENTERPRISE_API_PATH = /\/api\/v3$/

/**
 * Derives the addresses of github.com or of an Enterprise Server from the configured API address. The token goes to
 * this address, so plain http is allowed for this machine only.
 *
 * @param field the configuration field that holds the address
 */
export function parseGithubAddress(apiUrl = GITHUB_API, field = 'codehost.apiUrl'): Result<GithubAddress> {
  const api = apiUrl.replace(/\/+$/, '')
  if (!URL.canParse(api)) return no('invalid', `${field} is not a URL; correct it`)
  const { protocol, hostname, username, password, search, hash } = new URL(api)
  if (username !== '' || password !== '') {
    const credential = field.replace(/apiUrl$/, field.startsWith('tracker') ? 'apiKey' : 'token')
    return no('invalid', `${field} must not hold a user or a password; use ${credential}`)
  }
  if (search !== '' || hash !== '') return no('invalid', `${field} must end with a path; leave out ? and #`)
  const isSafe = protocol === 'https:' || (protocol === 'http:' && LOOPBACK.test(hostname))
  if (!isSafe) return no('invalid', `${field} must begin with https://, because the token is sent there`)
  return yes({ api, graphql: graphqlUrl(api), site: siteUrl(api) })
}

function graphqlUrl(api: string): string {
  return ENTERPRISE_API_PATH.test(api) ? api.replace(ENTERPRISE_API_PATH, '/api/graphql') : `${api}/graphql`
}

/** github.com and its data residency hosts have the API at `api.` before the site's host name. */
function siteUrl(api: string): string {
  if (api === GITHUB_API) return GITHUB_SITE
  const { origin, pathname } = new URL(api)
  return pathname === '/' ? origin.replace(/^https:\/\/api\./, 'https://') : origin
}
