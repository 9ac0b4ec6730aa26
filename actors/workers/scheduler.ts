/**
 * Scheduler grants a lease for the first queued run as soon as a worker has a free slot.
 *
 * Runs are placed right before a commit, and only when something changed. A newly queued run and its lease therefore
 * become durable in one commit, and there is no polling interval. `core/fleet/placement.ts` chooses the worker.
 */
import type { PlacementRequest, WaitReason } from '../../core/fleet/obstacles.ts'
import { explainPlacement, PAUSED, placeRun } from '../../core/fleet/placement.ts'
import { isInterruption } from '../../core/run/interruption.ts'
import type { JobNeeds } from '../../core/run/job-needs.ts'
import { BlockerIndex } from '../../core/tickets/blocker-index.ts'
import type { Placement } from '../../protocol/explain.ts'
import type { Run, Ticket } from '../../protocol/run.ts'
import type { LeaseManager } from '../leases/lease-manager.ts'
import type { JobPreparation } from '../runs/job-preparation.ts'
import type { RunContext } from '../runs/run.machine.ts'
import type { StateChange } from '../runtime/actor-system.ts'
import { FleetGaps } from './fleet-gaps.ts'
import { RunQueue } from './run-queue.ts'
import { WantedRuns } from './wanted-runs.ts'
import { hasAvailable, inWallTime, isUnmetByAll, workerFor } from './worker-availability.ts'
import type { WorkerRegistry } from './worker-registry.ts'

export interface SchedulerPorts {
  readonly workers: WorkerRegistry
  /** Monotonic milliseconds. */
  readonly monotonicNow: () => number
  /** Wall clock milliseconds, for texts that people read. */
  readonly wallNow: () => number
  /** Whether leases may be granted at all: not while starting, stopping or on a full disk. */
  readonly mayGrant: () => boolean
  /** Whether an operator has paused dispatching. */
  readonly isPaused: () => boolean
  readonly preparation: JobPreparation
  /** The run's ticket as the tracker has it now, so that a changed priority reorders the queue. */
  readonly ticketOf: (run: Run) => Ticket
  readonly leases: LeaseManager
  /** Requests a commit, because runs are placed right before one. */
  readonly requestCommit: () => void
}

export class Scheduler {
  readonly queue = new RunQueue()
  readonly #ports: SchedulerPorts
  readonly #gaps: FleetGaps
  /** Queued runs, by the names of their tickets and of their tickets' blockers. */
  readonly #byTicket = new BlockerIndex()
  readonly wantedRuns: WantedRuns
  #isStale = false
  #reasonsVersion = 0
  /** By the key of the needs. */
  readonly #sharedReasons = new Map<string, WaitReason | undefined>()

  constructor(ports: SchedulerPorts) {
    this.#ports = ports
    this.#gaps = new FleetGaps(() => ports.workers.all())
    this.wantedRuns = new WantedRuns(ports.workers, this.queue, (run) => this.placementRequest(run))
  }

  /** Keeps the queue in step with the runs: a queued run without a lease waits in it. */
  onRunChange({ key, before, after, over }: StateChange): void {
    const context = after.context as RunContext
    const contextBefore = before?.context as RunContext | undefined
    if (over || !isWaiting(context)) this.remove(key)
    else if (contextBefore === undefined || !isWaiting(contextBefore)) this.add(context.run)
  }

  /** A run was queued. */
  add(run: Run): void {
    this.#gaps.setNeeds(run.id, this.#ports.preparation.needsOf(run))
    const ticket = this.#ports.ticketOf(run)
    this.#indexRun(run.id, ticket)
    this.queue.add(run, this.#waitingFor(run), ticket)
    this.requestScheduling()
  }

  /** A run is no longer queued. */
  remove(runId: string): void {
    this.wantedRuns.forget()
    this.#gaps.forget(runId)
    this.#byTicket.delete(runId)
    this.queue.remove(runId)
  }

  /** Returns the reason besides a missing free slot. */
  #waitingFor(run: Run): WaitReason | undefined {
    return this.#ports.preparation.waitingFor(run) ?? this.#gaps.reasonFor(run.id)
  }

  /** Reconsiders every queued run after the configuration or the repositories changed. */
  refreshQueue(): void {
    const { preparation } = this.#ports
    for (const run of this.queue.runs()) this.#gaps.setNeeds(run.id, preparation.needsOf(run))
    this.#gaps.refresh()
    this.#sortQueue()
    this.requestScheduling()
  }

  /**
   * Reconsiders the queued runs of changed tickets. What their jobs need follows from the tickets as they were when the
   * runs were created.
   *
   * @param names ids and identifiers of the changed tickets, and of those that wait for one of them
   */
  refreshRunsOf(names: Iterable<string>): void {
    const affected = new Set<string>()
    for (const name of names) for (const runId of this.#byTicket.waitingFor(name)) affected.add(runId)
    let isMoved = false
    for (const runId of affected) {
      const run = this.queue.run(runId)
      if (run !== undefined && this.#reconsider(run)) isMoved = true
    }
    if (isMoved) this.requestScheduling()
  }

  #sortQueue(): void {
    for (const run of [...this.queue.runs()]) this.#reconsider(run)
  }

  /** Returns whether the run's place or its reason has changed. */
  #reconsider(run: Run): boolean {
    const waitingFor = this.#waitingFor(run)
    const ticket = this.#ports.ticketOf(run)
    this.#indexRun(run.id, ticket)
    const isSameReason = waitingFor?.reason === this.queue.blockedBy(run.id)?.reason
    if (!isSameReason) this.#reasonsVersion += 1
    if (isSameReason && this.queue.isInPlace(run.id, ticket)) return false
    this.queue.add(run, waitingFor, ticket)
    return true
  }

