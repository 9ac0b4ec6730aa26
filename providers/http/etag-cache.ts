/**
 * Replies that a service has put a mark on, so that it need only be asked whether they still hold.
 *
 * The one that was used longest ago goes first when there are too many. The keys are hashes: neither an address nor a
 * credential can be read out of them.
 */
import { createHash } from 'node:crypto'
import type { HttpReply, HttpRequest } from './http.ts'

const REPLIES_MAX = 4_096
/** Lists of pull requests are kept in short; a single one with its files and all that was said may take some MiB. */
const BYTES_MAX = 128 * 1024 * 1024
/** What may be sent back as it came. */
const SENDABLE_ETAG = /^[ -~]{1,1024}$/
/** They are of the text, and a reply that says "unchanged" has none. */
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

  /** Only one that is marked; another takes an earlier one's place all the same. */
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

/** What the earlier reply is now, since it still holds. */
export function refreshHeaders(cached: HttpReply, unchanged: HttpReply): HttpReply {
  const newHeaders = Object.entries(unchanged.headers).filter(([name]) => !BODY_HEADERS.test(name))
  return { ...cached, headers: { ...cached.headers, ...Object.fromEntries(newHeaders) } }
}

/** Whoever asks for the same with other headers may be answered something else; `gist`: what of it is read. */
export function cacheKey(owner: string, { url, headers }: HttpRequest, projection = ''): string {
  const sortedHeaders = Object.entries(headers)
    .map(([name, value]) => [name.toLowerCase(), value])
    .sort(([a = ''], [b = '']) => (a < b ? -1 : 1))
  return createHash('sha256')
    .update(JSON.stringify([owner, url, sortedHeaders, projection]))
    .digest('base64url')
}
