/**
 * Scheduler grants a lease for the first queued run as soon as a worker has a free slot.
 *
 * Runs are placed right before a commit, and only when something changed. A newly queued run and its lease therefore
 * become durable in one commit, and there is no polling interval. `core/fleet/placement.ts` chooses the worker.
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
import type { ServiceConfig } from '../../protocol/config.ts'
import type { Placement } from '../../protocol/explain.ts'
import type { Run } from '../../protocol/run.ts'
import type { LeaseManager } from '../leases/lease-manager.ts'
import type { RunContext } from '../runs/run.machine.ts'
import type { StateChange } from '../runtime/actor-system.ts'
import { QueuedRuns, type QueuedRunsPorts } from './queued-runs.ts'
import { type QueueLine, type QueueWalk, RunQueue } from './run-queue.ts'
import { canTakeNone, hasAvailable, inWallTime, workerFor } from './worker-availability.ts'
import type { WorkerRegistry } from './worker-registry.ts'

export interface SchedulerPorts extends QueuedRunsPorts {
  /** Monotonic milliseconds. */
  readonly monotonicNow: () => number
  /** Wall clock milliseconds, for texts that people read. */
  readonly wallNow: () => number
  /** Wall milliseconds, before every instant while the wall clock counts as wrong. */
  readonly trustedNow: () => number
  /** Whether leases may be granted at all: not while starting, stopping or on a full disk. */
  readonly mayGrant: () => boolean
  /** Whether an operator has paused dispatching. */
  readonly isPaused: () => boolean
  readonly isDiskFull: () => boolean
  /** The configured repositories. */
  readonly repos: () => ServiceConfig['repos']
  readonly leases: LeaseManager
  readonly hasLostLease: (runId: string) => boolean
  /** Requests a commit, because runs are placed right before one. */
  readonly requestCommit: () => void
  /** Calls `run` in a later turn of the event loop. */
  readonly later: (run: () => void) => void
}

/** Granting so many takes 6 ms. A fleet that arrives gets its runs with several commits. */
export const GRANTS_PER_COMMIT_MAX = 100

export class Scheduler {
  readonly queue = new RunQueue()
  readonly #ports: SchedulerPorts
  readonly #queuedRuns: QueuedRuns
  readonly wantedRuns: WantedRuns
  #isStale = false
  /** By the key of the needs. */
  readonly #sharedReasons = new Map<string, WaitReason | undefined>()

  constructor(ports: SchedulerPorts) {
    this.#ports = ports
    this.#queuedRuns = new QueuedRuns(this.queue, ports)
    this.wantedRuns = new WantedRuns(ports.workers, this.queue, (run) => this.placementRequest(run))
  }

  /** Keeps the queue in step with the runs: a queued run without a lease waits in it. */
  onRunChange({ key, before, after, over }: StateChange): void {
    const context = after.context as RunContext
    const contextBefore = before?.context as RunContext | undefined
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
    this.#ports.requestCommit()
  }

  /** Called before each commit. */
  placeRuns(): void {
    if (!this.#isStale) return
    this.#queuedRuns.refreshFleet()
    if (!this.#ports.mayGrant()) return
    this.#isStale = false
    if (this.#ports.isPaused()) return
    this.#queuedRuns.releaseRuns(this.#ports.trustedNow())
    const { workers } = this.#ports
    const now = this.#ports.monotonicNow()
    const walk = this.queue.walk()
    let grants = 0
    try {
      while (hasAvailable(workers, now)) {
        if (grants >= GRANTS_PER_COMMIT_MAX) {
          this.#ports.later(() => this.requestScheduling())
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

  /** Returns whether a lease was granted. */
  #placeFirst(run: Run, line: QueueLine, walk: QueueWalk, now: number): boolean {
    const { workers, preparation, leases } = this.#ports
    const request = this.placementRequest(run)
    const worker = workerFor(workers, request, now)
    if (worker === undefined) {
      // A run may stand in a wrong line for a while, for example while workers are restored. It speaks for itself only.
      const isInItsLine = request.requiredWorker === line.workerId
      if (isInItsLine && canTakeNone(workers, request, now)) walk.passLine()
      else walk.passRun()
      return false
    }
    const readiness = preparation.readiness(run)
    if (readiness === 'later') walk.passRun()
    // A run that is held back for no known reason must not be examined over and over.
    else if (readiness === 'held') this.#queuedRuns.hold(run, BEING_MADE_READY)
    else {
      leases.grantLease(run, worker)
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
    return this.#withWaitReason(withRepoOfRun(run, this.#ports.repos()))
  }

  #withWaitReason(run: Run): Run {
    if (isTerminal(run.status)) return run
    if (run.status !== 'queued') {
      const waitReason = this.#ports.isDiskFull() ? REPORTS_WAIT : this.#lostLeaseReason(run)?.reason
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
    return this.#ports.hasLostLease(id) ? LEASE_LOST : undefined
  }

  /** Why every run waits. */
  #commonReason(): WaitReason | undefined {
    if (this.#ports.isPaused()) return PAUSED
    return this.#ports.isDiskFull() ? DISK_FULL : undefined
  }

  /** Why a run waits that fewer workers can take than other runs with its needs. */
  #reasonOfItsWorkers(run: Run): WaitReason | undefined {
    const wanted = this.placementRequest(run)
    if (wanted.requiredWorker === undefined && !this.#queuedRuns.hasOwnSetback(run.id)) return undefined
    const placed = placeRun(wanted, this.#ports.workers.all(), this.#ports.monotonicNow())
    return placed.is === 'waits' ? placed : undefined
  }

  /** Why runs with these needs wait that wait for a worker only. The reason is the same for all, so it is cached. */
  sharedReason(needs?: JobNeeds): WaitReason | undefined {
    const common = this.#commonReason()
    if (common !== undefined) return common
    const key = needs?.key ?? ''
    if (!this.#sharedReasons.has(key)) {
      const request = needs === undefined ? { runId: 'any' } : { runId: 'any', needs }
      const placed = placeRun(request, this.#ports.workers.all(), this.#ports.monotonicNow())
      this.#sharedReasons.set(key, placed.is === 'waits' ? placed : undefined)
    }
    return this.#sharedReasons.get(key)
  }

  /** Changes whenever a queued run begins or ceases to wait for something besides a free slot. */
  get reasonsVersion(): number {
    return this.#queuedRuns.reasonsVersion
  }

  placement(run: Run): Placement {
    const lease = this.#ports.workers.leaseOf(run.id)
    const wall = this.#ports.wallNow()
    const offsetMs = wall - this.#ports.monotonicNow()
    const candidates = [...this.#ports.workers.all()].map((worker) => inWallTime(worker, offsetMs))
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
    const { preparation } = this.#ports
    const required = preparation.sandboxHolder(run)?.workerId
    const preferred = preparation.preferredHolder(run)
    const needs = this.#queuedRuns.needsOf(run.id)
    return {
      runId: run.id,
      ...(needs === undefined ? {} : { needs }),
      ...(required === undefined ? {} : { requiredWorker: required }),
      ...(preferred === undefined ? {} : { preferredWorker: preferred }),
      ...(this.#ports.preparation.publishes(run) ? { publishes: true } : {}),
      ...(waitingFor === undefined ? {} : { waitingFor }),
    }
  }
}

const BEING_MADE_READY: WaitReason = { gate: 'repository', reason: 'it is being made ready' }

const isWaiting = ({ run, lease }: RunContext): boolean => run.status === 'queued' && lease === null

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