  #indexRun(runId: string, { id, blockedBy }: Ticket): void {
    this.#byTicket.set(runId, [id, ...blockedBy])
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
    if (this.#gaps.refresh()) this.#sortQueue()
    if (!this.#ports.mayGrant()) return
    this.#isStale = false
    if (this.#ports.isPaused()) return
    const { workers } = this.#ports
    const now = this.#ports.monotonicNow()
    const restores: (() => void)[] = []
    /** Keys of needs that no free worker meets. */
    const unmet = new Set<string>()
    while (hasAvailable(workers, now)) {
      const runId = this.queue.first()
      if (runId === undefined) break
      const run = this.queue.run(runId)
      const request = run === undefined ? undefined : this.placementRequest(run)
      const needsKey = request?.requiredWorker === undefined ? request?.needs?.key : undefined
      const isUnmet = needsKey !== undefined && unmet.has(needsKey)
      const worker = request === undefined || isUnmet ? undefined : workerFor(workers, request, now)
      if (needsKey !== undefined && worker === undefined && isUnmetByAll(workers, request?.needs, now))
        unmet.add(needsKey)
      const readiness =
        run === undefined || worker === undefined ? 'later' : this.#ports.preparation.readiness(run)
      if (run === undefined || worker === undefined || readiness === 'later') {
        const restore = this.queue.setAside(runId)
        if (restore !== undefined) restores.push(restore)
        continue
      }
      if (readiness === 'held') {
        this.#keepWaiting(run)
        continue
      }
      this.#ports.leases.grantLease(run, worker)
      this.#sharedReasons.clear()
      // A run that could not be granted must not be tried for ever.
      if (this.queue.has(runId)) {
        const restore = this.queue.setAside(runId)
        if (restore !== undefined) restores.push(restore)
      }
    }
    for (const restore of restores) restore()
  }

  #keepWaiting(run: Run): void {
    const { ticketOf } = this.#ports
    // Hold the run back even when no reason is known, so that it is not examined over and over.
    this.queue.add(run, this.#waitingFor(run) ?? BEING_MADE_READY, ticketOf(run))
  }

  /** Adds the current wait reason to a queued run, as people see it. */
  withWaitReason(run: Run): Run {
    const reason = run.status === 'queued' ? this.reasonFor(run)?.reason : undefined
    if (reason === undefined) return run
    // The stored reason says why the run was queued again, the other why it still waits. What a worker lacked at its
    // last attempt may be there by now, so only the present reason counts.
    const stored = run.queueReason
    const isHistory = stored !== undefined && isInterruption(stored)
    return { ...run, queueReason: isHistory ? `${stored}; ${reason}` : reason }
  }

  /** Why the run waits; undefined when it is not queued. */
  reasonFor(run: Run): WaitReason | undefined {
    if (!this.queue.has(run.id)) return undefined
    if (this.#ports.isPaused()) return PAUSED
    const ownReason = this.queue.blockedBy(run.id) ?? this.#reasonOfRequiredWorker(run)
    return ownReason ?? this.sharedReason(this.#gaps.needsOf(run.id))
  }

  #reasonOfRequiredWorker(run: Run): WaitReason | undefined {
    const wanted = this.placementRequest(run)
    if (wanted.requiredWorker === undefined) return undefined
    const placed = placeRun(wanted, this.#ports.workers.all(), this.#ports.monotonicNow())
    return placed.is === 'waits' ? placed : undefined
  }

  /** Why runs with these needs wait that wait for a worker only. The reason is the same for all, so it is cached. */
  sharedReason(needs?: JobNeeds): WaitReason | undefined {
    if (this.#ports.isPaused()) return PAUSED
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
    return this.#reasonsVersion
  }

  placement(run: Run): Placement {
    const lease = this.#ports.workers.leaseOf(run.id)
    const wall = this.#ports.wallNow()
    const offsetMs = wall - this.#ports.monotonicNow()
    const candidates = [...this.#ports.workers.all()].map((worker) => inWallTime(worker, offsetMs))
    const explanation = explainPlacement(
      this.placementRequest(run, this.#ports.isPaused() ? PAUSED : this.queue.blockedBy(run.id)),
      candidates,
      wall,
    )
    if (lease !== undefined) {
      const { reason: _, ...rest } = explanation
      return { ...rest, worker: lease.workerId }
    }
    if (this.queue.has(run.id)) return explanation
    return { runId: run.id, reason: `the run is ${run.status}: it waits for no worker`, workers: [] }
  }

  /** Number of runs that wait for a worker only. */
  get readyCount(): number {
    return this.#ports.isPaused() ? 0 : this.queue.readyCount
  }

  /** Number of runs that one more machine could take now. */
  get wantedCount(): number {
    return this.#ports.isPaused() ? 0 : this.wantedRuns.count()
  }

  placementRequest(run: Run, waitingFor?: WaitReason): PlacementRequest {
    const on = this.#ports.preparation.sandboxHolder(run)
    const needs = this.#gaps.needsOf(run.id)
    return {
      runId: run.id,
      ...(needs === undefined ? {} : { needs }),
      ...(on === undefined ? {} : { requiredWorker: on }),
      ...(waitingFor === undefined ? {} : { waitingFor }),
    }
  }
}

const BEING_MADE_READY: WaitReason = { gate: 'repository', reason: 'it is being made ready' }

const isWaiting = ({ run, lease }: RunContext): boolean => run.status === 'queued' && lease === null
