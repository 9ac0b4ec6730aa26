/**
 * DayCostsLedger stores what runs cost today and yesterday, by repository, and reports it as gauges.
 *
 * A cost is stored in the commit that stores it with its run, so a restart neither loses nor repeats any. The days are
 * the host's local days. The number of repositories with a series of their own is bounded.
 */

import type { Clock, Meters } from '../../core/ports.ts'
import { addRepoCost, type DayCosts, localDay, type RepoCost } from '../../core/run/day-costs.ts'
import { type COST_DAYS_KEPT_MAX, METRIC_REPOS_MAX } from '../../protocol/limits.ts'
import type { TrustedClock } from '../clock/trusted-clock.ts'
import type { CommitContribution, CommitParticipant } from '../runtime/commit-loop.ts'
import { StoredCollection, type StoredCollectionPorts } from '../runtime/stored-collection.ts'

/** The label of all repositories beyond METRIC_REPOS_MAX. */
const OTHER_REPOS = 'other'
const DAYS = ['today', 'yesterday'] as const satisfies { readonly length: typeof COST_DAYS_KEPT_MAX }
const NO_COSTS: DayCosts = { costs: [] }

export interface DayCostsLedgerPorts extends StoredCollectionPorts {
  readonly clock: Pick<Clock, 'now'>
  readonly trustedClock: Pick<TrustedClock, 'now'>
}

export class DayCostsLedger implements CommitParticipant {
  readonly #clock: Pick<Clock, 'now'>
  readonly #trustedClock: Pick<TrustedClock, 'now'>
  readonly #days: StoredCollection<DayCosts>
  /** The repositories that have had a series in this process. */
  readonly #labels = new Set<string>()

  constructor(ports: DayCostsLedgerPorts) {
    this.#clock = ports.clock
    this.#trustedClock = ports.trustedClock
    this.#days = new StoredCollection('day-costs', ports, { keepsValues: true })
  }

  /** Returns the label of a repository in metrics. */
  labelOf(repo: string): string {
    const hasOwn = this.#labels.has(repo) || this.#labels.size < METRIC_REPOS_MAX
    const label = hasOwn ? repo : OTHER_REPOS
    this.#labels.add(label)
    return label
  }

  add(cost: RepoCost): void {
    const today = localDay(this.#clock.now())
    const costs = this.#days.get(today)
    if (costs === undefined) this.#deleteOldDays()
    this.#days.set(today, addRepoCost(costs ?? NO_COSTS, cost))
  }

  /** Sets every series of each day, because midnight makes today's costs yesterday's. */
  report(meters: Meters): void {
    const now = this.#clock.now()
    const days = DAYS.map((day, daysAgo) => ({ day, ...this.#labelled(localDay(now, daysAgo)) }))
    for (const { day, costs } of days)
      for (const repo of this.#labels)
        for (const estimated of [false, true]) {
          const cost = costs.find((candidate) => candidate.repo === repo && candidate.estimated === estimated)
          const labels = { day, repo, estimated: String(estimated) }
          meters.gauge('run_costs_day_usd', cost?.usd ?? 0, labels)
        }
  }

  contribute(): CommitContribution | undefined {
    return this.#days.contribute()
  }

  /** An earlier process may have stored more repositories than this one has labels for. */
  #labelled(day: string): DayCosts {
    const { costs } = this.#days.get(day) ?? NO_COSTS
    return costs.reduce((sum, cost) => addRepoCost(sum, { ...cost, repo: this.labelOf(cost.repo) }), NO_COSTS)
  }

  #deleteOldDays(): void {
    const now = this.#trustedClock.now()
    if (now === undefined) return
    const kept = DAYS.map((_, daysAgo) => localDay(now, daysAgo))
    for (const [day] of this.#days.listDurable()) if (!kept.includes(day)) this.#days.set(day, null)
  }
}
