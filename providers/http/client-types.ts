/**
 * These types describe a rate-limited client: it sends requests to one service with one credential.
 *
 * All callers with the same credential share one budget. When the service reports that the budget is used up or
 * answers "too many requests", the client sends nothing until the time that the service named. Background requests
 * wait for a person's requests and stop earlier. Cached replies are only revalidated with their ETag.
 */
import type { Urgency } from '../../core/ports/code-host.ts'
import type { Result } from '../../core/result.ts'
import type { HttpReply, HttpRequest } from './http-types.ts'

export interface ServiceRequest extends HttpRequest {
  readonly urgency: Urgency
  /** Caches the reply of this GET with its ETag. An unchanged reply is returned as 200 and costs almost no budget. */
  readonly cached?: true
  /** Selects the part of a 200 reply's text that is cached and returned; absent: the whole text. */
  readonly projection?: ReplyProjection
  /** Whether the request changes something at the service; absent: every method but GET does. */
  readonly writes?: boolean
}

/** Extracts the used part of a long reply, once per change of the reply. */
export interface ReplyProjection {
  /** Two projections with the same name must be the same function. */
  readonly name: string
  /** Returns the text unchanged when it does not have the expected form. */
  apply(text: string): string
}

export interface RateLimitedClient {
  /**
   * Resolves with a reply of any status that does not mean "too many requests". Refuses with `unavailable` while the
   * budget or the service's rate limit forbids the request (the message says until when), and with `failed` when no
   * reply arrived.
   */
  send(request: ServiceRequest): Promise<Result<HttpReply>>
}

/** The budget of one resource as a reply reports it; absent fields were not reported. */
export interface BudgetReport {
  /** Services count kinds of requests separately. A request draws from every resource that its reply names. */
  readonly resource: string
  readonly limit?: number
  readonly remaining?: number
  /** Wall milliseconds. */
  readonly resetsAt?: number
}

/** A service's quota per minute, in points, and the points of one read and of one write. */
export interface MinuteQuota {
  readonly points: number
  readonly read: number
  readonly write: number
}

/** How to read one service's rate limits from its replies. */
export interface RateLimitRules {
  /** The service's name in messages: `GitHub`, `Linear`. */
  readonly name: string
  /** The resource that a request is expected to draw from, before its reply names any. */
  resourceOf(request: ServiceRequest): string
  budgets(reply: HttpReply, request: ServiceRequest): readonly BudgetReport[]
  /** How long no request may be sent; undefined unless the reply means "too many requests". `now`: wall milliseconds. */
  tooManyRequestsMs(reply: HttpReply, now: number): number | undefined
  /** The number of concurrent requests. */
  readonly concurrencyMax: number
  /** The shortest time between the starts of two writes. */
  readonly writeIntervalMs: number
  /** The quota per minute of a resource, for services that also count by the minute without reporting it. */
  minuteQuota?(resource: string): MinuteQuota | undefined
}

export interface ClientPool {
  /**
   * Returns a client for this service, origin and credential; equal arguments share one budget until the process ends.
   * The client refuses requests to any other origin. For a full address only its origin counts.
   */
  clientFor(rules: RateLimitRules, origin: string, credential: string | undefined): RateLimitedClient
}
