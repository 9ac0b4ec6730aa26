/**
 * RequestQueue decides when each request of one credential may start.
 *
 * People's requests go before background requests, in order of arrival, and background requests never use all slots.
 * Two writes start with a pause between them, and a quota per minute is spread over minutes. While the budget forbids
 * requests, background requests are refused at once, and a person's request when the wait would be long. Sending and
 * retrying are left to RateLimitedHttpClient.
 */
import type { Cancel, Clock, RandomSource } from '../../core/ports/clock.ts'
import type { Urgency } from '../../core/ports/code-host.ts'
import type { Log } from '../../core/ports/log.ts'
import { no, type Refused, type Result, yes } from '../../core/result.ts'
import { HTTP_PAUSE_MS_MAX } from '../../protocol/limits.ts'
import { printable } from '../../protocol/schema-errors.ts'
import type { MinuteQuota, RateLimitRules } from './client-types.ts'
import {
  type RateLimitEvent,
  RateLimitState,
  type ReplyOutcome,
  type ResourceStop,
} from './rate-limit-state.ts'

export interface RequestQueuePorts {
  readonly rules: Pick<RateLimitRules, 'name' | 'concurrencyMax' | 'writeIntervalMs' | 'minuteQuota'>
  readonly clock: Clock
  readonly random: Pick<RandomSource, 'fraction'>
  readonly log: Log
}

/** A request in the queue; all its tries share the record. */
export interface QueuedRequest {
  readonly resource: string
  readonly writes: boolean
  urgency: Urgency
  /** Monotonic; until then a person's request waits instead of being refused. */
  patientUntil: number
  /** Monotonic; the start of the next retry. */
  notBefore: number
}

interface WaitingRequest {
  readonly request: QueuedRequest
  readonly settle: (answer: Result<number>) => void
}

/** Waiting requests beyond this are refused. Showing all pull requests of all repositories takes some thousands. */
const WAITING_MAX = 10_000
/** The share of the concurrent slots for background requests, so that a person's request finds a free one. */
const BACKGROUND_SHARE = 0.75

export class RequestQueue {
  readonly #ports: RequestQueuePorts
  readonly #rateLimits: RateLimitState
  readonly #minuteWindows = new Map<string, MinuteQuotaWindow | undefined>()
  readonly #inFlight = new Map<number, Urgency>()
  /** In order of arrival. */
  readonly #waiting = { person: new Set<WaitingRequest>(), background: new Set<WaitingRequest>() }
  #lastWriteAt = Number.NEGATIVE_INFINITY
  #cancelTimer: Cancel = () => {}
  #isClosed = false

  constructor(ports: RequestQueuePorts) {
    this.#ports = ports
    this.#rateLimits = new RateLimitState((event) => this.#logEvent(event))
  }

  /** Whether the queue can be dropped without losing budget information. */
  get hasNothingToRemember(): boolean {
    return this.#rateLimits.hasNothingToRemember(this.#ports.clock.monotonic())
  }

  createRequest(resource: string, urgency: Urgency, writes: boolean): QueuedRequest {
    const now = this.#ports.clock.monotonic()
    return { resource, urgency, writes, patientUntil: now + HTTP_PAUSE_MS_MAX, notBefore: now }
  }

