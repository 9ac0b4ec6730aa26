/**
 * QueuedRuns keeps each run of the queue in its place, with the reason for which it waits besides a worker.
 *
 * A changed ticket has its own run reconsidered, and the runs that wait for the ticket. The whole queue is reconsidered
 * when the configuration, the repositories or the fleet have changed.
 */
import { runSubject, type WaitReason, type WorkerFacts } from '../../core/fleet/obstacles.ts'
import { lastingReason } from '../../core/fleet/placement.ts'
import type { JobNeeds } from '../../core/run/job-needs.ts'
import { BlockerIndex } from '../../core/tickets/blockers.ts'
import type { Run, Ticket } from '../../protocol/run.ts'
import type { ModuleViews } from '../runtime/module.ts'
import type { LineName, RunQueue } from './run-queue.ts'

type QueueModules = Pick<ModuleViews, 'workers' | 'jobs' | 'tracker'>

export class QueuedRuns {
  readonly #queue: RunQueue
  readonly #modules: QueueModules
  readonly #gaps: FleetGaps
  /** Run ids by the names of the runs' tickets and of these tickets' blockers. */
  readonly #byTicket = new BlockerIndex()
  #reasonsVersion = 0

  constructor(queue: RunQueue, modules: QueueModules) {
    this.#queue = queue
    this.#modules = modules
    this.#gaps = new FleetGaps(() => modules.workers.registry.all())
  }

  /** Changes whenever a queued run begins or ceases to wait for something besides a free slot. */
  get reasonsVersion(): number {
    return this.#reasonsVersion
  }

  needsOf(runId: string): JobNeeds | undefined {
    return this.#gaps.needsOf(runId)
  }

  /** Whether fewer workers can take the run than its needs say. */
  hasOwnSetback(runId: string): boolean {
    return this.#gaps.hasOwnSetback(runId)
  }

  add(run: Run): void {
    this.#gaps.setNeeds(run.id, this.#modules.jobs.preparation.needsOf(run))
    const ticket = this.#ticketOf(run)
    this.#indexRun(run.id, ticket)
    this.#queue.add(run, this.#waitingFor(run), ticket, this.#lineOf(run))
  }

  /** Reconsiders a run whose record has changed. Returns whether its place or its reason has changed. */
  update(run: Run): boolean {
    this.#gaps.setNeeds(run.id, this.#modules.jobs.preparation.needsOf(run))
    this.#queue.update(run)
    return this.#reconsider(run)
  }

  remove(runId: string): void {
    this.#gaps.forget(runId)
    this.#byTicket.delete(runId)
    this.#queue.remove(runId)
  }

  /** Holds the run back, for another reason when none is known. */
  hold(run: Run, otherwise: WaitReason): void {
    this.#queue.add(run, this.#waitingFor(run) ?? otherwise, this.#ticketOf(run), this.#lineOf(run))
  }

