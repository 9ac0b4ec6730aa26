/**
 * Scheduler grants a lease for the first queued run as soon as a worker has a free slot.
 *
 * Runs are placed right before a commit, and only when something changed. A newly queued run and its lease therefore
 * become durable in one commit, and there is no polling interval. `worker-availability.ts`
 * chooses the worker; `core/fleet/placement.ts` says to people why a run waits.
 */
import type { PlacementRequest, WaitReason } from '../../core/fleet/obstacles.ts'
import {
  DISK_FULL,
  explainPlacement,
  LEASE_LOST,
  PAUSED,
  placeRun,
  REPORTS_WAIT,
} from '../../core/fleet/placement.ts'
import { awaitsAnyWorker, experienceOf, isHeldByOperator } from '../../core/fleet/wanted.ts'
import { withRepoOfRun } from '../../core/run/follow-up.ts'
import { isInterruption } from '../../core/run/interruption.ts'
import type { JobNeeds } from '../../core/run/job-needs.ts'
import { isTerminal } from '../../core/run/run-transitions.ts'
import type { Placement } from '../../protocol/explain.ts'
import type { Run } from '../../protocol/run.ts'
import type { HostContext } from '../host-context.ts'
import { isWaiting, type RunContext } from '../runs/run.machine.ts'
import type { StateChange } from '../runtime/actor-system.ts'
import type { ModuleViews } from '../runtime/module.ts'
import { QueuedRuns } from './queued-runs.ts'
import { type QueueLine, type QueueWalk, RunQueue } from './run-queue.ts'
import { canTakeNone, hasAvailable, inWallTime, workerFor } from './worker-availability.ts'
import type { WorkerRegistry } from './worker-registry.ts'

type SchedulerModules = Pick<ModuleViews, 'workers' | 'runs' | 'jobs' | 'tracker' | 'leases' | 'trustedClock'>

/** Granting so many takes 6 ms. A fleet that arrives gets its runs with several commits. */
export const GRANTS_PER_COMMIT_MAX = 100

export class Scheduler {
  readonly queue = new RunQueue()
  readonly #context: HostContext
  readonly #modules: SchedulerModules
  readonly #workers: WorkerRegistry
  readonly #queuedRuns: QueuedRuns
  readonly wantedRuns: WantedRuns
  #isStale = false
  /** By the key of the needs. */
  readonly #sharedReasons = new Map<string, WaitReason | undefined>()

