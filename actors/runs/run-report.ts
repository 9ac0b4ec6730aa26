/**
 * RunReport tells operators what happens to runs: one line in the log for each change of status, and metrics of their
 * ends and costs. DayCostsLedger keeps the costs of today and yesterday.
 *
 * It reports what is on disk, so a change that a crash undoes is not reported twice.
 */
import type { Clock } from '../../core/ports/clock.ts'
import type { Meters } from '../../core/ports/log.ts'
import { addRepoCost, type DayCosts, localDay, type RepoCost } from '../../core/run/day-costs.ts'
import {
  classifyRunEnd,
  describeTransition,
  elapsedMs,
  type RunEnd,
} from '../../core/run/describe-transition.ts'
import { chooseRepo } from '../../core/tickets/repo.ts'
import type { COST_DAYS_KEPT_MAX } from '../../protocol/limits.ts'
import type { Run, RunStatus } from '../../protocol/run.ts'
import type { TrustedClock } from '../clock/trusted-clock.ts'
import type { HostContext } from '../host-context.ts'
import type { CommitContribution, CommitParticipant } from '../runtime/commit-loop.ts'
import { StoredCollection, type StoredCollectionPorts } from '../runtime/stored-collection.ts'

export interface RunTransition {
  readonly run: Run
  readonly from: RunStatus | undefined
  readonly job: RunEnd['job']
  readonly workerName: string | undefined
}

/** The label of runs without a repository. */
const NO_REPO = 'none'

export class RunReport implements CommitParticipant {
  readonly #context: HostContext
  readonly #dayCosts: DayCostsLedger
  #pending: (() => void)[] = []

  constructor(context: HostContext, dayCosts: DayCostsLedger) {
    this.#context = context
    this.#dayCosts = dayCosts
  }

  /** How many reports wait for a commit. */
  get size(): number {
    return this.#pending.length
  }

  onTransition(transition: RunTransition): void {
    const now = this.#context.clock.now()
    this.#pending.push(
      () => this.#logTransition(transition, now),
      () => this.#countEnd(transition),
    )
  }

  onCosts(before: Run, after: Run): void {
    if (before.costTotals === after.costTotals) return
    const usd = (after.costTotals?.costUsd ?? 0) - (before.costTotals?.costUsd ?? 0)
    if (usd === 0) return
    const repo = this.#repoLabel(after)
    const estimated = after.costTotals?.estimated ?? false
    this.#dayCosts.add({ repo, estimated, usd })
    // A corrected report may lower the costs, but a counter only rises.
    if (usd > 0) this.#pending.push(() => this.#countCosts(repo, estimated, usd))
  }

  contribute(): CommitContribution | undefined {
    if (this.#pending.length === 0) return undefined
    const reports = this.#pending
    this.#pending = []
    return {
      writes: [],
      onCommitted: () => {
        for (const report of reports) report()
      },
    }
  }

  #logTransition({ run, from, workerName }: RunTransition, now: number): void {
    const { costUsd, estimated } = run.costTotals ?? {}
    const elapsed = elapsedMs(run, now)
    const transition = {
      run: run.id,
      ticket: run.ticket.identifier,
      ...(from === undefined ? {} : { from }),
      to: run.status,
      ...(run.sandbox.workerId === undefined ? {} : { worker: run.sandbox.workerId }),
      ...(elapsed === undefined ? {} : { seconds: elapsed / 1000 }),
      ...(costUsd === undefined ? {} : { costUsd, estimated }),
      ...(run.prUrl === undefined ? {} : { prUrl: run.prUrl }),
    }
    this.#context.log.info({ transition }, describeTransition({ run, workerName, now }))
  }

  #countEnd({ run, job }: RunTransition): void {
    const end = classifyRunEnd(run, job)
    if (end !== undefined) this.#context.meters.count('runs_ended_total', { ...end })
  }

  #countCosts(repo: string, estimated: boolean, usd: number): void {
    this.#context.meters.count('run_costs_usd_total', { repo, estimated: String(estimated) }, usd)
  }

  #repoLabel({ ticket }: Run): string {
    const chosen = chooseRepo(ticket, this.#context.config().repos)
    return this.#dayCosts.labelOf(chosen.ok ? chosen.value.key : NO_REPO)
  }
}

// ---- the costs of a day ------------------------------------------------------------------------------------------

/** Repositories with a series of their own in the metrics of a host's lifetime. */
export const METRIC_REPOS_MAX = 200

/** The label of all repositories beyond METRIC_REPOS_MAX. */
const OTHER_REPOS = 'other'
const DAYS = ['today', 'yesterday'] as const satisfies { readonly length: typeof COST_DAYS_KEPT_MAX }
const NO_COSTS: DayCosts = { costs: [] }

interface DayCostsLedgerPorts extends StoredCollectionPorts {
  readonly clock: Pick<Clock, 'now'>
  readonly trustedClock: Pick<TrustedClock, 'now'>
}

/**
 * DayCostsLedger stores what runs cost today and yesterday, by repository, and reports it as gauges.
 *
 * A cost is stored in the commit that stores it with its run, so a restart neither loses nor repeats any. The days are
 * the host's local days. The number of repositories with a series of their own is bounded.
 */
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
    // A sum that began again would be less than the day has cost.
    if (costs === undefined && this.#isDamaged(today)) return
    if (costs === undefined) this.#deleteOldDays()
    this.#days.set(today, addRepoCost(costs ?? NO_COSTS, cost))
  }

  /** Sets every series of each day, because midnight makes today's costs yesterday's. A damaged day has none. */
  report(meters: Meters): void {
    const now = this.#clock.now()
    const days = DAYS.map((day, daysAgo) => ({ day, date: localDay(now, daysAgo) }))
      .filter(({ date }) => !this.#isDamaged(date))
      .map(({ day, date }) => ({ day, ...this.#labelled(date) }))
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

  #isDamaged(day: string): boolean {
    return this.#days.damageOf(day) !== undefined
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
