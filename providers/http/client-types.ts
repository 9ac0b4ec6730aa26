/**
 * Asking a service with one credential, on behalf of everybody in this process.
 *
 * All who ask with the same credential share one budget: when the service says that it is used up, or wants fewer
 * requests, nobody asks any more until the time that it named. What nobody waits for stops earlier than what a person
 * clicked, and lets that go first. Of a reply that is kept it is asked only whether it still holds.
 */
import type { Urgency } from '../../core/provider-ports.ts'
import type { Result } from '../../core/result.ts'
import type { HttpReply, HttpRequest } from './http.ts'

export interface ServiceRequest extends HttpRequest {
  readonly urgency: Urgency
  /** A GET whose reply is kept with its ETag: unchanged, it is answered again (as 200) and costs next to nothing. */
  readonly cached?: true
  /** What of the text of a 200 is kept and answered; absent: all of it. */
  readonly projection?: ReplyProjection
  /** It changes something there, whatever its method; absent: as the method says. */
  readonly writes?: boolean
}

/** The part of a long reply that somebody reads, made once for as long as it does not change. */
export interface ReplyProjection {
  /** Those of one name are one. */
  readonly name: string
  /** A text that it can't make anything of stays as it is. */
  apply(text: string): string
}

export interface RateLimitedClient {
  /**
   * Any status but those that mean "too often" is a reply. Refused: `unavailable` when the budget does not allow it
   * now or the service wants fewer requests (the sentence says until when), `failed` when there was no reply.
   */
  send(request: ServiceRequest): Promise<Result<HttpReply>>
}

/** What a reply says of the budget; what it does not say is absent. One reply names a resource once. */
export interface BudgetReport {
  /** Services count different kinds of requests apart; requests like this one draw from all that its reply names. */
  readonly resource: string
  readonly limit?: number
  readonly remaining?: number
  /** Wall milliseconds. */
  readonly resetsAt?: number
}

/** What a service takes within a minute, in points, and how many a request counts. */
export interface MinuteQuota {
  readonly points: number
  readonly read: number
  readonly write: number
}

/** How a service speaks of its limits. */
export interface RateLimitRules {
  /** For people: `GitHub`, `Linear`. */
  readonly name: string
  /** Which of its resources a request draws from, before there is a reply. */
  resourceOf(request: ServiceRequest): string
  budgets(reply: HttpReply, request: ServiceRequest): readonly BudgetReport[]
  /** Milliseconds for which nothing may be asked; undefined when the reply is no "too often". `now`: wall milliseconds. */
  tooManyRequestsMs(reply: HttpReply, now: number): number | undefined
  /** At most so many requests under way. */
  readonly concurrencyMax: number
  /** Between the beginnings of two writes. */
  readonly writeIntervalMs: number
  /** Of a resource, where it counts by the minute as well, of which its replies say nothing. */
  minuteQuota?(resource: string): MinuteQuota | undefined
}

export interface ClientPool {
  /**
   * The same courier for the same service, place and credential, for as long as the process lives. It carries errands
   * to this origin (of an address, its origin counts) and to no other.
   */
  clientFor(rules: RateLimitRules, origin: string, credential: string | undefined): RateLimitedClient
}
