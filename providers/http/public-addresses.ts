/**
 * Decides which addresses are public: not this machine, its local network, or the metadata service of its cloud.
 *
 * The list is the only one: sandboxes, git, requests to providers and the network policy of a cluster use it. For IPv4
 * all addresses are public except a list of blocks. For IPv6 only the one allocated block is public, minus exceptions,
 * so that newly introduced blocks stay blocked. An IPv6 address that embeds an IPv4 address counts as that IPv4
 * address, because a relay would forward to it. An unreadable address is not public.
 */
import { type LookupAddress, lookup } from 'node:dns'
import { isIP, isIPv4, isIPv6, type LookupFunction } from 'node:net'
import { no, type Refused } from '../../core/result.ts'

const IPV4_BITS = 32
const IPV6_BITS = 128
const LOWEST_32_BITS = 0xffff_ffffn

/** Blocks whose addresses also stand for public hosts: a local proxy, a mesh or a carrier translates them. */
const TRANSLATED_IPV4: readonly string[] = [
  '100.64.0.0/10', //   behind a carrier's translation; one cloud's metadata too
  '192.0.2.0/24', //    documentation
  '198.18.0.0/15', //   benchmarking
  '198.51.100.0/24', // documentation
  '203.0.113.0/24', //  documentation
  '240.0.0.0/4', //     reserved, and the broadcast address
]

/** All blocks of IANA's special-purpose registry, and one cloud service address that it lacks. */
export const NOT_PUBLIC_IPV4: readonly string[] = [
  '0.0.0.0/8', //        this network
  '10.0.0.0/8', //       private
  '127.0.0.0/8', //      loopback
  '168.63.129.16/32', // a cloud's host agent, at what looks like a public address
  '169.254.0.0/16', //   link-local; most clouds' metadata
  '172.16.0.0/12', //    private
  '192.0.0.0/24', //     protocol assignments; one cloud's metadata too
  '192.88.99.0/24', //   relays of 6to4
  '192.168.0.0/16', //   private
  '224.0.0.0/4', //      multicast
  ...TRANSLATED_IPV4,
]

/** The only allocated block; loopback, unique local, link-local, multicast and mapped addresses lie outside. */
export const ALLOCATED_IPV6 = '2000::/3'

export const NOT_PUBLIC_IPV6: readonly string[] = [
  '2001::/23', //    protocol assignments, Teredo among them
  '2001:db8::/32', // documentation
  '3fff::/20', //     documentation
]

/** The well-known prefix of NAT64, by which a network without IPv4 reaches it. */
export const NAT64 = '64:ff9b::/96'
/** Tunnels without a relay that could be trusted; an address embeds the IPv4 address of its tunnel. */
export const SIX_TO_FOUR = '2002::/16'

/** Blocks whose addresses embed an IPv4 address, and the number of bits after it. */
const EMBEDDING_BLOCKS: readonly (readonly [block: Block, bitsBehind: number])[] = [
  [parseBlock(NAT64), 0],
  [parseBlock(SIX_TO_FOUR), 80],
]
/** The upper half of an ISATAP interface id, with and without the bit for global addresses; IPv4 follows. */
const ISATAP_MARKS: readonly bigint[] = [0x0000_5efen, 0x0200_5efen]

const [TRANSLATED, NOT_PUBLIC_4, NOT_PUBLIC_6] = [TRANSLATED_IPV4, NOT_PUBLIC_IPV4, NOT_PUBLIC_IPV6].map(
  (blocks) => blocks.map(parseBlock),
) as [Block[], Block[], Block[]]
const ALLOCATED = parseBlock(ALLOCATED_IPV6)

export function isPublic(address: string): boolean {
  return isPublicWhere(address, (bits) => !isWithinAny(NOT_PUBLIC_4, bits))
}

/** Public, or in a block by which a local proxy that answers for all names, or a carrier, stands for public hosts. */
export function isPublicOrTranslated(address: string): boolean {
  return isPublicWhere(address, (bits) => !isWithinAny(NOT_PUBLIC_4, bits) || isWithinAny(TRANSLATED, bits))
}

