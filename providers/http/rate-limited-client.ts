/**
 * RateLimitedHttpClient sends the requests of one credential to one service: it queues, sends, retries and caches them.
 *
 * A rate-limited request is repeated as soon as the service allows it, if that is soon; after an outage only plain
 * GETs are repeated. In the background a rejected credential is tried only once per REJECTED_CREDENTIAL_MS. Equal
 * requests share one reply, unless a write came in between: after a change, nobody may see the old state. RequestQueue
 * orders requests. Octokit's throttling plugin loses "background requests stop at the reserve, a person’s at zero" and
 * "people’s requests go first" of `rate-limited-client.test.ts`: after a reply with nothing left it sends on, in order.
 */
import { createHash } from 'node:crypto'
import type { Clock, RandomSource } from '../../core/ports/clock.ts'
import type { Log } from '../../core/ports/log.ts'
import type { Result } from '../../core/result.ts'
import { HTTP_PAUSE_MS_MAX } from '../../protocol/limits.ts'
import type { RateLimitRules, ServiceRequest } from './client-types.ts'
import { retryAfterMs, retryDelayMs, triesAllowed } from './http.ts'
import type { Http, HttpReply, HttpRequest } from './http-types.ts'
import type { ReplyOutcome } from './rate-limit-state.ts'
import { type QueuedRequest, RequestQueue } from './request-queue.ts'

export interface RateLimitedClientPorts {
  readonly http: Pick<Http, 'send'>
  readonly rules: RateLimitRules
  /** A hash of service, origin and credential; the owner of the cached replies. */
  readonly owner: string
  readonly cache: EtagCache
  readonly clock: Clock
  readonly random: Pick<RandomSource, 'fraction'>
  readonly log: Log
}

interface SharedRequest {
  readonly queued: QueuedRequest
  readonly reply: Promise<Result<HttpReply>>
}

/** A reply validated within this time is returned without a request while the minute quota is used up. */
const FRESH_MS = 60_000
/** Repeated use of a rejected credential looks like an attack, and some services block the whole account for it. */
export const REJECTED_CREDENTIAL_MS = 15 * 60_000

/** The service's 401 reply for the credential in use. */
interface RejectedCredential {
  readonly reply: Result<HttpReply>
  /** Monotonic; then one background request tries the credential again. */
  until: number
}

export class RateLimitedHttpClient {
  readonly #ports: RateLimitedClientPorts
  readonly #queue: RequestQueue
  readonly #shared = new Map<string, SharedRequest>()
  /** By cache key: when the cached reply was last validated; oldest first. A write clears the map. */
  readonly #validatedAt = new Map<string, number>()
  #rejectedCredential: RejectedCredential | undefined
  #changes = 0
  #open = 0

  constructor(ports: RateLimitedClientPorts) {
    this.#ports = ports
    this.#queue = new RequestQueue(ports)
  }

  get isIdle(): boolean {
    return this.#open === 0
  }

  get hasNothingToRemember(): boolean {
    return this.isIdle && this.#queue.hasNothingToRemember
  }

  close(): void {
    this.#queue.close()
  }

  async send(request: ServiceRequest): Promise<Result<HttpReply>> {
    this.#open += 1
    try {
      return await this.#sendOrShare(request)
    } finally {
      this.#open -= 1
    }
  }

