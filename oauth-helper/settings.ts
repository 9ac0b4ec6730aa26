/**
 * readHelperSettings checks the helper's settings: two client ids, one secret, and the addresses of the two services.
 *
 * The operator supplies them. Missing or invalid settings are named before the port is opened; messages never repeat a
 * value.
 */
import { no, type Result, yes } from '../core/result.ts'
import { NAME_CHARS_MAX } from '../protocol/limits.ts'

export const SECRET_NAMES = ['CODEHOST_CLIENT_ID', 'TRACKER_CLIENT_ID', 'TRACKER_CLIENT_SECRET'] as const
export type SecretName = (typeof SECRET_NAMES)[number]

export interface HelperSettings {
  readonly codehost: {
    readonly clientId: string
    /** Without a trailing slash. */
    readonly site: string
  }
  readonly tracker: {
    readonly clientId: string
    readonly clientSecret: string
    readonly authorizeUrl: string
    readonly tokenUrl: string
  }
}

export interface HelperSettingsInput {
  readonly secrets: Readonly<Partial<Record<SecretName, string>>>
  readonly trackerUrl?: string
  readonly codehostUrl?: string
}

const CODEHOST_SITE = 'https://github.com'
const TRACKER_SITE = 'https://linear.app'
const TRACKER_API = 'https://api.linear.app'
const SECRET = new RegExp(`^[!-~]{1,${NAME_CHARS_MAX}}$`)
const LOOPBACK = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/

export function readHelperSettings({
  secrets,
  trackerUrl,
  codehostUrl,
}: HelperSettingsInput): Result<HelperSettings> {
  const wrong = SECRET_NAMES.filter((name) => !SECRET.test(secrets[name] ?? ''))
  if (wrong.length > 0) return no('invalid', `${wrong.join(', ')}: ${SECRET_ADVICE}`)
  const tracker = readBaseUrl('SWITCHYARD_TRACKER_URL', trackerUrl)
  if (!tracker.ok) return tracker
  const codehost = readBaseUrl('SWITCHYARD_CODEHOST_URL', codehostUrl)
  if (!codehost.ok) return codehost
  const { CODEHOST_CLIENT_ID = '', TRACKER_CLIENT_ID = '', TRACKER_CLIENT_SECRET = '' } = secrets
  return yes({
    codehost: { clientId: CODEHOST_CLIENT_ID, site: codehost.value ?? CODEHOST_SITE },
    tracker: {
      clientId: TRACKER_CLIENT_ID,
      clientSecret: TRACKER_CLIENT_SECRET,
      authorizeUrl: `${tracker.value ?? TRACKER_SITE}/oauth/authorize`,
      tokenUrl: `${tracker.value ?? TRACKER_API}/oauth/token`,
    },
  })
}

const SECRET_ADVICE =
  'must be set to a client id or secret of printable characters without spaces; set it in the environment, or name a file that holds it with the same name and _FILE behind it'

/** Returns undefined when no address is given, which means the public service. */
function readBaseUrl(name: string, given: string | undefined): Result<string | undefined> {
  if (given === undefined || given === '') return yes(undefined)
  if (!URL.canParse(given)) return no('invalid', `${name}: must be an address that begins with https://`)
  const { protocol, hostname, origin, pathname, username, password, search, hash } = new URL(given)
  if (username !== '' || password !== '' || search !== '' || hash !== '') {
    return no('invalid', `${name}: must be an address alone, without a user, a query or a fragment`)
  }
  if (protocol !== 'https:' && !(protocol === 'http:' && LOOPBACK.test(hostname))) {
    return no('invalid', `${name}: must begin with https://, because secrets are sent there`)
  }
  return yes(`${origin}${pathname}`.replace(/\/+$/, ''))
}
