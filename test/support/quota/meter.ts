/**
 * What services are asked and what that costs, written down as it goes out and comes back, in the services' own words.
 *
 * A quota is kept when no hour (or minute) of the whole time was too dear, wherever it begins: so the dearest one is
 * looked for, and not the dearest of those that a service happens to count.
 */
import type { Clock } from '../../../core/ports.ts'
import type { Http, HttpReply, HttpRequest } from '../../../providers/http/http.ts'

export const MINUTE_MS = 60_000
export const HOUR_MS = 60 * MINUTE_MS

const NEVER = Number.POSITIVE_INFINITY

export interface MeterEntry {
  readonly at: number
  readonly request: HttpRequest
  readonly path: string
  readonly resource: 'linear' | 'core' | 'graphql'
  /** In the order in which they went out and came back. */
  readonly began: number
  ended: number
  status: number
  /** Against the hour's quota: points of Linear, requests of REST, points of GraphQL. */
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
  /** Under way at once at most, of everything that was asked. */
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

  /** Of GraphQL only what was used by then is told; it begins anew every hour. */
  #usedSinceLast(used: number): number {
    const spent = used < this.#used ? used : used - this.#used
    this.#used = used
    return spent
  }
}

/** The most of any span of this length. */
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
/** As GitHub weighs what is asked within a minute. */
export const weight = (entry: MeterEntry): number => (isWrite(entry) ? 5 : 1)
/** GraphQL's questions are sent as POST as well. */
export function isWrite({ request: { method, body = '' }, resource }: MeterEntry): boolean {
  return resource === 'graphql' ? body.includes('"mutation ') : method !== 'GET'
}