  /** Reconsiders every run. */
  refreshAll(): void {
    const { preparation } = this.#modules.jobs
    for (const run of this.#queue.runs()) this.#gaps.setNeeds(run.id, preparation.needsOf(run))
    this.#gaps.refresh()
    this.#reconsiderAll()
  }

  /** Reconsiders every run if a reason that lies in the fleet has changed. */
  refreshFleet(): void {
    if (this.#gaps.refresh()) this.#reconsiderAll()
  }

  /** Lets any worker take the runs of a worker that is no longer enrolled, or whose sandboxes are no longer retained. */
  releaseRuns(now: number): void {
    for (const line of [...this.#queue.lines()]) {
      const { workerId, until } = line
      if (
        workerId === undefined ||
        (until > now && this.#modules.workers.registry.get(workerId) !== undefined)
      )
        continue
      const runs = [...line.runIds()].flatMap((runId) => this.#queue.run(runId) ?? [])
      // The line ends first, so that the one that may follow has an instant of its own.
      for (const { id } of runs) this.#queue.remove(id)
      for (const run of runs)
        this.#queue.add(run, this.#waitingFor(run), this.#ticketOf(run), this.#lineOf(run))
    }
  }

  /**
   * Reconsiders the runs of changed tickets. What their jobs need follows from the tickets in their records (`update`).
   * Returns whether the place or the reason of a run has changed.
   *
   * @param names ids and identifiers of the changed tickets, and of those that wait for one of them
   */
  refreshRunsOf(names: Iterable<string>): boolean {
    const affected = new Set<string>()
    for (const name of names) for (const runId of this.#byTicket.waitingFor(name)) affected.add(runId)
    let isChanged = false
    for (const runId of affected) {
      const run = this.#queue.run(runId)
      if (run !== undefined && this.#reconsider(run)) isChanged = true
    }
    return isChanged
  }

  /** The run's ticket as the tracker has it now, so that a changed priority reorders the queue. */
  #ticketOf(run: Run): Ticket {
    return this.#modules.tracker.intake.currentTicket(run.ticket)
  }

  #reconsiderAll(): void {
    for (const run of [...this.#queue.runs()]) this.#reconsider(run)
  }

  #reconsider(run: Run): boolean {
    const waitingFor = this.#waitingFor(run)
    const ticket = this.#ticketOf(run)
    this.#indexRun(run.id, ticket)
    const isSameReason = waitingFor?.reason === this.#queue.blockedBy(run.id)?.reason
    if (!isSameReason) this.#reasonsVersion += 1
    const line = this.#lineOf(run)
    if (isSameReason && this.#queue.isInPlace(run.id, ticket, line)) return false
    this.#queue.add(run, waitingFor, ticket, line)
    return true
  }

  #indexRun(runId: string, { id, blockedBy }: Ticket): void {
    this.#byTicket.set(runId, [id, ...blockedBy])
  }

  #lineOf(run: Run): LineName {
    const holder = this.#modules.jobs.preparation.sandboxHolder(run)
    if (holder === undefined) return { key: `needs ${this.needsOf(run.id)?.key ?? ''}` }
    return { key: `worker ${holder.workerId}`, only: holder }
  }

  /** Returns the reason besides a missing free slot. */
  #waitingFor(run: Run): WaitReason | undefined {
    return this.#modules.jobs.preparation.waitingFor(run) ?? this.#gaps.reasonFor(run.id)
  }
}

interface NeedsGroup {
  readonly needs: JobNeeds
  readonly runs: Set<string>
  reason: WaitReason | undefined
}

/**
 * FleetGaps knows which queued runs no connected worker can take, however many slots are free, and why.
 *
 * Runs with equal needs share one answer, so thousands of runs that wait for one agent cost one check. A run whose needs
 * only some workers meet is no gap: the scheduler places it as soon as one of those workers has a free slot.
 */
class FleetGaps {
  readonly #workers: () => Iterable<WorkerFacts>
  readonly #groups = new Map<string, NeedsGroup>()
  readonly #groupOfRun = new Map<string, NeedsGroup>()
  /** The runs that have a setback of their own, with the reason of those that no connected worker can take. */
  #ownReasons = new Map<string, WaitReason | undefined>()

  constructor(workers: () => Iterable<WorkerFacts>) {
    this.#workers = workers
  }

  setNeeds(runId: string, needs: JobNeeds | undefined): void {
    if (this.#groupOfRun.get(runId)?.needs.key === needs?.key) return
    this.forget(runId)
    if (needs === undefined) return
    const group = this.#groups.get(needs.key) ?? this.#createGroup(needs)
    group.runs.add(runId)
    this.#groupOfRun.set(runId, group)
  }

  forget(runId: string): void {
    const group = this.#groupOfRun.get(runId)
    this.#groupOfRun.delete(runId)
    group?.runs.delete(runId)
    if (group?.runs.size === 0) this.#groups.delete(group.needs.key)
  }

  needsOf(runId: string): JobNeeds | undefined {
    return this.#groupOfRun.get(runId)?.needs
  }

  /** Why no connected worker can take the run; undefined when one can, or when none is connected. */
  reasonFor(runId: string): WaitReason | undefined {
    return this.#groupOfRun.get(runId)?.reason ?? this.#ownReasons.get(runId)
  }

  /** Whether fewer workers can take the run than its needs say. */
  hasOwnSetback(runId: string): boolean {
    return this.#ownReasons.has(runId)
  }

  /** Asks the workers again. Returns whether a reason has changed. */
  refresh(): boolean {
    let isChanged = false
    for (const group of this.#groups.values()) {
      const reason = lastingReason({ runId: '', needs: group.needs }, this.#workers())
      if (reason?.reason === group.reason?.reason) continue
      group.reason = reason
      isChanged = true
    }
    const ownReasons = this.#findOwnReasons()
    if (JSON.stringify([...ownReasons]) !== JSON.stringify([...this.#ownReasons])) isChanged = true
    this.#ownReasons = ownReasons
    return isChanged
  }

  #createGroup(needs: JobNeeds): NeedsGroup {
    const reason = lastingReason({ runId: '', needs }, this.#workers())
    const group: NeedsGroup = { needs, runs: new Set(), reason }
    this.#groups.set(needs.key, group)
    return group
  }

  #findOwnReasons(): Map<string, WaitReason | undefined> {
    const reasons = new Map<string, WaitReason | undefined>()
    for (const { setbacks } of this.#workers()) {
      // Nearly all workers have none, and this is asked before each commit.
      if (setbacks === undefined || setbacks.size === 0) continue
      for (const subject of setbacks.keys()) this.#addOwnReason(reasons, subject)
    }
    return reasons
  }

  #addOwnReason(reasons: Map<string, WaitReason | undefined>, subject: string): void {
    const runId = runIdOf(subject)
    const needs = runId === undefined ? undefined : this.needsOf(runId)
    if (runId === undefined || needs === undefined) return
    reasons.set(runId, lastingReason({ runId, needs }, this.#workers()))
  }
}

const RUN_SUBJECT = runSubject('')
const runIdOf = (subject: string): string | undefined =>
  subject.startsWith(RUN_SUBJECT) ? subject.slice(RUN_SUBJECT.length) : undefined
