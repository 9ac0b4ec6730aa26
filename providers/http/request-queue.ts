/**
 * Where the requests of one credential wait for their turn.
 *
 * People go before what nobody waits for, each in the order of coming, and that never takes all of the room. Between
 * the beginnings of two writes there is a pause, and what a service counts by the minute is spread over minutes. While
 * the budget says no, what nobody waits for is refused at once, and a person as soon as the wait would be a long one;
 * then nothing is sent.
 */

import type { Cancel, Clock, Log, RandomSource } from '../../core/ports.ts'
import type { Urgency } from '../../core/provider-ports.ts'
import { no, type Refused, type Result, yes } from '../../core/result.ts'
import { HTTP_PAUSE_MS_MAX } from '../../protocol/limits.ts'
import { printable } from '../../protocol/schema-errors.ts'
import type { RateLimitRules } from './client-types.ts'
import { MinuteQuotaWindow } from './minute-quota.ts'
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

/** One request on its way, for all of its tries. */
export interface QueuedRequest {
  readonly resource: string
  readonly writes: boolean
  urgency: Urgency
  /** Monotonic; till then a person rather waits than be refused. */
  patientUntil: number
  /** Monotonic; it pauses by itself. */
  notBefore: number
}

interface QueueEntry {
  readonly request: QueuedRequest
  readonly settle: (answer: Result<number>) => void
}

/** Further ones are refused. A page of all pull requests of all repositories is some thousands. */
const WAITING_MAX = 10_000
/** Of the room, what nobody waits for takes at most so much: a click finds a place. */
const BACKGROUND_SHARE = 0.75

export class RequestQueue {
  readonly #ports: RequestQueuePorts
  readonly #rateLimits: RateLimitState
  readonly #minuteWindows = new Map<string, MinuteQuotaWindow | undefined>()
  readonly #inFlight = new Map<number, Urgency>()
  /** In the order of coming. */
  readonly #waiting = { person: new Set<QueueEntry>(), background: new Set<QueueEntry>() }
  #lastWriteAt = Number.NEGATIVE_INFINITY
  #cancelTimer: Cancel = () => {}
  #isClosed = false

  constructor(ports: RequestQueuePorts) {
    this.#ports = ports
    this.#rateLimits = new RateLimitState((event) => this.#logEvent(event))
  }

  /** Nothing would be lost by forgetting what was said of its budget. */
  get hasNothingToRemember(): boolean {
    return this.#rateLimits.hasNothingToRemember(this.#ports.clock.monotonic())
  }

  createRequest(resource: string, urgency: Urgency, writes: boolean): QueuedRequest {
    const now = this.#ports.clock.monotonic()
    return { resource, urgency, writes, patientUntil: now + HTTP_PAUSE_MS_MAX, notBefore: now }
  }

