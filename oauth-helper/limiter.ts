/**
 * How often one client may ask: a bucket of tokens each, filled at a steady pace.
 *
 * There are only so many buckets. Whoever comes from more addresses than that gets new ones, and takes nobody's: what
 * everybody together may cost is bounded elsewhere.
 */
import type { Clock } from '../core/ports.ts'
import { HELPER_ADDRESSES_MAX } from '../protocol/limits.ts'

export interface RequestLimiter {
  /** Seconds until the client may ask again; undefined when it may now, which counts. */
  waitSeconds(client: string): number | undefined
  readonly clients: number
}

interface TokenBucket {
  readonly tokens: number
  readonly at: number
}

export function createRequestLimiter(
  clock: Pick<Clock, 'monotonic'>,
  perMinute: number,
  clientsMax = HELPER_ADDRESSES_MAX,
): RequestLimiter {
  const buckets = new Map<string, TokenBucket>()
  const perMs = perMinute / 60_000

  function put(client: string, bucket: TokenBucket): void {
    // Set anew, so that the map's order is that of their last questions.
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
