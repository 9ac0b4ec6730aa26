/**
 * Scheduler grants a lease for the first queued run as soon as a worker has a free slot.
 *
 * Runs are placed right before a commit, and only when something changed. A newly queued run and its lease therefore
 * become durable in one commit, and there is no polling interval. `core/fleet/placement.ts` chooses the worker.
 */
import {
  explainPlacement,
  type PlacementRequest,
  placeRun,
  type WorkerFacts,
} from '../../core/fleet/placement.ts'
import type { Run, Ticket } from '../../protocol/run.ts'
import type { Placement } from '../../protocol/worker.ts'
import type { LeaseManager } from '../leases/lease-manager.ts'
import type { JobPreparation } from '../runs/job-preparation.ts'
import type { RunContext } from '../runs/run.machine.ts'
import type { StateChange } from '../runtime/actor-system.ts'
import { RunQueue } from './run-queue.ts'
import type { EnrolledWorker, WorkerRegistry } from './worker-registry.ts'

export interface SchedulerPorts {
  readonly workers: WorkerRegistry
  /** Monotonic milliseconds. */
  readonly monotonicNow: () => number
  /** Wall clock milliseconds, for texts that people read. */
  readonly wallNow: () => number
  /** Whether leases may be granted at all: not while starting, stopping or on a full disk. */
  readonly mayGrant: () => boolean
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
  #isStale = false
  #sharedReason: { readonly text: string | undefined } | undefined

  constructor(ports: SchedulerPorts) {
    this.#ports = ports
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
    this.queue.add(run, this.#ports.preparation.waitingFor(run), this.#ports.ticketOf(run))
    this.requestScheduling()
  }

  /** A run is no longer queued. */
  remove(runId: string): void {
    this.queue.remove(runId)
  }

  /** Re-evaluates every queued run after blockers, repositories or tickets changed. */
  refreshQueue(): void {
    for (const run of [...this.queue.runs()]) {
      const waitingFor = this.#ports.preparation.waitingFor(run)
      const ticket = this.#ports.ticketOf(run)
      if (waitingFor !== this.queue.blockedBy(run.id) || !this.queue.isInPlace(run.id, ticket))
        this.queue.add(run, waitingFor, ticket)
    }
    this.requestScheduling()
  }

  /** Something changed that may let a run be placed. */
  requestScheduling(): void {
    this.#isStale = true
    this.#sharedReason = undefined
    this.#ports.requestCommit()
  }

  /** Called before each commit. */
  placeRuns(): void {
    if (!this.#isStale) return
    if (!this.#ports.mayGrant()) return
    this.#isStale = false
    const { workers } = this.#ports
    const now = this.#ports.monotonicNow()
    const freeWorkers = new Set<EnrolledWorker>()
    for (const worker of workers.all()) if (isAvailable(worker, now)) freeWorkers.add(worker)
    const restores: (() => void)[] = []
    while (freeWorkers.size > 0) {
      const runId = this.queue.first()
      if (runId === undefined) break
      const run = this.#run(runId)
      const placed =
        run === undefined ? undefined : placeRun(this.#placementRequest(run, undefined), freeWorkers, now)
      const worker = placed?.is === 'placed' ? workers.get(placed.worker) : undefined
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
      this.#sharedReason = undefined
      // A run that could not be granted must not be tried for ever.
      if (this.queue.has(runId)) {
        const restore = this.queue.setAside(runId)
        if (restore !== undefined) restores.push(restore)
      }
      if (!isAvailable(worker, now)) freeWorkers.delete(worker)
    }
    for (const restore of restores) restore()
  }

  #keepWaiting(run: Run): void {
    const { ticketOf, preparation } = this.#ports
    // Hold the run back even when no reason is known, so that it is not examined over and over.
    this.queue.add(run, preparation.waitingFor(run) ?? 'it is being made ready', ticketOf(run))
  }

  /** Adds the current wait reason to a queued run, as people see it. */
  withWaitReason(run: Run): Run {
    const reason = run.status === 'queued' ? this.reasonFor(run) : undefined
    if (reason === undefined) return run
    // The stored reason says why the run was queued again, the other why it still waits.
    return { ...run, queueReason: run.queueReason === undefined ? reason : `${run.queueReason}; ${reason}` }
  }

  /** Why the run waits; undefined when it is not queued. */
  reasonFor(run: Run): string | undefined {
    if (!this.queue.has(run.id)) return undefined
    return this.queue.blockedBy(run.id) ?? this.#reasonOfRequiredWorker(run) ?? this.sharedReason()
  }

  #reasonOfRequiredWorker(run: Run): string | undefined {
    const wanted = this.#placementRequest(run, undefined)
    if (wanted.requiredWorker === undefined) return undefined
    const placed = placeRun(wanted, this.#ports.workers.all(), this.#ports.monotonicNow())
    return placed.is === 'waits' ? placed.reason : undefined
  }

  /** Why runs wait that wait for a worker only. The reason is the same for all of them, so it is cached. */
  sharedReason(): string | undefined {
    if (this.#sharedReason === undefined) {
      const placed = placeRun({ runId: 'any' }, this.#ports.workers.all(), this.#ports.monotonicNow())
      this.#sharedReason = { text: placed.is === 'waits' ? placed.reason : undefined }
    }
    return this.#sharedReason.text
  }

  placement(run: Run): Placement {
    const { workers } = this.#ports
    const lease = workers.leaseOf(run.id)
    const wall = this.#ports.wallNow()
    const candidates = [...workers.all()].map((worker) =>
      inWallTime(worker, wall - this.#ports.monotonicNow()),
    )
    const explanation = explainPlacement(
      this.#placementRequest(run, this.queue.blockedBy(run.id)),
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

  #run(runId: string): Run | undefined {
    return this.queue.run(runId)
  }

  #placementRequest(run: Run, waitingFor: string | undefined): PlacementRequest {
    const on = this.#ports.preparation.sandboxHolder(run)
    return {
      runId: run.id,
      ...(on === undefined ? {} : { requiredWorker: on }),
      ...(waitingFor === undefined ? {} : { waitingFor }),
    }
  }
}

/** A worker's facts for people: its pause ends at an instant of the wall clock. */
function inWallTime(worker: EnrolledWorker, offsetMs: number): WorkerFacts {
  const { id, name, state, online, max, used, hold } = worker
  const pausedUntil = worker.pausedUntil + offsetMs
  return { id, name, state, online, max, used, pausedUntil, ...(hold === undefined ? {} : { hold }) }
}

const isAvailable = (worker: EnrolledWorker, now: number): boolean =>
  worker.online &&
  worker.state === 'active' &&
  worker.used < worker.max &&
  worker.pausedUntil <= now &&
  worker.hold === undefined

const isWaiting = ({ run, lease }: RunContext): boolean => run.status === 'queued' && lease === null
