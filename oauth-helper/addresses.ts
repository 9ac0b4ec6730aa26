/**
 * clientAddress determines the client that a request counts for in the request limits.
 *
 * Behind load balancers the peer is the nearest one. Each balancer appends its peer's address to `X-Forwarded-For`, so
 * only the last entries are trusted, as many as there are balancers; clients can forge the entries before them. Without
 * balancers the header is ignored. An IPv6 customer owns a whole /64, so a /64 counts as one client.
 */
import { isIPv4, isIPv6 } from 'node:net'

/** @param peer the peer's address as text @param forwarded all X-Forwarded-For headers, in order */
export function clientAddress(peer: string, forwarded: readonly string[], proxies: number): string {
  if (proxies === 0) return normalizeAddress(peer) ?? peer
  const chain = forwarded.flatMap((header) => header.split(','))
  // A chain that is too short did not pass all balancers, so the peer counts.
  return normalizeAddress(stripPort(chain.at(-proxies) ?? '')) ?? normalizeAddress(peer) ?? peer
}

/** Removes the port and the brackets that some balancers add. */
function stripPort(entry: string): string {
  const text = entry.trim()
  const [, inBrackets, v4] = /^\[([^\]]*)\](?::\d+)?$|^(\d+\.\d+\.\d+\.\d+):\d+$/.exec(text) ?? []
  return inBrackets ?? v4 ?? text
}

/** Returns the IPv4 address or the IPv6 /64; undefined when the text is no address. */
function normalizeAddress(text: string): string | undefined {
  if (isIPv4(text)) return text
  const words = isIPv6(text) ? ipv6Groups(text) : undefined
  if (words === undefined) return undefined
  const mapped = /^0:0:0:0:0:ffff:([^:]+):([^:]+)$/.exec(words.join(':'))
  if (mapped === null) return `${words.slice(0, 4).join(':')}::/64`
  const [high, low] = [mapped[1], mapped[2]].map((word) => Number.parseInt(word ?? '0', 16))
  return [high, low].flatMap((word = 0) => [word >> 8, word & 0xff]).join('.')
}

/** Returns all eight groups, without leading zeros. */
function ipv6Groups(address: string): string[] | undefined {
  const inUrl = `http://[${address}]/`
  // Node accepts an address with a zone; URL does not.
  if (!URL.canParse(inUrl)) return undefined
  const [head = '', tail] = new URL(inUrl).hostname.slice(1, -1).split('::')
  const split = (part: string) => (part === '' ? [] : part.split(':'))
  if (tail === undefined) return split(head)
  const [before, after] = [split(head), split(tail)]
  return [...before, ...new Array<string>(8 - before.length - after.length).fill('0'), ...after]
}
