/**
 * What kind of place a git address names, and what may be told to it.
 *
 * Only four ways lead out: https, ssh, a folder, and plain http, over which no token goes but to this very machine.
 * Everything else (`ext::…` runs a command) is no address.
 */
import { no, type Result, yes } from '../../core/result.ts'
import { printable } from '../../protocol/schema-errors.ts'

export type Protocol = 'https' | 'http' | 'ssh' | 'file'

const CONTROL = /[\p{Cc}\s]/u
const SCP_LIKE = /^[A-Za-z0-9_][\w.-]*@[A-Za-z0-9.-]+:(?!:)/
const LOOPBACK = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/

export function protocolOf(address: string): Result<Protocol> {
  const protocol = /^(https?|ssh|file):\/\/[^-]/.exec(address)?.[1]
  // A folder's name may hold spaces; what goes over a network may not.
  if (address.startsWith('/')) return /[\0\r\n]/.test(address) ? invalidAddress(address) : yes('file')
  if (CONTROL.test(address)) return invalidAddress(address)
  if (protocol !== undefined) return yes(protocol as Protocol)
  return SCP_LIKE.test(address) ? yes('ssh') : invalidAddress(address)
}

/** What git calls the place when it asks for a password, as far as one may be given. */
export function passwordPromptFor(address: string): string | undefined {
  const found = /^(https?):\/\/(?:[^/@]*@)?([^/@]+)\//.exec(address)
  const [, protocol, host] = found ?? []
  if (protocol === undefined || host === undefined) return undefined
  const isSafe = protocol === 'https' || LOOPBACK.test(host.replace(/:\d+$/, ''))
  return isSafe ? `${protocol}://${TOKEN_USER}@${host}` : undefined
}

/** The name that goes with a token. Code hosts look at the token only. */
export const TOKEN_USER = 'x-access-token'

/** Whether a token meant for the one may be shown to the other: the same machine, by its name. */
export function isSameHost(address: string, otherAddress: string): boolean {
  const [host, otherHost] = [hostOf(address), hostOf(otherAddress)]
  return host !== undefined && host === otherHost
}

function hostOf(address: string): string | undefined {
  return URL.canParse(address) ? new URL(address).hostname || undefined : undefined
}

/** For people, and for a checkout's `origin`: without whatever stands before the host of an https address. */
export function withoutUser(address: string): string {
  return address.replace(/^(https?:\/\/)[^/@]*@/, '$1')
}

function invalidAddress(address: string) {
  const quoted = printable(withoutUser(address)).slice(0, 200)
  return no(
    'invalid',
    `${quoted} is no address that git can use; set cloneUrl to an https, ssh or file address`,
  )
}
