/**
 * Validates git addresses, and decides which addresses may receive a token.
 *
 * Allowed are https, ssh, local folders, and plain http. Over plain http a token goes only to this machine. Everything
 * else is refused, for example `ext::…`, which would run a command.
 */
import { no, type Result, yes } from '../../core/result.ts'
import { printable } from '../../protocol/schema-errors.ts'

export type Protocol = 'https' | 'http' | 'ssh' | 'file'

const CONTROL = /[\p{Cc}\s]/u
const SCP_LIKE = /^[A-Za-z0-9_][\w.-]*@[A-Za-z0-9.-]+:(?!:)/
const LOOPBACK = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/

export function protocolOf(address: string): Result<Protocol> {
  const protocol = /^(https?|ssh|file):\/\/[^-]/.exec(address)?.[1]
  // A folder's path may contain spaces; a network address may not.
  if (address.startsWith('/')) return /[\0\r\n]/.test(address) ? invalidAddress(address) : yes('file')
  if (CONTROL.test(address)) return invalidAddress(address)
  if (protocol !== undefined) return yes(protocol as Protocol)
  return SCP_LIKE.test(address) ? yes('ssh') : invalidAddress(address)
}

/** The address in git's password prompt; undefined if this address must not receive a password. */
export function passwordPromptFor(address: string): string | undefined {
  const found = /^(https?):\/\/(?:[^/@]*@)?([^/@]+)\//.exec(address)
  const [, protocol, host] = found ?? []
  if (protocol === undefined || host === undefined) return undefined
  const isSafe = protocol === 'https' || LOOPBACK.test(host.replace(/:\d+$/, ''))
  return isSafe ? `${protocol}://${TOKEN_USER}@${host}` : undefined
}

/** The user name sent with a token. Code hosts check only the token. */
export const TOKEN_USER = 'x-access-token'

/** Whether both addresses have the same host name, so that a token for one may be sent to the other. */
export function isSameHost(address: string, otherAddress: string): boolean {
  const [host, otherHost] = [hostOf(address), hostOf(otherAddress)]
  return host !== undefined && host === otherHost
}

function hostOf(address: string): string | undefined {
  return URL.canParse(address) ? new URL(address).hostname || undefined : undefined
}

/** Removes user and password from an http(s) address, for messages and for a checkout's `origin`. */
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
