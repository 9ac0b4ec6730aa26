/**
 * What one courier does with an errand: waits for its turn, carries it, and brings the reply.
 *
 * A refusal for having asked too often is carried again as soon as it may be, if that is soon; an outage only for a
 * plain question. A credential that is not taken any more is, in the background, tried only once in a while. Two who
 * ask the same at once share one reply, unless something was changed in between: whoever has just changed a thing must
 * not be shown how it was.
 */
import type { Clock, Log, RandomSource } from '../../core/ports.ts'
import type { Result } from '../../core/result.ts'
import { HTTP_PAUSE_MS_MAX } from '../../protocol/limits.ts'
import type { RateLimitRules, ServiceRequest } from './client-types.ts'
import { cacheKey, type EtagCache, etagOf, refreshHeaders } from './etag-cache.ts'
import {
  type Http,
  type HttpReply,
  type HttpRequest,
  retryAfterMs,
  retryDelayMs,
  triesAllowed,
} from './http.ts'
import type { ReplyOutcome } from './rate-limit-state.ts'
import { type QueuedRequest, RequestQueue } from './request-queue.ts'

export interface RateLimitedClientPorts {
  readonly http: Pick<Http, 'send'>
  readonly rules: RateLimitRules
  /** Whose replies are kept, as a hash. */
  readonly owner: string
  readonly cache: EtagCache
  readonly clock: Clock
  readonly random: Pick<RandomSource, 'fraction'>
  readonly log: Log
}

interface SharedRequest {
  readonly visit: QueuedRequest
  readonly reply: Promise<Result<HttpReply>>
}

/** However much is asked: an answer that was good within this time is as good as another when no more may be asked. */
const FRESH_MS = 60_000
const OUTAGE_STATUS = 503
/** Where a service wants fewer requests and does not say for how long. */
const DEFAULT_PAUSE_MS = 60_000
/** Many refusals of a credential look like an attack, and some services shut out the whole account for them. */
export const REJECTED_CREDENTIAL_MS = 15 * 60_000

/** The credential was not taken. */
interface RejectedCredential {
  readonly reply: Result<HttpReply>
  /** Monotonic; then what nobody waits for tries it once more. */
  until: number
}

export class RateLimitedHttpClient {
  readonly #ports: RateLimitedClientPorts
  readonly #queue: RequestQueue
  readonly #shared = new Map<string, SharedRequest>()
  /** When the kept reply was last known to hold; oldest first, and none from before something was changed. */
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

  // ---- replies that are kept -------------------------------------------------------------------------------------------

  #share(request: ServiceRequest): Promise<Result<HttpReply>> {
    const key = cacheKey(this.#ports.owner, request, request.projection?.name)
    const running = this.#shared.get(key)
    if (running !== undefined) {
      if (request.urgency === 'person') this.#queue.prioritize(running.visit)
      return running.reply
    }
    const queued = this.#createQueued(request)
    const shared = { visit: queued, reply: this.#revalidate(key, request, queued) }
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

  // ---- on the way ------------------------------------------------------------------------------------------------------

  async #sendWithRetries(request: ServiceRequest, queued: QueuedRequest): Promise<Result<HttpReply>> {
    for (let tries = 1; ; tries++) {
      const { answer, isTooManyRequests } = await this.#sendOnce(request, queued)
      if (isTooManyRequests) {
        // With nothing left to try, whoever comes back is only told until when.
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

  /** A person finds out anew each time. */
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

  /** A write may have been done although nobody said so. */
  #retryDelayMs(
    answer: Result<HttpReply>,
    request: ServiceRequest,
    { writes }: QueuedRequest,
    tries: number,
  ): number | undefined {
    return writes || request.method !== 'GET' ? undefined : retryDelayMs(answer, request, this.#ports, tries)
  }
}

/** Whatever stands in front of a service says it in the words that everybody understands. */
function standardTooManyRequestsMs({ status, headers }: HttpReply, now: number): number | undefined {
  const asked = retryAfterMs(headers['retry-after'], now)
  return status === 429 ? (asked ?? DEFAULT_PAUSE_MS) : status === 403 ? asked : undefined
}

/** What came during an outage was maybe done, so it is not carried again by itself. */
const isOutage = (answer: Result<HttpReply>): boolean => answer.ok && answer.value.status === OUTAGE_STATUS

/** One whose end is named is nobody's to be asked in; a short one is waited for. */
function outageMs({ status, headers }: HttpReply, now: number): number | undefined {
  const asked = status === OUTAGE_STATUS ? retryAfterMs(headers['retry-after'], now) : undefined
  return asked !== undefined && asked > HTTP_PAUSE_MS_MAX ? asked : undefined
}

function applyProjection(reply: HttpReply, { projection }: ServiceRequest): HttpReply {
  return reply.status === 200 && projection !== undefined
    ? { ...reply, text: projection.apply(reply.text) }
    : reply
}

/** How often it is sent is decided here. */
function httpRequestOf({ method, url, headers, body, publicOnly: outside }: ServiceRequest): HttpRequest {
  return {
    method,
    url,
    headers,
    tries: 1,
    ...(body === undefined ? {} : { body }),
    ...(outside === undefined ? {} : { publicOnly: outside }),
  }
}
