/**
 * Decides which addresses may receive a token, and removes user names from addresses.
 *
 * Over plain http a token goes only to this machine. `remote-policy.ts` decides whether git contacts an address at all.
 */

const LOOPBACK = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/

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

/** Whether a token for one address may be sent to the other: another port or protocol is another server. */
export function isSameOrigin(address: string, otherAddress: string): boolean {
  const [origin, otherOrigin] = [originOf(address), originOf(otherAddress)]
  return origin !== undefined && origin === otherOrigin
}

function originOf(address: string): string | undefined {
  const origin = URL.canParse(address) ? new URL(address).origin : 'null'
  return origin === 'null' ? undefined : origin
}

/** Stands for a repository in a folder of the worker's machine, whose path is of no use inside. */
const LOCAL_ORIGIN = '/repository.git'

/** The `origin` of a checkout: it holds no credential and no path of the worker's machine. */
export function originInside(address: string): string {
  return /^(?:\/|file:)/i.test(address) ? LOCAL_ORIGIN : withoutUser(address)
}

/** Removes user and password from an http(s) address. */
export function withoutUser(address: string): string {
  return address.replace(/^(https?:\/\/)[^/@]*@/, '$1')
}
