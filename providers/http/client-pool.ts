/**
 * The client pool holds one rate-limited client per service, origin and credential of this process.
 *
 * Clients are keyed by a hash, so the table holds no credential. When the pool is full, an idle client is dropped,
 * preferably one without budget state. Callers hold only a key and never the client itself, so two callers with the
 * same credential always share one budget.
 */
import { createHash } from 'node:crypto'
import type { Clock, RandomSource } from '../../core/ports/clock.ts'
import type { Log } from '../../core/ports/log.ts'
import { no, type Result } from '../../core/result.ts'
import type { ClientPool, RateLimitedClient, RateLimitRules, ServiceRequest } from './client-types.ts'
import type { Http, HttpReply } from './http-types.ts'
import { EtagCache, RateLimitedHttpClient } from './rate-limited-client.ts'

export interface ClientPoolPorts {
  readonly http: Pick<Http, 'send'>
  readonly clock: Clock
  readonly random: Pick<RandomSource, 'fraction'>
  readonly log: Log
}

export const CLIENTS_MAX = 64

export class HttpClientPool implements ClientPool {
  readonly #ports: ClientPoolPorts
  readonly #cache = new EtagCache()
  /** By key, least recently used first. */
  readonly #clients = new Map<string, RateLimitedHttpClient>()
  #isClosed = false

  constructor(ports: ClientPoolPorts) {
    this.#ports = ports
  }

  clientFor(rules: RateLimitRules, origin: string, credential: string | undefined): RateLimitedClient {
    const allowedOrigin = URL.canParse(origin) ? new URL(origin).origin : origin
    const key = createHash('sha256')
      .update(JSON.stringify([rules.name, allowedOrigin, credential ?? null]))
      .digest('base64url')
    return { send: (request) => this.#send(key, rules, allowedOrigin, request) }
  }

  /** Refuses all waiting requests and all later ones. */
  close(): void {
    this.#isClosed = true
    for (const client of this.#clients.values()) client.close()
  }

  async #send(
    key: string,
    rules: RateLimitRules,
    allowedOrigin: string,
    request: ServiceRequest,
  ): Promise<Result<HttpReply>> {
    if (this.#isClosed)
      return no('unavailable', `no request is sent to ${rules.name}: this process is stopping`)
    // Addresses may come from the service's replies, and must not carry the credential to another origin.
    if (!URL.canParse(request.url) || new URL(request.url).origin !== allowedOrigin) {
      return no(
        'invalid',
        `an address from ${rules.name} has another origin than its credential is for; no request was sent`,
      )
    }
    const client = this.#clientWithKey(key, rules)
    if (client === undefined) {
      return no(
        'unavailable',
        `requests with ${CLIENTS_MAX} credentials are running already; try again in a while`,
      )
    }
    return client.send(request)
  }

  #clientWithKey(key: string, rules: RateLimitRules): RateLimitedHttpClient | undefined {
    const known = this.#clients.get(key)
    this.#clients.delete(key)
    if (known === undefined && !this.#evictIdle()) return undefined
    const client =
      known ?? new RateLimitedHttpClient({ ...this.#ports, rules, owner: key, cache: this.#cache })
    this.#clients.set(key, client)
    return client
  }

  #evictIdle(): boolean {
    if (this.#clients.size < CLIENTS_MAX) return true
    const idle = [...this.#clients].filter(([, client]) => client.isIdle)
    const [key] = idle.find(([, client]) => client.hasNothingToRemember) ?? idle[0] ?? []
    return key !== undefined && this.#clients.delete(key)
  }
}
