/**
 * The way to services that are out in the world and nowhere else: behind such an address, a machine of a private
 * network is a mistake, or somebody who wants us to ask there in his place.
 *
 * A name is looked at as it is resolved, and only what was looked at is connected to, so that it cannot lead elsewhere
 * a moment later. This machine by its plain name is what a person wrote down himself, and is asked.
 */
import { type LookupAddress, lookup } from 'node:dns'
import { BlockList, isIP, type LookupFunction } from 'node:net'
import { no, type Refused } from '../../core/result.ts'

/** As an error of the network says it. */
export const PRIVATE_ADDRESS = 'PRIVATE_ADDRESS'

/** Not those that stand for public places on machines whose proxy answers for all names (198.18/15, 100.64/10). */
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

/** Of an address that needs no resolving. */
export const isPrivateLiteral = ({ hostname }: URL): boolean => isPrivate(hostname.replace(/^\[|\]$/g, ''))

export function privateAddressRefusal(host: string): Refused {
  return no(
    'invalid',
    `${host} is an address of a private network, and is not asked; correct it in the settings`,
  )
}

/** @param resolve the system's own way */
export function publicOnlyLookup(resolve: LookupFunction = lookup): LookupFunction {
  return (host, options, done) => {
    resolve(host, { ...options, all: true }, (error, found) => {
      // Then there is no list, whatever the types say.
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

/** It was asked for all, which is a list. */
const asAddressList = (found: string | LookupAddress[]): readonly LookupAddress[] =>
  typeof found === 'string' ? [{ address: found, family: isIP(found) }] : found

function isPrivate(address: string): boolean {
  const family = isIP(address)
  // A zone is one of this machine's own links.
  return (
    family !== 0 && (address.includes('%') || PRIVATE_RANGES.check(address, family === 6 ? 'ipv6' : 'ipv4'))
  )
}
