/**
 * The couriers of this process: one for each service, place and credential, whoever asks for it.
 *
 * They are told apart by a hash, so that no credential lies around in a table, and those that have nothing to do and
 * nothing to remember are forgotten first when there are many. A driver holds only the name of its courier, so two of
 * them never spend from the same budget without knowing of each other.
 */
import { createHash } from 'node:crypto'
import type { Clock, Log, RandomSource } from '../../core/ports.ts'
import { no, type Result } from '../../core/result.ts'
import type { ClientPool, RateLimitedClient, RateLimitRules, ServiceRequest } from './client-types.ts'
import { EtagCache } from './etag-cache.ts'
import type { Http, HttpReply } from './http.ts'
import { RateLimitedHttpClient } from './rate-limited-client.ts'

export interface ClientPoolPorts {
  readonly http: Pick<Http, 'send'>
  readonly clock: Clock
  readonly random: Pick<RandomSource, 'fraction'>
  readonly log: Log
}

export interface ClosableClientPool extends ClientPool {
  /** Whoever waits is refused, and whoever comes. */
  close(): void
}

export const CLIENTS_MAX = 64

export function createClientPool(ports: ClientPoolPorts): ClosableClientPool {
  return new LruClientPool(ports)
}

class LruClientPool implements ClosableClientPool {
  readonly #ports: ClientPoolPorts
  readonly #cache = new EtagCache()
  /** Whoever was asked last comes last. */
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
      return no('unavailable', `${rules.name} is not asked any more: this process is stopping`)
    // An address that a service named itself must not carry the credential elsewhere.
    if (!URL.canParse(request.url) || new URL(request.url).origin !== allowedOrigin) {
      return no(
        'invalid',
        `an address of ${rules.name} leads away from where its credential may go; nothing was asked`,
      )
    }
    const client = this.#clientWithKey(key, rules)
    if (client === undefined) {
      return no('unavailable', `${CLIENTS_MAX} accounts are being asked at once; try again in a while`)
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
    const [key] = idle.find(([, rounds]) => rounds.hasNothingToRemember) ?? idle[0] ?? []
    return key !== undefined && this.#clients.delete(key)
  }
}
