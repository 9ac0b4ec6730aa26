/**
 * Whose request it is, as far as limits are concerned.
 *
 * Behind balancers the connection's other end is the nearest of them; each adds, at the end of `X-Forwarded-For`, whom
 * it was asked by. Only as many entries are believed as there are balancers, from the end: what stands before them
 * anybody can write. Without balancers the header means nothing. Of IPv6 a customer has a whole /64, so one is one.
 */
import { isIPv4, isIPv6 } from 'node:net'

/** @param peer the connection's other end, as text @param forwarded every X-Forwarded-For header, in order */
export function clientAddress(peer: string, forwarded: readonly string[], proxies: number): string {
  if (proxies === 0) return normalizeAddress(peer) ?? peer
  const chain = forwarded.flatMap((header) => header.split(','))
  // A chain that is too short did not come through all of them.
  return normalizeAddress(stripPort(chain.at(-proxies) ?? '')) ?? normalizeAddress(peer) ?? peer
}

/** Some balancers write a port, and brackets, too. */
function stripPort(entry: string): string {
  const text = entry.trim()
  const [, inBrackets, v4] = /^\[([^\]]*)\](?::\d+)?$|^(\d+\.\d+\.\d+\.\d+):\d+$/.exec(text) ?? []
  return inBrackets ?? v4 ?? text
}

/** undefined: no address. */
function normalizeAddress(text: string): string | undefined {
  if (isIPv4(text)) return text
  const words = isIPv6(text) ? ipv6Groups(text) : undefined
  if (words === undefined) return undefined
  const mapped = /^0:0:0:0:0:ffff:([^:]+):([^:]+)$/.exec(words.join(':'))
  if (mapped === null) return `${words.slice(0, 4).join(':')}::/64`
  const [high, low] = [mapped[1], mapped[2]].map((word) => Number.parseInt(word ?? '0', 16))
  return [high, low].flatMap((word = 0) => [word >> 8, word & 0xff]).join('.')
}

/** All eight, without leading zeros. */
function ipv6Groups(address: string): string[] | undefined {
  const inUrl = `http://[${address}]/`
  // An address with a zone is one to Node, and none to URL.
  if (!URL.canParse(inUrl)) return undefined
  const [head = '', tail] = new URL(inUrl).hostname.slice(1, -1).split('::')
  const split = (part: string) => (part === '' ? [] : part.split(':'))
  if (tail === undefined) return split(head)
  const [before, after] = [split(head), split(tail)]
  return [...before, ...new Array<string>(8 - before.length - after.length).fill('0'), ...after]
}
