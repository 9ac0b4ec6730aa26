/**
 * What was asked within the last minute, where a service counts that besides what it counts by the hour.
 *
 * It does not say what is left of a minute, and whoever has overdone it is sent away with everything else. So we stop
 * well before: what nobody waits for first, and people a little later, since others may be using the same account.
 */
import type { Urgency } from '../../core/provider-ports.ts'
import type { MinuteQuota } from './client-types.ts'

export interface MinuteVisit {
  readonly urgency: Urgency
  readonly writes: boolean
}

const MINUTE_MS = 60_000
const SHARES: Readonly<Record<Urgency, number>> = { background: 0.5, person: 0.8 }

export class Minute {
  readonly #quota: MinuteQuota
  /** Oldest first; instants are monotonic. */
  readonly #asked: { readonly at: number; readonly points: number }[] = []
  #points = 0

  constructor(quota: MinuteQuota) {
    this.#quota = quota
  }

  /** When it may be asked: now, or as soon as enough of what was asked is a minute ago. */
  earliest(visit: MinuteVisit, now: number): number {
    this.#forget(now)
    let over = this.#points + this.#pointsOf(visit) - this.#quota.points * SHARES[visit.urgency]
    for (const { at, points } of this.#asked) {
      if (over <= 0) break
      over -= points
      if (over <= 0) return at + MINUTE_MS
    }
    return now
  }

  begin(visit: MinuteVisit, now: number): void {
    const points = this.#pointsOf(visit)
    this.#asked.push({ at: now, points })
    this.#points += points
  }

  #pointsOf({ writes }: MinuteVisit): number {
    return writes ? this.#quota.write : this.#quota.read
  }

  #forget(now: number): void {
    const first = this.#asked.findIndex(({ at }) => at > now - MINUTE_MS)
    const gone = this.#asked.splice(0, first < 0 ? this.#asked.length : first)
    for (const { points } of gone) this.#points -= points
  }
}
