/**
 * Leaky buckets for requests and points of each caller, full at first and refilled continuously. Reports contain whole
 * numbers and the instant of a full bucket, as Linear's do.
 */
const PERIOD_MS = 3_600_000

export interface LinearLimits {
  readonly requests: number
  readonly points: number
}

/** Documented limits; the real ones are higher. */
export const KEY_LIMITS: LinearLimits = { requests: 1500, points: 250_000 }
export const OAUTH_LIMITS: LinearLimits = { requests: 1200, points: 200_000 }
export const ANONYMOUS_LIMITS: LinearLimits = { requests: 60, points: 10_000 }

export class Quota {
  readonly limits: LinearLimits
  readonly #requests: LeakyBucket
  readonly #points: LeakyBucket

  constructor(limits: LinearLimits, now: () => number) {
    this.limits = limits
    this.#requests = new LeakyBucket(limits.requests, now)
    this.#points = new LeakyBucket(limits.points, now)
  }

  /** Takes one request if available. */
  takeRequest(): boolean {
    return this.#requests.take(1)
  }

  takePoints(points: number): boolean {
    return this.#points.take(points)
  }

  drain(what: 'requests' | 'points' | 'both' = 'both'): void {
    if (what !== 'points') this.#requests.drain()
    if (what !== 'requests') this.#points.drain()
  }

  headers(points: number): Record<string, string> {
    return {
      'X-RateLimit-Requests-Limit': String(this.limits.requests),
      'X-RateLimit-Requests-Remaining': String(this.#requests.remaining),
      'X-RateLimit-Requests-Reset': String(this.#requests.resetAt),
      'X-Complexity': String(points),
      'X-RateLimit-Complexity-Limit': String(this.limits.points),
      'X-RateLimit-Complexity-Remaining': String(this.#points.remaining),
      'X-RateLimit-Complexity-Reset': String(this.#points.resetAt),
    }
  }

  get status(): object[] {
    return [status('REQUESTS', this.#requests, 1), status('COMPLEXITY', this.#points, 0)]
  }
}

function status(type: string, bucket: LeakyBucket, requestedAmount: number): object {
  const { size: allowedAmount, remaining: remainingAmount, resetAt: reset } = bucket
  return { type, requestedAmount, allowedAmount, period: PERIOD_MS, remainingAmount, reset }
}

class LeakyBucket {
  readonly size: number
  readonly #now: () => number
  #level: number
  #at: number

  constructor(size: number, now: () => number) {
    this.size = size
    this.#now = now
    this.#level = size
    this.#at = now()
  }

  take(amount: number): boolean {
    this.#fill()
    if (this.#level < amount) return false
    this.#level -= amount
    return true
  }

  drain(): void {
    this.#fill()
    this.#level = 0
  }

  get remaining(): number {
    this.#fill()
    return Math.floor(this.#level)
  }

  get resetAt(): number {
    this.#fill()
    return Math.ceil(this.#at + ((this.size - this.#level) / this.size) * PERIOD_MS)
  }

  #fill(): void {
    const at = this.#now()
    this.#level = Math.min(this.size, this.#level + (Math.max(0, at - this.#at) / PERIOD_MS) * this.size)
    this.#at = at
  }
}
