/**
 * RequestQueue decides when each request of one credential may start.
 *
 * People's requests go before background requests, in order of arrival, and background requests never use all slots.
 * Two writes start with a pause between them, and a quota per minute is spread over minutes. While the budget forbids
 * requests, background requests are refused at once, and a person's request when the wait would be long. Sending and
 * retrying are left to RateLimitedHttpClient.
 */
import type { Cancel, Clock, Log, RandomSource } from '../../core/ports.ts'
import type { Urgency } from '../../core/provider-ports.ts'
import { no, type Result, yes } from '../../core/result.ts'
import { HTTP_PAUSE_MS_MAX } from '../../protocol/limits.ts'
import { printable } from '../../protocol/schema-errors.ts'
import type { RateLimitRules } from './client-types.ts'
import { MinuteQuotaWindow } from './minute-quota.ts'
import { refuseMinuteQuota, refuseStopped } from './rate-limit-refusals.ts'
import { type RateLimitEvent, RateLimitState, type ReplyOutcome } from './rate-limit-state.ts'

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
