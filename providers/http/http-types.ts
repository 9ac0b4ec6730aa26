/**
 * These types are what callers of the HTTP client name: the request, the reply, the client itself and its options.
 *
 * They have a file of their own, because the parts of the client name them, too.
 */
import type { LookupFunction } from 'node:net'
import type { Clock, RandomSource } from '../../core/ports/clock.ts'
import type { Result } from '../../core/result.ts'

export interface HttpRequest {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string
  /** Secret parts of the body; they are redacted from the reply like a credential in a header. */
  readonly secrets?: readonly string[]
  /** Refuses the request when the host resolves to a private address. */
  readonly publicOnly?: true
  /** How often the request may be sent; absent or greater: HTTP_TRIES_MAX times. */
  readonly tries?: number
}

export interface HttpReply {
  readonly status: number
  /** Names in lower case; a repeated header keeps its first value. */
  readonly headers: Readonly<Record<string, string>>
  readonly text: string
}

export interface Http {
  /** Resolves with a reply of any status. Refuses with `failed` without a reply and with `unavailable` once closed. */
  send(request: HttpRequest): Promise<Result<HttpReply>>
  close(): Promise<void>
}

/** The values of the proxy variables of the environment; empty when unset. */
export interface ProxySettings {
  readonly http: string
  readonly https: string
  readonly noProxy: string
}

export interface HttpOptions {
  readonly clock: Pick<Clock, 'after' | 'now'>
  readonly random: Pick<RandomSource, 'fraction'>
  /** Certificates of trusted authorities; absent: those that Node contains. */
  readonly certificateAuthorities?: readonly string[]
  /** Proxies to use; absent: all connections are direct. */
  readonly proxies?: ProxySettings
  /** Asked before each request; absent: requests are sent until the client is closed. */
  readonly maySend?: () => boolean
  /** Replaces the name resolution of this machine. */
  readonly lookup?: LookupFunction
}
