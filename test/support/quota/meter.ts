/**
 * Meter records every request to the services and its cost, as the services report it.
 *
 * A quota is kept when no hour (or minute) exceeds it, wherever the hour begins. So `peak` searches all spans, not only
 * the windows that a service counts.
 */
import type { Clock } from '../../../core/ports/clock.ts'
import type { Http, HttpReply, HttpRequest } from '../../../providers/http/http-types.ts'

export const MINUTE_MS = 60_000
export const HOUR_MS = 60 * MINUTE_MS

const NEVER = Number.POSITIVE_INFINITY

export interface MeterEntry {
  readonly at: number
  readonly request: HttpRequest
  readonly path: string
  readonly resource: 'linear' | 'core' | 'graphql'
  /** A sequence number over all starts and ends, like `ended`. */
  readonly began: number
  ended: number
  status: number
  /** The cost in the hourly quota: Linear points, REST requests, GraphQL points. */
  cost: number
}

export class Meter {
  readonly entries: MeterEntry[] = []
  readonly #http: Pick<Http, 'send'>
  readonly #clock: Pick<Clock, 'now'>
  readonly #isLinear: (url: string) => boolean
  #used = 0
  #lastMoment = 0
  inFlight = 0
  /** The highest number of concurrent requests. */
  inFlightMax = 0

  constructor(http: Pick<Http, 'send'>, clock: Pick<Clock, 'now'>, isLinear: (url: string) => boolean) {
    this.#http = http
    this.#clock = clock
    this.#isLinear = isLinear
  }

  readonly send: Http['send'] = async (request) => {
    const entry = this.#recordStart(request)
    this.inFlight += 1
    this.inFlightMax = Math.max(this.inFlightMax, this.inFlight)
    try {
      const answer = await this.#http.send(request)
      if (answer.ok) this.#recordReply(entry, answer.value)
      return answer
    } finally {
      entry.ended = ++this.#lastMoment
      this.inFlight -= 1
    }
  }

  forget(): void {
    this.entries.length = 0
    this.inFlightMax = 0
  }

  of(...resources: readonly MeterEntry['resource'][]): readonly MeterEntry[] {
    return this.entries.filter(({ resource }) => resources.includes(resource))
  }

  #recordStart(request: HttpRequest): MeterEntry {
    const path = new URL(request.url).pathname
    const resource = this.#isLinear(request.url) ? 'linear' : path.endsWith('/graphql') ? 'graphql' : 'core'
    const [at, began] = [this.#clock.now(), ++this.#lastMoment]
    const entry: MeterEntry = { at, began, ended: NEVER, request, path, resource, status: 0, cost: 0 }
    this.entries.push(entry)
    return entry
  }

  #recordReply(entry: MeterEntry, { status, headers }: HttpReply): void {
    entry.status = status
    if (entry.resource === 'linear') entry.cost = Number(headers['x-complexity'] ?? 0)
    else if (entry.resource === 'core') entry.cost = status === 304 ? 0 : 1
    else entry.cost = this.#usedSinceLast(Number(headers['x-ratelimit-used'] ?? 0))
  }

  /** GitHub reports only the GraphQL points used so far, and resets them every hour. */
  #usedSinceLast(used: number): number {
    const spent = used < this.#used ? used : used - this.#used
    this.#used = used
    return spent
  }
}

/** The highest sum within any span of this length. */
export function peak(
  entries: readonly MeterEntry[],
  spanMs: number,
  weigh: (entry: MeterEntry) => number,
): number {
  let [from, sum, most] = [0, 0, 0]
  for (const entry of entries) {
    sum += weigh(entry)
    for (let first = entries[from]; first !== undefined && first.at <= entry.at - spanMs; ) {
      sum -= weigh(first)
      from += 1
      first = entries[from]
    }
    most = Math.max(most, sum)
  }
  return most
}

export const countOne = (): number => 1
export const cost = ({ cost }: MeterEntry): number => cost
/** GitHub's points of a request in the quota per minute. */
export const weight = (entry: MeterEntry): number => (isWrite(entry) ? 5 : 1)
/** GraphQL queries are POST requests too, so the body decides. */
export function isWrite({ request: { method, body = '' }, resource }: MeterEntry): boolean {
  return resource === 'graphql' ? body.includes('"mutation ') : method !== 'GET'
}