function isPublicWhere(address: string, isPublicIpv4: (bits: bigint) => boolean): boolean {
  if (isIPv4(address)) return isPublicIpv4(ipv4Bits(address))
  // A zone (`%eth0`) selects one of this machine's links, so the address is never public.
  if (isIPv6(address) && !address.includes('%')) return isPublicIpv6(ipv6Bits(address), isPublicIpv4)
  return false
}

/** Public and not one of this machine's own addresses: no firewall protects a machine from itself. */
export function isPublicAndRemote(address: string, ownAddresses: readonly string[]): boolean {
  return isPublic(address) && !ownAddresses.some((ownAddress) => isSameAddress(address, ownAddress))
}

function isPublicIpv6(bits: bigint, isPublicIpv4: (bits: bigint) => boolean): boolean {
  const embedding = EMBEDDING_BLOCKS.find(([block]) => isWithin(block, bits))
  if (embedding !== undefined) return isPublicIpv4((bits >> BigInt(embedding[1])) & LOWEST_32_BITS)
  if (!isWithin(ALLOCATED, bits) || isWithinAny(NOT_PUBLIC_6, bits)) return false
  return !ISATAP_MARKS.includes((bits >> 32n) & LOWEST_32_BITS) || isPublicIpv4(bits & LOWEST_32_BITS)
}

// ---- bits --------------------------------------------------------------------------------------------------------

interface Block {
  readonly first: bigint
  /** How many bits follow the prefix. */
  readonly freeBits: bigint
}

function parseBlock(text: string): Block {
  const [address = '', prefixBits] = text.split('/')
  const width = isIPv4(address) ? IPV4_BITS : IPV6_BITS
  const first = isIPv4(address) ? ipv4Bits(address) : ipv6Bits(address)
  return { first, freeBits: BigInt(width - Number(prefixBits)) }
}

function isWithin({ first, freeBits }: Block, bits: bigint): boolean {
  return (bits ^ first) >> freeBits === 0n
}

function isWithinAny(blocks: readonly Block[], bits: bigint): boolean {
  return blocks.some((block) => isWithin(block, bits))
}

/** Compares IPv6 addresses by value, because each has several notations. */
function isSameAddress(a: string, b: string): boolean {
  if (isIPv6(a) && isIPv6(b)) return ipv6Bits(a) === ipv6Bits(b)
  return a === b
}

function ipv4Bits(text: string): bigint {
  return text.split('.').reduce((bits, part) => (bits << 8n) | BigInt(part), 0n)
}

function ipv6Bits(text: string): bigint {
  const [head = '', tail] = text.replace(/%.*$/, '').split('::')
  const [before, after] = [groups(head), groups(tail ?? '')]
  const missing = tail === undefined ? 0 : 8 - before.length - after.length
  const all = [...before, ...Array<bigint>(missing).fill(0n), ...after]
  return all.reduce((bits, group) => (bits << 16n) | group, 0n)
}

/** The last two groups may be written as an IPv4 address. */
function groups(text: string): bigint[] {
  if (text === '') return []
  return text.split(':').flatMap((group) => {
    if (!group.includes('.')) return [BigInt(`0x${group}`)]
    const bits = ipv4Bits(group)
    return [bits >> 16n, bits & 0xffffn]
  })
}

/** The error code that the lookup passes through the network stack. */
export const PRIVATE_ADDRESS = 'PRIVATE_ADDRESS'

const LOOPBACK_HOST = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/

export const isLoopbackUrl = ({ hostname }: URL): boolean => LOOPBACK_HOST.test(hostname)

/** Checks a host that is an address itself and needs no name resolution. */
export const isPrivateLiteral = ({ hostname }: URL): boolean => isPrivate(hostname.replace(/^\[|\]$/g, ''))

/**
 * This guard keeps requests for public services away from private networks (server-side request forgery).
 *
 * Names are checked while they are resolved, and only checked addresses are connected to, so a second resolution cannot
 * lead elsewhere. A loopback address in the settings was written by a person and is allowed.
 */
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
