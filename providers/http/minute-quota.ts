/**
 * MinuteQuotaWindow counts the points spent within the last minute, for services that also limit by the minute.
 *
 * Such a service does not report the remaining points, and exceeding the quota blocks every request of the account.
 * So only a share of the quota is used, because other programs may use the same account: 50 % for background requests,
 * 80 % for a person's.
 */
import type { Urgency } from '../../core/provider-ports.ts'
import type { MinuteQuota } from './client-types.ts'

export interface MinuteQuotaRequest {
  readonly urgency: Urgency
  readonly writes: boolean
}

const MINUTE_MS = 60_000
const USABLE_SHARES: Readonly<Record<Urgency, number>> = { background: 0.5, person: 0.8 }

export class MinuteQuotaWindow {
  readonly #quota: MinuteQuota
  /** Oldest first; `at` is in monotonic milliseconds. */
  readonly #started: { readonly at: number; readonly points: number }[] = []
  #points = 0

  constructor(quota: MinuteQuota) {
    this.#quota = quota
  }

  /** Returns when the request may start: now, or once enough earlier requests are a minute old. */
  earliestStart(request: MinuteQuotaRequest, now: number): number {
    this.#dropExpired(now)
    let excess = this.#points + this.#pointsOf(request) - this.#quota.points * USABLE_SHARES[request.urgency]
    for (const { at, points } of this.#started) {
      if (excess <= 0) break
      excess -= points
      if (excess <= 0) return at + MINUTE_MS
    }
    return now
  }

  recordStart(request: MinuteQuotaRequest, now: number): void {
    const points = this.#pointsOf(request)
    this.#started.push({ at: now, points })
    this.#points += points
  }

  #pointsOf({ writes }: MinuteQuotaRequest): number {
    return writes ? this.#quota.write : this.#quota.read
  }

  #dropExpired(now: number): void {
    const first = this.#started.findIndex(({ at }) => at > now - MINUTE_MS)
    const expired = this.#started.splice(0, first < 0 ? this.#started.length : first)
    for (const { points } of expired) this.#points -= points
  }
}
