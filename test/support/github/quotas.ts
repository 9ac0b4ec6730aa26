/**
 * GitHub's rate limits: an hourly budget per person and resource, and secondary limits for concurrent requests and
 * requests per minute.
 */
export type Resource = 'core' | 'graphql'

export interface Window {
  readonly limit: number
  used: number
  readonly resetMs: number
}

/** Cost of a request. */
export interface RequestWeight {
  readonly resource: Resource
  readonly points: number
  readonly creates: boolean
}

export interface GithubLimits {
  /** Requests or GraphQL points per hour. */
  readonly hourly: number
  readonly anonymousHourly: number
  readonly concurrent: number
  readonly pointsPerMinute: Readonly<Record<Resource, number>>
  readonly createdPerMinute: number
  readonly createdPerHour: number
}

export const GITHUB_LIMITS: GithubLimits = {
  hourly: 5000,
  anonymousHourly: 60,
  concurrent: 100,
  pointsPerMinute: { core: 900, graphql: 2000 },
  createdPerMinute: 80,
  createdPerHour: 500,
}

const MINUTE_MS = 60_000
const HOUR_MS = 60 * MINUTE_MS
/** Pause after a secondary limit. */
const PAUSE_MS = MINUTE_MS

interface Spent {
  readonly atMs: number
  readonly weight: RequestWeight
}

interface Account {
  readonly windows: Map<Resource, Window>
  /** Requests of the last hour for creations, of the last minute for others. */
  spent: Spent[]
  concurrent: number
  pausedUntilMs: number
}

export class Quotas {
  readonly #limits: GithubLimits
  readonly #now: () => number
  readonly #accounts = new Map<string, Account>()

  constructor(limits: GithubLimits, now: () => number) {
    this.#limits = limits
    this.#now = now
  }

  /** Current hourly window of a person; undefined: anonymous. */
  window(login: string | undefined, resource: Resource): Window {
    const { windows } = this.#account(login)
    const found = windows.get(resource)
    if (found !== undefined && found.resetMs > this.#now()) return found
    const limit = login === undefined ? this.#limits.anonymousHourly : this.#limits.hourly
    const fresh = { limit, used: 0, resetMs: this.#now() + HOUR_MS }
    windows.set(resource, fresh)
    return fresh
  }

  /** Pause in seconds; undefined when the request is allowed, which counts it. */
  secondary(login: string | undefined, weight: RequestWeight): number | undefined {
    const account = this.#account(login)
    const now = this.#now()
    if (account.pausedUntilMs <= now && this.#overdone(account, weight))
      account.pausedUntilMs = now + PAUSE_MS
    if (account.pausedUntilMs > now) return Math.ceil((account.pausedUntilMs - now) / 1000)
    account.spent.push({ atMs: now, weight })
    return undefined
  }

  #overdone(account: Account, weight: RequestWeight): boolean {
    const now = this.#now()
    account.spent = account.spent.filter(
      ({ atMs, weight: { creates } }) => now - atMs < (creates ? HOUR_MS : MINUTE_MS),
    )
    const minute = account.spent.filter(({ atMs }) => now - atMs < MINUTE_MS)
    const points = minute
      .filter((request) => request.weight.resource === weight.resource)
      .reduce((sum, request) => sum + request.weight.points, weight.points)
    const createdIn = (spent: readonly Spent[]): number =>
      spent.filter((request) => request.weight.creates).length
    const creating =
      createdIn(minute) >= this.#limits.createdPerMinute ||
      createdIn(account.spent) >= this.#limits.createdPerHour
    if (account.concurrent > this.#limits.concurrent) return true
    return points > this.#limits.pointsPerMinute[weight.resource] || (weight.creates && creating)
  }

  /** Registers a running request; call the result when it has been answered. */
  enter(login: string | undefined): () => void {
    const account = this.#account(login)
    account.concurrent++
    return () => void account.concurrent--
  }

  #account(login: string | undefined): Account {
    const key = login ?? ''
    const found = this.#accounts.get(key)
    if (found !== undefined) return found
    const fresh: Account = { windows: new Map(), spent: [], concurrent: 0, pausedUntilMs: 0 }
    this.#accounts.set(key, fresh)
    return fresh
  }
}

export function rateHeaders({ limit, used, resetMs }: Window, resource: Resource): Record<string, string> {
  return {
    'x-ratelimit-limit': String(limit),
    'x-ratelimit-remaining': String(Math.max(0, limit - used)),
    'x-ratelimit-used': String(Math.min(limit, used)),
    'x-ratelimit-reset': String(Math.ceil(resetMs / 1000)),
    'x-ratelimit-resource': resource,
  }
}
