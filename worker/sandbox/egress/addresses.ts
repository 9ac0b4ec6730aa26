/**
 * Decides which addresses are public: not this machine, its local network, or the metadata service of its cloud.
 *
 * For IPv4 all addresses are public except a list of blocks. For IPv6 only the one allocated block is public, minus
 * exceptions, so that newly introduced blocks stay blocked. An IPv6 address that embeds an IPv4 address counts as that
 * IPv4 address, because a relay would forward to it. An unreadable address is not public.
 */
import { isIPv4, isIPv6 } from 'node:net'

type AddressBlock = readonly [first: string, prefixBits: number]

const IPV4_BITS = 32
const IPV6_BITS = 128
const LOWEST_32_BITS = 0xffff_ffffn

/** All blocks of IANA's special-purpose registry, and one cloud service address that it lacks. */
const NOT_PUBLIC_IPV4: readonly AddressBlock[] = [
  ['0.0.0.0', 8], //        this network
  ['10.0.0.0', 8], //       private
  ['100.64.0.0', 10], //    behind a carrier's translation; one cloud's metadata too
  ['127.0.0.0', 8], //      loopback
  ['168.63.129.16', 32], // a cloud's host agent, at what looks like a public address
  ['169.254.0.0', 16], //   link-local; most clouds' metadata
  ['172.16.0.0', 12], //    private
  ['192.0.0.0', 24], //     protocol assignments; one cloud's metadata too
  ['192.0.2.0', 24], //     documentation
  ['192.88.99.0', 24], //   relays of 6to4
  ['192.168.0.0', 16], //   private
  ['198.18.0.0', 15], //    benchmarking
  ['198.51.100.0', 24], //  documentation
  ['203.0.113.0', 24], //   documentation
  ['224.0.0.0', 4], //      multicast
  ['240.0.0.0', 4], //      reserved, and the broadcast address
]

/** The only allocated block; loopback, unique local, link-local, multicast and mapped addresses lie outside. */
const ALLOCATED_IPV6: AddressBlock = ['2000::', 3]

const NOT_PUBLIC_IPV6: readonly AddressBlock[] = [
  ['2001::', 23], //    protocol assignments, Teredo among them
  ['2001:db8::', 32], // documentation
  ['3fff::', 20], //     documentation
]

/** Blocks whose addresses embed an IPv4 address, and the number of bits after it. */
const EMBEDDING_BLOCKS: readonly (readonly [...block: AddressBlock, bitsBehind: number])[] = [
  ['64:ff9b::', 96, 0], // NAT64, how a network without IPv4 reaches it
  ['2002::', 16, 80], //   6to4
]

export function isPublic(address: string): boolean {
  if (isIPv4(address)) return isPublicIpv4(ipv4Bits(address))
  // A zone (`%eth0`) selects one of this machine's links, so the address is never public.
  if (isIPv6(address) && !address.includes('%')) return isPublicIpv6(ipv6Bits(address))
  return false
}

/** Public and not one of this machine's own addresses: no firewall protects a machine from itself. */
export function isPublicAndRemote(address: string, ownAddresses: readonly string[]): boolean {
  return isPublic(address) && !ownAddresses.some((ownAddress) => isSameAddress(address, ownAddress))
}

function isPublicIpv4(bits: bigint): boolean {
  return !NOT_PUBLIC_IPV4.some(([first, prefix]) => hasPrefix(bits, ipv4Bits(first), prefix, IPV4_BITS))
}

function isPublicIpv6(bits: bigint): boolean {
  const isWithin = ([first, prefix]: AddressBlock) => hasPrefix(bits, ipv6Bits(first), prefix, IPV6_BITS)
  const embedding = EMBEDDING_BLOCKS.find(([first, prefix]) => isWithin([first, prefix]))
  if (embedding !== undefined) return isPublicIpv4((bits >> BigInt(embedding[2])) & LOWEST_32_BITS)
  return isWithin(ALLOCATED_IPV6) && !NOT_PUBLIC_IPV6.some(isWithin)
}

function hasPrefix(bits: bigint, first: bigint, prefixBits: number, width: number): boolean {
  return (bits ^ first) >> BigInt(width - prefixBits) === 0n
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
