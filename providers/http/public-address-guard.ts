/**
 * This guard keeps requests for public services away from private networks (server-side request forgery).
 *
 * Names are checked while they are resolved, and only checked addresses are connected to, so a second resolution cannot
 * lead elsewhere. A loopback address in the settings was written by a person and is allowed.
 */
import { type LookupAddress, lookup } from 'node:dns'
import { BlockList, isIP, type LookupFunction } from 'node:net'
import { no, type Refused } from '../../core/result.ts'

/** The error code that the lookup passes through the network stack. */
export const PRIVATE_ADDRESS = 'PRIVATE_ADDRESS'

/** Without 198.18/15 and 100.64/10: a local proxy that answers for all names uses them for public hosts. */
const PRIVATE_RANGES = new BlockList()
for (const [first, bits] of [
  ['0.0.0.0', 8],
  ['10.0.0.0', 8],
  ['127.0.0.0', 8],
  ['169.254.0.0', 16],
  ['172.16.0.0', 12],
  ['192.168.0.0', 16],
] as const)
  PRIVATE_RANGES.addSubnet(first, bits, 'ipv4')
for (const [first, bits] of [
  ['::', 127],
  ['fc00::', 7],
  ['fe80::', 10],
] as const)
  PRIVATE_RANGES.addSubnet(first, bits, 'ipv6')

const LOOPBACK_HOST = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/

export const isLoopbackUrl = ({ hostname }: URL): boolean => LOOPBACK_HOST.test(hostname)

/** Checks a host that is an address itself and needs no name resolution. */
export const isPrivateLiteral = ({ hostname }: URL): boolean => isPrivate(hostname.replace(/^\[|\]$/g, ''))

export function privateAddressRefusal(host: string): Refused {
  return no(
    'invalid',
    `${host} is an address of a private network, so no request was sent; correct the address in the settings`,
  )
}

/** @param resolve the lookup to wrap; absent: the system's */
export function publicOnlyLookup(resolve: LookupFunction = lookup): LookupFunction {
  return (host, options, done) => {
    resolve(host, { ...options, all: true }, (error, found) => {
      // On an error `found` is undefined, unlike its type.
      if (error !== null) {
        done(error, [])
        return
      }
      const publicAddresses = asAddressList(found).filter(({ address }) => !isPrivate(address))
      const [first] = publicAddresses
      if (first === undefined) done(Object.assign(new Error('leads inside'), { code: PRIVATE_ADDRESS }), [])
      else if (options.all === true) done(null, publicAddresses)
      else done(null, first.address, first.family)
    })
  }
}

/** Converts the lookup's result, which is a list because the lookup ran with `all`. */
const asAddressList = (found: string | LookupAddress[]): readonly LookupAddress[] =>
  typeof found === 'string' ? [{ address: found, family: isIP(found) }] : found

function isPrivate(address: string): boolean {
  const family = isIP(address)
  // An address with a zone belongs to a local network link.
  return (
    family !== 0 && (address.includes('%') || PRIVATE_RANGES.check(address, family === 6 ? 'ipv6' : 'ipv4'))
  )
}