  async #sendOrShare(request: ServiceRequest): Promise<Result<HttpReply>> {
    if (request.cached === true && request.method === 'GET') return this.#share(request)
    const queued = this.#createQueued(request)
    if (!queued.writes) return this.#sendWithRetries(request, queued)
    this.#forgetSharedReplies()
    const reply = await this.#sendWithRetries(request, queued)
    this.#forgetSharedReplies()
    return reply
  }

  #forgetSharedReplies(): void {
    this.#shared.clear()
    this.#validatedAt.clear()
    this.#changes += 1
  }

  #createQueued(request: ServiceRequest): QueuedRequest {
    const { rules } = this.#ports
    const writes = request.writes ?? request.method !== 'GET'
    return this.#queue.createRequest(rules.resourceOf(request), request.urgency, writes)
  }

  // ---- cached replies --------------------------------------------------------------------------------------------------

  #share(request: ServiceRequest): Promise<Result<HttpReply>> {
    const key = cacheKey(this.#ports.owner, request, request.projection?.name)
    const running = this.#shared.get(key)
    if (running !== undefined) {
      if (request.urgency === 'person') this.#queue.prioritize(running.queued)
      return running.reply
    }
    const queued = this.#createQueued(request)
    const shared = { queued, reply: this.#revalidate(key, request, queued) }
    this.#shared.set(key, shared)
    const remove = () => void (this.#shared.get(key) === shared && this.#shared.delete(key))
    shared.reply.then(remove, remove)
    return shared.reply
  }

  async #revalidate(key: string, request: ServiceRequest, queued: QueuedRequest): Promise<Result<HttpReply>> {
    const { cache } = this.#ports
    const cached = cache.get(key)
    if (cached !== undefined && this.#isFresh(key) && this.#queue.isMinuteQuotaUsed(queued))
      return { ok: true, value: cached }
    const changes = this.#changes
    const etag = cached === undefined ? undefined : etagOf(cached)
    const headers = etag === undefined ? request.headers : { ...request.headers, 'if-none-match': etag }
    const reply = await this.#sendWithRetries({ ...request, headers }, queued)
    if (!reply.ok) return reply
    const isUnchanged = reply.value.status === 304 && cached !== undefined
    const current = isUnchanged ? refreshHeaders(cached, reply.value) : applyProjection(reply.value, request)
    if (current.status === 200) cache.put(key, current)
    if (current.status === 200 && changes === this.#changes) this.#noteValid(key)
    else this.#validatedAt.delete(key)
    return { ok: true, value: current }
  }

  #isFresh(key: string): boolean {
    const at = this.#validatedAt.get(key)
    return at !== undefined && this.#ports.clock.monotonic() - at < FRESH_MS
  }

  #noteValid(key: string): void {
    const now = this.#ports.clock.monotonic()
    this.#validatedAt.delete(key)
    this.#validatedAt.set(key, now)
    for (const [oldest, at] of this.#validatedAt) {
      if (now - at < FRESH_MS) return
      this.#validatedAt.delete(oldest)
    }
  }

  // ---- sending ---------------------------------------------------------------------------------------------------------

  async #sendWithRetries(request: ServiceRequest, queued: QueuedRequest): Promise<Result<HttpReply>> {
    for (let tries = 1; ; tries++) {
      const { answer, isTooManyRequests } = await this.#sendOnce(request, queued)
      if (isTooManyRequests) {
        // Without tries left, the next queue check refuses the request and states until when.
        if (tries >= triesAllowed(request)) queued.patientUntil = Number.NEGATIVE_INFINITY
        continue
      }
      const waitMs =
        tries < triesAllowed(request) ? this.#retryDelayMs(answer, request, queued, tries) : undefined
      if (waitMs === undefined) return answer
      queued.notBefore = this.#ports.clock.monotonic() + waitMs
    }
  }

  async #sendOnce(
    request: ServiceRequest,
    queued: QueuedRequest,
  ): Promise<{ readonly answer: Result<HttpReply>; readonly isTooManyRequests: boolean }> {
    const acquired = await this.#queue.acquire(queued)
    if (!acquired.ok) return { answer: acquired, isTooManyRequests: false }
    let outcome: ReplyOutcome | undefined
    try {
      const rejection = this.#knownRejection(queued)
      if (rejection !== undefined) return { answer: rejection, isTooManyRequests: false }
      const answer = await this.#ports.http.send(httpRequestOf(request))
      if (answer.ok) {
        outcome = this.#outcomeOf(answer.value, request)
        this.#noteCredentialOutcome(answer.value, request)
      }
      return { answer, isTooManyRequests: outcome?.tooManyRequestsMs !== undefined && !isOutage(answer) }
    } finally {
      this.#queue.release(acquired.value, outcome)
    }
  }

  /** Returns the stored 401 reply for background requests; a person's request always tries the credential. */
  #knownRejection({ urgency }: QueuedRequest): Result<HttpReply> | undefined {
    const now = this.#ports.clock.monotonic()
    if (this.#rejectedCredential === undefined || urgency === 'person') return undefined
    if (now < this.#rejectedCredential.until) return this.#rejectedCredential.reply
    this.#rejectedCredential.until = now + REJECTED_CREDENTIAL_MS
    return undefined
  }

  #noteCredentialOutcome(reply: HttpReply, { headers }: ServiceRequest): void {
    const isRejected = reply.status === 401 && headers.authorization !== undefined
    const until = this.#ports.clock.monotonic() + REJECTED_CREDENTIAL_MS
    this.#rejectedCredential = isRejected ? { reply: { ok: true, value: reply }, until } : undefined
  }

  #outcomeOf(reply: HttpReply, request: ServiceRequest): ReplyOutcome {
    const { rules, clock } = this.#ports
    const now = clock.now()
    const tooManyRequestsMs =
      rules.tooManyRequestsMs(reply, now) ?? standardTooManyRequestsMs(reply, now) ?? outageMs(reply, now)
    const reports = rules.budgets(reply, request)
    return tooManyRequestsMs === undefined ? { reports } : { reports, tooManyRequestsMs }
  }

  /** Writes are never repeated: a lost reply does not mean that nothing changed. */
  #retryDelayMs(
    answer: Result<HttpReply>,
    request: ServiceRequest,
    { writes }: QueuedRequest,
    tries: number,
  ): number | undefined {
    return writes || request.method !== 'GET' ? undefined : retryDelayMs(answer, request, this.#ports, tries)
  }
}

