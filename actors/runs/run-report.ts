/**
 * RunReport tells operators what happens to runs: one line in the log for each change of status, and metrics of their
 * ends and costs.
 *
 * It reports what is on disk, so a change that a crash undoes is not reported twice.
 */
import type { Clock, Log, Meters } from '../../core/ports.ts'
import { describeTransition, elapsedMs } from '../../core/run/describe-transition.ts'
import { classifyRunEnd, type RunEnd } from '../../core/run/run-end.ts'
import { chooseRepo } from '../../core/tickets/repo.ts'
import type { ServiceConfig } from '../../protocol/config.ts'
import type { Run, RunStatus } from '../../protocol/run.ts'
import type { CommitContribution, CommitParticipant } from '../runtime/commit-loop.ts'
import type { DayCostsLedger } from './day-costs-ledger.ts'

export interface RunReportPorts {
  readonly clock: Pick<Clock, 'now'>
  readonly log: Log
  readonly meters: Meters
  readonly config: () => ServiceConfig
  readonly dayCosts: Pick<DayCostsLedger, 'add' | 'labelOf'>
}

export interface RunTransition {
  readonly run: Run
  readonly from: RunStatus | undefined
  readonly job: RunEnd['job']
  readonly workerName: string | undefined
}

/** The label of runs without a repository. */
const NO_REPO = 'none'

export class RunReport implements CommitParticipant {
  readonly #ports: RunReportPorts
  #pending: (() => void)[] = []

  constructor(ports: RunReportPorts) {
    this.#ports = ports
  }

  /** How many reports wait for a commit. */
  get size(): number {
    return this.#pending.length
  }

  onTransition(transition: RunTransition): void {
    const now = this.#ports.clock.now()
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
    this.#ports.dayCosts.add({ repo, estimated, usd })
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
    this.#ports.log.info({ transition }, describeTransition({ run, workerName, now }))
  }

  #countEnd({ run, job }: RunTransition): void {
    const end = classifyRunEnd(run, job)
    if (end !== undefined) this.#ports.meters.count('runs_ended_total', { ...end })
  }

  #countCosts(repo: string, estimated: boolean, usd: number): void {
    this.#ports.meters.count('run_costs_usd_total', { repo, estimated: String(estimated) }, usd)
  }

  #repoLabel({ ticket }: Run): string {
    const chosen = chooseRepo(ticket, this.#ports.config().repos)
    return this.#ports.dayCosts.labelOf(chosen.ok ? chosen.value.key : NO_REPO)
  }
}
