/**
 * EtagCache keeps replies that carry an ETag, so that a later request only has to revalidate them.
 *
 * The least recently used reply is dropped first, by number and by total size. Keys are hashes and reveal neither an
 * address nor a credential. Sending the revalidation is left to RateLimitedHttpClient.
 */
import { createHash } from 'node:crypto'
import type { HttpReply, HttpRequest } from './http-types.ts'

const REPLIES_MAX = 4_096
/** Lists of pull requests are cached as projections. A single pull request with files and comments may take some MiB. */
const BYTES_MAX = 128 * 1024 * 1024
/** An ETag that may be sent back unchanged. */
const SENDABLE_ETAG = /^[ -~]{1,1024}$/
/** Headers that describe the body. A 304 reply has no body, so its values must not replace the cached ones. */
const BODY_HEADERS = /^(content-|transfer-encoding$)/

export interface EtagCacheLimits {
  readonly repliesMax: number
  readonly bytesMax: number
}

export class EtagCache {
  readonly #limits: EtagCacheLimits
  readonly #replies = new Map<string, { readonly reply: HttpReply; readonly bytes: number }>()
  #bytes = 0

  constructor(limits: EtagCacheLimits = { repliesMax: REPLIES_MAX, bytesMax: BYTES_MAX }) {
    this.#limits = limits
  }

  get bytes(): number {
    return this.#bytes
  }

  get(key: string): HttpReply | undefined {
    const found = this.#replies.get(key)
    if (found === undefined) return undefined
    this.#replies.delete(key)
    this.#replies.set(key, found)
    return found.reply
  }

  /** Stores a reply that has an ETag. A reply without one only removes the earlier entry. */
  put(key: string, reply: HttpReply): void {
    this.#drop(key)
    if (etagOf(reply) === undefined || /\bno-store\b/i.test(reply.headers['cache-control'] ?? '')) return
    const bytes = Buffer.byteLength(reply.text) + JSON.stringify(reply.headers).length
    this.#replies.set(key, { reply, bytes })
    this.#bytes += bytes
    for (const oldest of this.#replies.keys()) {
      if (this.#replies.size <= this.#limits.repliesMax && this.#bytes <= this.#limits.bytesMax) return
      this.#drop(oldest)
    }
  }

  #drop(key: string): void {
    this.#bytes -= this.#replies.get(key)?.bytes ?? 0
    this.#replies.delete(key)
  }
}

export function etagOf({ headers }: HttpReply): string | undefined {
  const { etag } = headers
  return etag !== undefined && SENDABLE_ETAG.test(etag) ? etag : undefined
}

/** Returns the cached reply with the headers of the 304 reply that confirmed it. */
export function refreshHeaders(cached: HttpReply, unchanged: HttpReply): HttpReply {
  const newHeaders = Object.entries(unchanged.headers).filter(([name]) => !BODY_HEADERS.test(name))
  return { ...cached, headers: { ...cached.headers, ...Object.fromEntries(newHeaders) } }
}

/** Returns the cache key. Headers belong to it because they may change the reply; `projection` is a projection's name. */
export function cacheKey(owner: string, { url, headers }: HttpRequest, projection = ''): string {
  const sortedHeaders = Object.entries(headers)
    .map(([name, value]) => [name.toLowerCase(), value])
    .sort(([a = ''], [b = '']) => (a < b ? -1 : 1))
  return createHash('sha256')
    .update(JSON.stringify([owner, url, sortedHeaders, projection]))
    .digest('base64url')
}