  /** Answers the number with which it leaves. Having entered, it must leave. */
  async acquire(request: QueuedRequest): Promise<Result<number>> {
    const { name } = this.#ports.rules
    if (this.#isClosed) return no('unavailable', `${name} is not asked any more: this process is stopping`)
    if (this.#waiting.person.size + this.#waiting.background.size >= WAITING_MAX) {
      return no('unavailable', `${WAITING_MAX} requests to ${name} are waiting already; try again in a while`)
    }
    const answer = new Promise<Result<number>>((settle) =>
      this.#waiting[request.urgency].add({ request, settle }),
    )
    this.#startReady()
    return answer
  }

  /** @param outcome undefined: there was no reply */
  release(number: number, outcome: ReplyOutcome | undefined): void {
    const { clock, random } = this.#ports
    this.#inFlight.delete(number)
    const now = { monotonic: clock.monotonic(), wall: clock.now() }
    this.#rateLimits.recordEnd(number, outcome, now, random.fraction())
    this.#startReady()
  }

  /** More was asked within this minute than is good: it would have to wait although the service has not refused it. */
  isMinuteQuotaUsed(request: QueuedRequest): boolean {
    const now = this.#ports.clock.monotonic()
    return (this.#minuteWindowOf(request.resource)?.earliestStart(request, now) ?? now) > now
  }

  /** A person waits for it now. */
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

  /** Whoever waits is refused; what is under way goes on. */
  close(): void {
    this.#isClosed = true
    this.#cancelTimer()
    const { name } = this.#ports.rules
    for (const queue of [this.#waiting.person, this.#waiting.background]) {
      for (const { settle } of queue)
        settle(no('unavailable', `${name} is not asked any more: this process is stopping`))
      queue.clear()
    }
  }

  // ---- whose turn it is ----------------------------------------------------------------------------------------------

  #startReady(): void {
    this.#cancelTimer()
    const now = this.#ports.clock.monotonic()
    // Only then somebody is to be refused for whom there is no room either.
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

  /** Undefined: it waits no more. Else till when, which has no end while a reply is to come first. */
  #settleOrWait({ request, settle }: QueueEntry, now: number): number | undefined {
    const verdict = this.#rateLimits.verdict(request.resource, request.urgency, now)
    if (verdict.is === 'stop') {
      if (request.urgency === 'person' && verdict.until <= request.patientUntil) return verdict.until
      settle(this.#stopRefusal(verdict))
      return undefined
    }
    if (verdict.is === 'wait' || !this.#hasCapacity(request.urgency)) return Number.POSITIVE_INFINITY
    const quotaFreeAt = this.#minuteWindowOf(request.resource)?.earliestStart(request, now) ?? now
    if (request.urgency === 'person' && quotaFreeAt > Math.max(now, request.patientUntil)) {
      settle(this.#minuteRefusal(quotaFreeAt))
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
    const { concurrencyMax: atOnce } = this.#ports.rules
    if (this.#inFlight.size >= atOnce) return false
    if (urgency === 'person') return true
    const background = [...this.#inFlight.values()].filter((started) => started === 'background').length
    return background < Math.max(1, Math.floor(atOnce * BACKGROUND_SHARE))
  }

  // ---- what is said of it ----------------------------------------------------------------------------------------------

  #stopRefusal({ why, until, resource, limit, remaining }: ResourceStop): Refused {
    const { name } = this.#ports.rules
    const at = this.#formatInstant(until)
    if (why === 'rate-limited')
      return no('unavailable', `${name} wants fewer requests; nothing is asked before ${at}`)
    const left = `${remaining ?? 0}${limit === undefined ? '' : ` of ${limit}`} (${printable(resource)})`
    if (why === 'exhausted') {
      return no(
        'unavailable',
        `${name} takes no more requests of this credential: ${left} are left until ${at}`,
      )
    }
    return no('unavailable', `${name}: ${left} are left until ${at}; they are kept for what people ask for`)
  }

  #minuteRefusal(until: number): Refused {
    const { name } = this.#ports.rules
    return no(
      'unavailable',
      `as much was asked of ${name} as it takes within a minute; try again after ${this.#formatInstant(until)}`,
    )
  }

  #logEvent(event: RateLimitEvent): void {
    const { log, rules } = this.#ports
    const fields = { service: rules.name, resource: printable(event.resource) || 'everything' }
    if (event.is === 'open') {
      log.info(fields, 'a service is asked again')
      return
    }
    const message =
      event.is === 'blocked'
        ? 'a service is not asked for a while'
        : 'what is left of a budget is kept for people'
    log.info({ ...fields, until: this.#formatInstant(event.until) }, message)
  }

  /** Rounded up to the second. */
  #formatInstant(monotonic: number): string {
    const { clock } = this.#ports
    const wall = Math.ceil((clock.now() + Math.max(0, monotonic - clock.monotonic())) / 1_000) * 1_000
    return `${new Date(wall).toISOString().slice(0, 19).replace('T', ' ')} UTC`
  }
}
