/**
 * RequestLimiter limits the requests of each client with a token bucket that refills at a steady rate.
 *
 * The number of buckets is limited; the least recently used one is dropped. A client with more addresses than that gets
 * full buckets again, so the total cost of all clients is limited in `upstream.ts`.
 */
import { isIPv4, isIPv6 } from 'node:net'
import type { Clock } from '../core/ports/clock.ts'
import { TokenBucket } from '../core/token-bucket.ts'

/** Client addresses that are tracked; above this the one with the oldest request is forgotten. */
const HELPER_ADDRESSES_MAX = 10_000

export interface RequestLimiter {
  /** Seconds until the client may ask again; undefined when it may now, which counts. */
  waitSeconds(client: string): number | undefined
  readonly clients: number
}

export function createRequestLimiter(
  clock: Pick<Clock, 'monotonic'>,
  perMinute: number,
  clientsMax = HELPER_ADDRESSES_MAX,
): RequestLimiter {
  const buckets = new Map<string, TokenBucket>()

  function bucketOf(client: string): TokenBucket {
    const bucket = buckets.get(client) ?? new TokenBucket(() => clock.monotonic(), perMinute, perMinute / 60)
    // Delete first, so that the map keeps the order of last use.
    buckets.delete(client)
    buckets.set(client, bucket)
    const [oldest] = buckets.size > clientsMax ? buckets.keys() : []
    if (oldest !== undefined) buckets.delete(oldest)
    return bucket
  }

  return {
    waitSeconds(client) {
      const bucket = bucketOf(client)
      return bucket.take(1) ? undefined : Math.ceil(bucket.waitMs(1) / 1000)
    },
    get clients() {
      return buckets.size
    },
  }
}

/**
 * The client that a request counts for in the limits.
 *
 * Each balancer appends the address of its peer to `X-Forwarded-For`, so only the last entries are trusted, as many as
 * there are balancers; clients can forge the entries before them. An IPv6 customer owns a whole /64, which is one client.
 *
 * @param peer the peer's address as text @param forwarded all X-Forwarded-For headers, in order
 */
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
