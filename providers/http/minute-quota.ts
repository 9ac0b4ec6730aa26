/**
 * What was asked within the last minute, where a service counts that besides what it counts by the hour.
 *
 * It does not say what is left of a minute, and whoever has overdone it is sent away with everything else. So we stop
 * well before: what nobody waits for first, and people a little later, since others may be using the same account.
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
  /** Oldest first; instants are monotonic. */
  readonly #started: { readonly at: number; readonly points: number }[] = []
  #points = 0

  constructor(quota: MinuteQuota) {
    this.#quota = quota
  }

  /** When it may be asked: now, or as soon as enough of what was asked is a minute ago. */
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
