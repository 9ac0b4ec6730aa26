/**
 * RequestLimiter limits the requests of each client with a token bucket that refills at a steady rate.
 *
 * The number of buckets is limited; the least recently used one is dropped. A client with more addresses than that gets
 * full buckets again, so the total cost of all clients is limited in `upstream.ts`.
 */
import type { Clock } from '../core/ports.ts'
import { HELPER_ADDRESSES_MAX } from '../protocol/limits.ts'

export interface RequestLimiter {
  /** Seconds until the client may ask again; undefined when it may now, which counts. */
  waitSeconds(client: string): number | undefined
  readonly clients: number
}

interface ClientBucket {
  readonly tokens: number
  readonly at: number
}

export function createRequestLimiter(
  clock: Pick<Clock, 'monotonic'>,
  perMinute: number,
  clientsMax = HELPER_ADDRESSES_MAX,
): RequestLimiter {
  const buckets = new Map<string, ClientBucket>()
  const perMs = perMinute / 60_000

  function put(client: string, bucket: ClientBucket): void {
    // Delete first, so that the map keeps the order of last use.
    buckets.delete(client)
    buckets.set(client, bucket)
    const [oldest] = buckets.size > clientsMax ? buckets.keys() : []
    if (oldest !== undefined) buckets.delete(oldest)
  }

  return {
    waitSeconds(client) {
      const now = clock.monotonic()
      const { tokens, at } = buckets.get(client) ?? { tokens: perMinute, at: now }
      const filled = Math.min(perMinute, tokens + (now - at) * perMs)
      put(client, { tokens: filled < 1 ? filled : filled - 1, at: now })
      return filled < 1 ? Math.ceil((1 - filled) / perMs / 1000) : undefined
    },
    get clients() {
      return buckets.size
    },
  }
}
