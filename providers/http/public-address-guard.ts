/**
 * This guard keeps requests for public services away from private networks (server-side request forgery).
 *
 * Names are checked while they are resolved, and only checked addresses are connected to, so a second resolution cannot
 * lead elsewhere. A loopback address in the settings was written by a person and is allowed.
 */
import { type LookupAddress, lookup } from 'node:dns'
import { isIP, type LookupFunction } from 'node:net'
import { no, type Refused } from '../../core/result.ts'
import { isPublicOrTranslated } from './public-addresses.ts'

/** The error code that the lookup passes through the network stack. */
export const PRIVATE_ADDRESS = 'PRIVATE_ADDRESS'

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

/** A local proxy that answers for all names uses translated blocks for public hosts, so these are not refused. */
function isPrivate(address: string): boolean {
  return isIP(address) !== 0 && !isPublicOrTranslated(address)
}