function applyProjection(reply: HttpReply, { projection }: ServiceRequest): HttpReply {
  return reply.status === 200 && projection !== undefined
    ? { ...reply, text: projection.apply(reply.text) }
    : reply
}

/** Returns the request for a single try, because this class does the retries. */
function httpRequestOf({ method, url, headers, body, publicOnly }: ServiceRequest): HttpRequest {
  return {
    method,
    url,
    headers,
    tries: 1,
    ...(body === undefined ? {} : { body }),
    ...(publicOnly === undefined ? {} : { publicOnly }),
  }
}

// ---- replies that ask for a pause ----------------------------------------------------------------------------------

const OUTAGE_STATUS = 503
/** The pause after "too many requests" without a stated duration. */
const DEFAULT_PAUSE_MS = 60_000

/**
 * Recognizes the replies by which any service asks for a pause, whatever its own rate limit rules are: gateways in
 * front of a service report rate limits in the standard way, with 429 or with 403 and Retry-After.
 */
function standardTooManyRequestsMs({ status, headers }: HttpReply, now: number): number | undefined {
  const asked = retryAfterMs(headers['retry-after'], now)
  return status === 429 ? (asked ?? DEFAULT_PAUSE_MS) : status === 403 ? asked : undefined
}

/** During an outage the service may have processed the request, so it is not repeated automatically. */
const isOutage = (answer: Result<HttpReply>): boolean => answer.ok && answer.value.status === OUTAGE_STATUS

/** A 503 that names a distant end pauses all requests; a short outage is covered by the retries. */
function outageMs({ status, headers }: HttpReply, now: number): number | undefined {
  const asked = status === OUTAGE_STATUS ? retryAfterMs(headers['retry-after'], now) : undefined
  return asked !== undefined && asked > HTTP_PAUSE_MS_MAX ? asked : undefined
}

// ---- kept replies --------------------------------------------------------------------------------------------------

const REPLIES_MAX = 4_096
/** Lists of pull requests are cached as projections. A single pull request with files and comments may take some MiB. */
const BYTES_MAX = 128 * 1024 * 1024
/** An ETag that may be sent back unchanged. */
const SENDABLE_ETAG = /^[ -~]{1,1024}$/
/** Headers that describe the body. A 304 reply has no body, so its values must not replace the cached ones. */
const BODY_HEADERS = /^(content-|transfer-encoding$)/

interface EtagCacheLimits {
  readonly repliesMax: number
  readonly bytesMax: number
}

/**
 * EtagCache keeps replies that carry an ETag, so that a later request only has to revalidate them.
 *
 * The least recently used reply is dropped first, by number and by total size. Keys are hashes and reveal neither an
 * address nor a credential. Sending the revalidation is left to RateLimitedHttpClient. Undici's cache loses "is
 * revalidated by its ETag" of `etag-cache.test.ts`: a private one answers GitHub's polls from memory for 60 s, also
 * after a write, and a shared one keeps no reply to a credential.
 */
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

function etagOf({ headers }: HttpReply): string | undefined {
  const { etag } = headers
  return etag !== undefined && SENDABLE_ETAG.test(etag) ? etag : undefined
}

/** Returns the cached reply with the headers of the 304 reply that confirmed it. */
function refreshHeaders(cached: HttpReply, unchanged: HttpReply): HttpReply {
  const newHeaders = Object.entries(unchanged.headers).filter(([name]) => !BODY_HEADERS.test(name))
  return { ...cached, headers: { ...cached.headers, ...Object.fromEntries(newHeaders) } }
}

/**
 * Returns the cache key. Headers belong to it because they may change the reply; `projection` is a projection's name.
 */
function cacheKey(owner: string, { url, headers }: HttpRequest, projection = ''): string {
  const sortedHeaders = Object.entries(headers)
    .map(([name, value]) => [name.toLowerCase(), value])
    .sort(([a = ''], [b = '']) => (a < b ? -1 : 1))
  return createHash('sha256')
    .update(JSON.stringify([owner, url, sortedHeaders, projection]))
    .digest('base64url')
}