  constructor(context: HostContext, modules: SchedulerModules) {
    this.#context = context
    this.#modules = modules
    this.#workers = modules.workers.registry
    this.#queuedRuns = new QueuedRuns(this.queue, modules)
    this.wantedRuns = new WantedRuns(this.#workers, this.queue, (run) => this.placementRequest(run))
  }

  /** Keeps the queue in step with the runs: a queued run without a lease waits in it. */
  onRunChange({ key, before, after, over }: StateChange<RunContext>): void {
    const context = after.context
    const contextBefore = before?.context
    if (over || !isWaiting(context)) this.remove(key)
    else if (contextBefore === undefined || !isWaiting(contextBefore)) this.add(context.run)
    else if (context.run !== contextBefore.run && this.#queuedRuns.update(context.run))
      this.requestScheduling()
  }

  /** A run was queued. */
  add(run: Run): void {
    this.#queuedRuns.add(run)
    this.requestScheduling()
  }

  /** A run is no longer queued. */
  remove(runId: string): void {
    this.wantedRuns.forget()
    this.#queuedRuns.remove(runId)
  }

  /** Reconsiders every queued run after the configuration changed, or everything was restored. */
  refreshQueue(): void {
    this.#queuedRuns.refreshAll()
    this.requestScheduling()
  }

  /** Reconsiders the queued runs whose tickets or blockers have these names. */
  refreshRunsOf(names: Iterable<string>): void {
    if (this.#queuedRuns.refreshRunsOf(names)) this.requestScheduling()
  }

  /** Something changed that may let a run be placed. */
  requestScheduling(): void {
    this.#isStale = true
    this.wantedRuns.forget()
    this.#sharedReasons.clear()
    this.#context.requestCommit()
  }

  /** Called before each commit. */
  placeRuns(): void {
    if (!this.#isStale) return
    this.#queuedRuns.refreshFleet()
    const { isServing, store, config, clock } = this.#context
    if (!isServing() || store.database.state().is !== 'ready') return
    this.#isStale = false
    if (config().policy.paused) return
    this.#queuedRuns.releaseRuns(this.#modules.trustedClock.now() ?? Number.NEGATIVE_INFINITY)
    const now = this.#now()
    const walk = this.queue.walk()
    let grants = 0
    try {
      while (hasAvailable(this.#workers, now)) {
        if (grants >= GRANTS_PER_COMMIT_MAX) {
          clock.endOfTick(() => this.requestScheduling())
          break
        }
        const entry = walk.first()
        if (entry === undefined) break
        const run = this.queue.run(entry.runId)
        if (run === undefined) walk.passRun()
        else if (this.#placeFirst(run, entry.line, walk, now)) grants += 1
      }
    } finally {
      walk.end()
    }
  }

  #now(): number {
    return this.#context.timers.now()
  }

  #isDiskFull(): boolean {
    return this.#context.store.database.state().is === 'degraded'
  }

  /** Returns whether a lease was granted. */
  #placeFirst(run: Run, line: QueueLine, walk: QueueWalk, now: number): boolean {
    const { jobs, leases } = this.#modules
    const request = this.placementRequest(run)
    const worker = workerFor(this.#workers, request, now)
    if (worker === undefined) {
      // A run may stand in a wrong line for a while, for example while workers are restored. It speaks for itself only.
      const isInItsLine = request.requiredWorker === line.workerId
      if (isInItsLine && canTakeNone(this.#workers, request, now)) walk.passLine()
      else walk.passRun()
      return false
    }
    const readiness = jobs.preparation.readiness(run)
    if (readiness === 'later') walk.passRun()
    // A run that is held back for no known reason must not be examined over and over.
    else if (readiness === 'held') this.#queuedRuns.hold(run, BEING_MADE_READY)
    else {
      leases.manager.grantLease(run, worker)
      this.#sharedReasons.clear()
      const isGranted = !this.queue.has(run.id)
      // A run that could not be granted must not be tried for ever.
      if (!isGranted) walk.passRun()
      return isGranted
    }
    return false
  }

  /** Returns the run as people see it: with its repository's key, and with its wait reason of now until it has ended. */
  shownRun(run: Run): Run {
    return this.#withWaitReason(withRepoOfRun(run, this.#context.config().repos))
  }

  #withWaitReason(run: Run): Run {
    if (isTerminal(run.status)) return run
    if (run.status !== 'queued') {
      const waitReason = this.#isDiskFull() ? REPORTS_WAIT : this.#lostLeaseReason(run)?.reason
      return waitReason === undefined ? run : { ...run, waitReason }
    }
    const reason = this.reasonFor(run)?.reason
    if (reason === undefined) return run
    // The stored reason says why the run was queued again, the other why it still waits. What a worker lacked at its
    // last attempt may be there by now, so only the present reason counts.
    const stored = run.queueReason
    const isHistory = stored !== undefined && isInterruption(stored)
    return { ...run, queueReason: isHistory ? `${stored}; ${reason}` : reason }
  }

  /** Why the run waits; undefined when it is not queued. */
  reasonFor(run: Run): WaitReason | undefined {
    if (!this.queue.has(run.id)) return run.status === 'queued' ? this.#lostLeaseReason(run) : undefined
    const common = this.#commonReason()
    if (common !== undefined) return common
    const ownReason = this.queue.blockedBy(run.id) ?? this.#reasonOfItsWorkers(run)
    return ownReason ?? this.sharedReason(this.#queuedRuns.needsOf(run.id))
  }

  #lostLeaseReason({ id }: Run): WaitReason | undefined {
    return this.#modules.runs.lostLeaseOf(id) !== undefined ? LEASE_LOST : undefined
  }

  /** Why every run waits. */
  #commonReason(): WaitReason | undefined {
    if (this.#context.config().policy.paused) return PAUSED
    return this.#isDiskFull() ? DISK_FULL : undefined
  }

  /** Why a run waits that fewer workers can take than other runs with its needs. */
  #reasonOfItsWorkers(run: Run): WaitReason | undefined {
    const wanted = this.placementRequest(run)
    if (wanted.requiredWorker === undefined && !this.#queuedRuns.hasOwnSetback(run.id)) return undefined
    const placed = placeRun(wanted, this.#workers.all(), this.#now())
    return placed.is === 'waits' ? placed : undefined
  }

  /** Why runs with these needs wait that wait for a worker only. The reason is the same for all, so it is cached. */
  sharedReason(needs?: JobNeeds): WaitReason | undefined {
    const common = this.#commonReason()
    if (common !== undefined) return common
    const key = needs?.key ?? ''
    if (!this.#sharedReasons.has(key)) {
      const request = needs === undefined ? { runId: 'any' } : { runId: 'any', needs }
      const placed = placeRun(request, this.#workers.all(), this.#now())
      this.#sharedReasons.set(key, placed.is === 'waits' ? placed : undefined)
    }
    return this.#sharedReasons.get(key)
  }

  /** Changes whenever a queued run begins or ceases to wait for something besides a free slot. */
  get reasonsVersion(): number {
    return this.#queuedRuns.reasonsVersion
  }

  placement(run: Run): Placement {
    const lease = this.#workers.leaseOf(run.id)
    const wall = this.#context.clock.now()
    const offsetMs = wall - this.#now()
    const candidates = [...this.#workers.all()].map((worker) => inWallTime(worker, offsetMs))
    const explanation = explainPlacement(
      this.placementRequest(run, this.#commonReason() ?? this.queue.blockedBy(run.id)),
      candidates,
      wall,
    )
    if (lease !== undefined) {
      const { reason: _, ...rest } = explanation
      return { ...rest, worker: lease.workerId }
    }
    if (this.queue.has(run.id)) return explanation
    const reason = this.#lostLeaseReason(run)?.reason ?? `the run is ${run.status}: it waits for no worker`
    return { runId: run.id, reason, workers: [] }
  }

  /** Number of runs that wait for a worker only. */
  get readyCount(): number {
    return this.#commonReason() === undefined ? this.queue.readyCount : 0
  }

  /** Number of runs that one more machine could take now. */
  get wantedCount(): number {
    return this.#commonReason() === undefined ? this.wantedRuns.count() : 0
  }

  placementRequest(run: Run, waitingFor?: WaitReason): PlacementRequest {
    const { preparation } = this.#modules.jobs
    const required = preparation.sandboxHolder(run)?.workerId
    const preferred = preparation.preferredHolder(run)
    const needs = this.#queuedRuns.needsOf(run.id)
    return {
      runId: run.id,
      ...(needs === undefined ? {} : { needs }),
      ...(required === undefined ? {} : { requiredWorker: required }),
      ...(preferred === undefined ? {} : { preferredWorker: preferred }),
      ...(preparation.publishes(run) ? { publishes: true } : {}),
      ...(waitingFor === undefined ? {} : { waitingFor }),
    }
  }
}

const BEING_MADE_READY: WaitReason = { gate: 'repository', reason: 'it is being made ready' }

/**
 * WantedRuns counts the queued runs that one more machine could take now.
 *
 * The count is kept until the queue or the fleet changes, because supervisors and autoscalers poll it.
 */
class WantedRuns {
  readonly #workers: WorkerRegistry
  readonly #queue: RunQueue
  readonly #requestOf: (run: Run) => PlacementRequest
  #known:
    | {
        readonly count: number
        /** By worker, the runs that it alone can take. */
        readonly awaited: ReadonlyMap<string, number>
        readonly fleetVersion: number
      }
    | undefined

  constructor(workers: WorkerRegistry, queue: RunQueue, requestOf: (run: Run) => PlacementRequest) {
    this.#workers = workers
    this.#queue = queue
    this.#requestOf = requestOf
  }

  /** The queue or a setback has changed. */
  forget(): void {
    this.#known = undefined
  }

  count(): number {
    const fleetVersion = this.#workers.version
    if (this.#known?.fleetVersion !== fleetVersion)
      this.#known = { count: this.#count(), awaited: this.#countAwaited(), fleetVersion }
    return this.#known.count
  }

  /** Counts the queued runs that this worker alone can take, because it holds their sandbox. */
  countAwaiting(workerId: string): number {
    this.count()
    return this.#known?.awaited.get(workerId) ?? 0
  }

  #countAwaited(): ReadonlyMap<string, number> {
    const awaited = new Map<string, number>()
    for (const run of this.#queue.readyRuns()) {
      const { requiredWorker, waitingFor } = this.#requestOf(run)
      if (requiredWorker !== undefined && waitingFor === undefined)
        awaited.set(requiredWorker, (awaited.get(requiredWorker) ?? 0) + 1)
    }
    return awaited
  }

  #count(): number {
    const machines = [...this.#workers.all()].filter(({ context }) => !this.#workers.isOwn(context))
    if (isHeldByOperator(machines.map(({ state, context: { drainedBy } }) => ({ state, drainedBy }))))
      return 0
    const experience = experienceOf(machines)
    return [...this.#queue.readyRuns()].filter((run) => awaitsAnyWorker(this.#requestOf(run), experience))
      .length
  }
}