  /** Resolves with the request's number once it may start. Every acquired number must be released. */
  async acquire(request: QueuedRequest): Promise<Result<number>> {
    const { name } = this.#ports.rules
    if (this.#isClosed) return no('unavailable', `no request is sent to ${name}: this process is stopping`)
    if (this.#waiting.person.size + this.#waiting.background.size >= WAITING_MAX) {
      return no('unavailable', `${WAITING_MAX} requests to ${name} are waiting already; try again in a while`)
    }
    const answer = new Promise<Result<number>>((settle) =>
      this.#waiting[request.urgency].add({ request, settle }),
    )
    this.#startReady()
    return answer
  }

  /** @param outcome undefined when no reply arrived */
  release(number: number, outcome: ReplyOutcome | undefined): void {
    const { clock, random } = this.#ports
    this.#inFlight.delete(number)
    const now = { monotonic: clock.monotonic(), wall: clock.now() }
    this.#rateLimits.recordEnd(number, outcome, now, random.fraction())
    this.#startReady()
  }

  /** Whether the minute quota alone makes the request wait, although the service has rejected nothing. */
  isMinuteQuotaUsed(request: QueuedRequest): boolean {
    const now = this.#ports.clock.monotonic()
    return (this.#minuteWindowOf(request.resource)?.earliestStart(request, now) ?? now) > now
  }

  /** Moves a background request to the people's queue because a person waits for its reply now. */
  prioritize(request: QueuedRequest): void {
    if (request.urgency === 'person') return
    request.urgency = 'person'
    for (const entry of this.#waiting.background) {
      if (entry.request !== request) continue
      this.#waiting.background.delete(entry)
      this.#waiting.person.add(entry)
    }
    request.patientUntil = this.#ports.clock.monotonic() + HTTP_PAUSE_MS_MAX
    this.#startReady()
  }

  /** Refuses all waiting requests; running ones continue. */
  close(): void {
    this.#isClosed = true
    this.#cancelTimer()
    const { name } = this.#ports.rules
    for (const queue of [this.#waiting.person, this.#waiting.background]) {
      for (const { settle } of queue)
        settle(no('unavailable', `no request is sent to ${name}: this process is stopping`))
      queue.clear()
    }
  }

  // ---- starting requests ---------------------------------------------------------------------------------------------

  #startReady(): void {
    this.#cancelTimer()
    const now = this.#ports.clock.monotonic()
    // Only then requests without a free slot have to be checked too, because they may be refused.
    const mayRefuse = this.#rateLimits.mayRefuse(now)
    let nextCheckAt = Number.POSITIVE_INFINITY
    for (const urgency of ['person', 'background'] as const) {
      for (const entry of this.#waiting[urgency]) {
        if (!mayRefuse && !this.#hasCapacity(urgency)) break
        const until = this.#settleOrWait(entry, now)
        if (until === undefined) this.#waiting[urgency].delete(entry)
        else nextCheckAt = Math.min(nextCheckAt, until)
      }
    }
    if (nextCheckAt === Number.POSITIVE_INFINITY || this.#isClosed) return
    this.#cancelTimer = this.#ports.clock.after(Math.max(1, nextCheckAt - now), () => this.#startReady())
  }

  /** Starts or refuses the request and returns undefined, or returns when to check again: infinity waits for a reply. */
  #settleOrWait({ request, settle }: WaitingRequest, now: number): number | undefined {
    const verdict = this.#rateLimits.verdict(request.resource, request.urgency, now)
    if (verdict.is === 'stop') {
      if (request.urgency === 'person' && verdict.until <= request.patientUntil) return verdict.until
      settle(refuseStopped(this.#ports.rules.name, verdict, this.#formatInstant(verdict.until)))
      return undefined
    }
    if (verdict.is === 'wait' || !this.#hasCapacity(request.urgency)) return Number.POSITIVE_INFINITY
    const quotaFreeAt = this.#minuteWindowOf(request.resource)?.earliestStart(request, now) ?? now
    if (request.urgency === 'person' && quotaFreeAt > Math.max(now, request.patientUntil)) {
      settle(refuseMinuteQuota(this.#ports.rules.name, this.#formatInstant(quotaFreeAt)))
      return undefined
    }
    const startAt = Math.max(
      quotaFreeAt,
      request.notBefore,
      request.writes ? this.#lastWriteAt + this.#ports.rules.writeIntervalMs : now,
    )
    if (now < startAt) return startAt
    settle(yes(this.#start(request, now)))
    return undefined
  }

  #start(request: QueuedRequest, now: number): number {
    const number = this.#rateLimits.recordStart(request.resource)
    this.#inFlight.set(number, request.urgency)
    this.#minuteWindowOf(request.resource)?.recordStart(request, now)
    if (request.writes) this.#lastWriteAt = now
    return number
  }

  #minuteWindowOf(resource: string): MinuteQuotaWindow | undefined {
    if (!this.#minuteWindows.has(resource)) {
      const quota = this.#ports.rules.minuteQuota?.(resource)
      this.#minuteWindows.set(resource, quota === undefined ? undefined : new MinuteQuotaWindow(quota))
    }
    return this.#minuteWindows.get(resource)
  }

  #hasCapacity(urgency: Urgency): boolean {
    const { concurrencyMax } = this.#ports.rules
    if (this.#inFlight.size >= concurrencyMax) return false
    if (urgency === 'person') return true
    const background = [...this.#inFlight.values()].filter((started) => started === 'background').length
    return background < Math.max(1, Math.floor(concurrencyMax * BACKGROUND_SHARE))
  }

  // ---- log -------------------------------------------------------------------------------------------------------------

  #logEvent(event: RateLimitEvent): void {
    const { log, rules } = this.#ports
    const fields = { service: rules.name, resource: printable(event.resource) || 'everything' }
    if (event.is === 'open') {
      log.info(fields, 'requests to a service are allowed again')
      return
    }
    const message =
      event.is === 'blocked'
        ? 'requests to a service are paused'
        : 'the remaining budget of a service is reserved for people'
    log.info({ ...fields, until: this.#formatInstant(event.until) }, message)
  }

  /** Returns the wall time, rounded up to the second. */
  #formatInstant(monotonic: number): string {
    const { clock } = this.#ports
    const wall = Math.ceil((clock.now() + Math.max(0, monotonic - clock.monotonic())) / 1_000) * 1_000
    return `${new Date(wall).toISOString().slice(0, 19).replace('T', ' ')} UTC`
  }
}

// ---- the refusals of a stop ----------------------------------------------------------------------------------------

/**
 * Refuses a request that a rate limit stops. The message names the service and the instant from which requests are
 * sent again; the caller formats the instant, because it knows the clock.
 *
 * @param at the formatted instant at which the stop ends
 */
export function refuseStopped(
  service: string,
  { why, resource, limit, remaining }: ResourceStop,
  at: string,
): Refused {
  if (why === 'rate-limited')
    return no('unavailable', `the rate limit of ${service} is reached; no request is sent before ${at}`)
  const left = `${remaining ?? 0}${limit === undefined ? '' : ` of ${limit}`} (${printable(resource)})`
  if (why === 'exhausted') {
    return no(
      'unavailable',
      `the request budget of ${service} for this credential is used up: ${left} are left until ${at}`,
    )
  }
  return no(
    'unavailable',
    `${service}: ${left} are left until ${at}; they are reserved for people's requests`,
  )
}

/** @param at the formatted instant from which the quota allows the request */
export function refuseMinuteQuota(service: string, at: string): Refused {
  return no('unavailable', `the quota of ${service} for this minute is used up; try again after ${at}`)
}

// ---- quotas for each minute ----------------------------------------------------------------------------------------

interface MinuteQuotaRequest {
  readonly urgency: Urgency
  readonly writes: boolean
}

const MINUTE_MS = 60_000
const USABLE_SHARES: Readonly<Record<Urgency, number>> = { background: 0.5, person: 0.8 }

/**
 * MinuteQuotaWindow counts the points spent within the last minute, for services that also limit by the minute.
 *
 * Such a service does not report the remaining points, and exceeding the quota blocks every request of the account.
 * So only a share of the quota is used, because other programs may use the same account: 50 % for background requests,
 * 80 % for a person's.
 */
class MinuteQuotaWindow {
  readonly #quota: MinuteQuota
  /** Oldest first; `at` is in monotonic milliseconds. */
  readonly #started: { readonly at: number; readonly points: number }[] = []
  #points = 0

  constructor(quota: MinuteQuota) {
    this.#quota = quota
  }

  /** Returns when the request may start: now, or once enough earlier requests are a minute old. */
  earliestStart(request: MinuteQuotaRequest, now: number): number {
    this.#dropExpired(now)
    let excess = this.#points + this.#pointsOf(request) - this.#quota.points * USABLE_SHARES[request.urgency]
    for (const { at, points } of this.#started) {
      if (excess <= 0) break
      excess -= points
      if (excess <= 0) return at + MINUTE_MS
    }
    return now
  }

  recordStart(request: MinuteQuotaRequest, now: number): void {
    const points = this.#pointsOf(request)
    this.#started.push({ at: now, points })
    this.#points += points
  }

  #pointsOf({ writes }: MinuteQuotaRequest): number {
    return writes ? this.#quota.write : this.#quota.read
  }

  #dropExpired(now: number): void {
    const first = this.#started.findIndex(({ at }) => at > now - MINUTE_MS)
    const expired = this.#started.splice(0, first < 0 ? this.#started.length : first)
    for (const { points } of expired) this.#points -= points
  }
}
