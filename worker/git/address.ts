/**
 * What kind of place a git address names, and what may be told to it.
 *
 * Only four ways lead out: https, ssh, a folder, and plain http, over which no token goes but to this very machine.
 * Everything else (`ext::…` runs a command) is no address.
 */
import { no, type Result, yes } from '../../core/result.ts'
import { printable } from '../../protocol/schema-errors.ts'

export type Way = 'https' | 'http' | 'ssh' | 'file'

const CONTROL = /[\p{Cc}\s]/u
const SCP_LIKE = /^[A-Za-z0-9_][\w.-]*@[A-Za-z0-9.-]+:(?!:)/
const LOOPBACK = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/

export function wayTo(address: string): Result<Way> {
  const way = /^(https?|ssh|file):\/\/[^-]/.exec(address)?.[1]
  // A folder's name may hold spaces; what goes over a network may not.
  if (address.startsWith('/')) return /[\0\r\n]/.test(address) ? strange(address) : yes('file')
  if (CONTROL.test(address)) return strange(address)
  if (way !== undefined) return yes(way as Way)
  return SCP_LIKE.test(address) ? yes('ssh') : strange(address)
}

/** What git calls the place when it asks for a password, as far as one may be given. */
export function askerAt(address: string): string | undefined {
  const found = /^(https?):\/\/(?:[^/@]*@)?([^/@]+)\//.exec(address)
  const [, way, place] = found ?? []
  if (way === undefined || place === undefined) return undefined
  const isSafe = way === 'https' || LOOPBACK.test(place.replace(/:\d+$/, ''))
  return isSafe ? `${way}://${USER}@${place}` : undefined
}

/** The name that goes with a token. Code hosts look at the token only. */
export const USER = 'x-access-token'

/** Whether a token meant for the one may be shown to the other: the same machine, by its name. */
export function isSameHost(one: string, other: string): boolean {
  const [host, otherHost] = [hostOf(one), hostOf(other)]
  return host !== undefined && host === otherHost
}

function hostOf(address: string): string | undefined {
  return URL.canParse(address) ? new URL(address).hostname || undefined : undefined
}

/** For people, and for a checkout's `origin`: without whatever stands before the host of an https address. */
export function withoutUser(address: string): string {
  return address.replace(/^(https?:\/\/)[^/@]*@/, '$1')
}

function strange(address: string) {
  const shown = printable(withoutUser(address)).slice(0, 200)
  return no(
    'invalid',
    `${shown} is no address that git can use; set cloneUrl to an https, ssh or file address`,
  )
}
