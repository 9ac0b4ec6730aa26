/**
 * FleetGaps knows which queued runs no connected worker can take, however many slots are free, and why.
 *
 * Runs with equal needs share one answer, so thousands of runs that wait for one agent cost one check. A run whose needs
 * only some workers meet is no gap: the scheduler places it as soon as one of those workers has a free slot.
 */
import { runSubject, type WaitReason, type WorkerFacts } from '../../core/fleet/obstacles.ts'
import { lastingReason } from '../../core/fleet/placement.ts'
import type { JobNeeds } from '../../core/run/job-needs.ts'

interface NeedsGroup {
  readonly needs: JobNeeds
  readonly runs: Set<string>
  reason: WaitReason | undefined
}

export class FleetGaps {
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
