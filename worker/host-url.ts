/**
 * `parseHostUrl` turns the value of `--host` into the WebSocket address of the host's worker channel.
 *
 * Credentials of runs travel over this connection, so it must be encrypted. Unencrypted connections are allowed to this
 * machine, and to others only with `--insecure`.
 */
import { isIPv4 } from 'node:net'
import { no, type Result, yes } from '../core/result.ts'

export interface HostUrl {
  /** ws:// or wss://, including the path of the worker channel. */
  readonly url: string
  /** Whether the connection never leaves this machine. */
  readonly loopback: boolean
  /** Whether the connection is unencrypted and leaves this machine. */
  readonly exposed: boolean
}

const CHANNEL_PATH = '/ws/worker'
/** The accepted URL schemes, and whether each is encrypted. */
const ENCRYPTED_SCHEMES: Readonly<Record<string, boolean>> = {
  'http:': false,
  'ws:': false,
  'https:': true,
  'wss:': true,
}
const FORMAT_HINT = 'write it like https://host.example:4401, or http://127.0.0.1:4400 for this machine'

export function parseHostUrl(text: string, insecure: boolean): Result<HostUrl> {
  const url = URL.canParse(text) ? new URL(text) : undefined
  const encrypted = url === undefined ? undefined : ENCRYPTED_SCHEMES[url.protocol]
  if (url === undefined || encrypted === undefined)
    return no('invalid', `--host: not the address of a host; ${FORMAT_HINT}`)
  if (url.username !== '' || url.password !== '')
    return no('invalid', `--host: must not hold a user or a password; ${FORMAT_HINT}`)
  if (url.search !== '' || url.hash !== '')
    return no('invalid', `--host: must end with its path; ${FORMAT_HINT}`)
  const loopback = isLoopbackHost(url.hostname)
  const exposed = !encrypted && !loopback
  if (exposed && !insecure) {
    return no(
      'invalid',
      `--host: ${url.host} would be reached without encryption, and credentials of runs go this way; use https:// or wss:// (fleet.tls on the host), or add --insecure if the network in between is trusted`,
    )
  }
  const path = url.pathname.replace(/\/+$/, '')
  const channel = path.endsWith(CHANNEL_PATH) ? path : `${path}${CHANNEL_PATH}`
  return yes({ url: `${encrypted ? 'wss' : 'ws'}://${url.host}${channel}`, loopback, exposed })
}

/** Expects a host name as normalized by `URL`: lower case, shortest form, IPv6 in brackets. */
function isLoopbackHost(hostname: string): boolean {
  if (hostname === '[::1]' || hostname === 'localhost' || hostname.endsWith('.localhost')) return true
  return isIPv4(hostname) && hostname.startsWith('127.')
}
