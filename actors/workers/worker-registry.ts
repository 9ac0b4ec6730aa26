/**
 * WorkerRegistry answers which workers are enrolled, which are connected, and which leases each holds.
 *
 * State changes of worker, connection and lease actors update it. Every figure is the size of a set, so no counter can
 * drift. The registry may be ahead of the disk by the commit that is under way.
 */
import { FreeWorkers } from '../../core/fleet/free-workers.ts'
import type { FleetDemandResponse } from '../../protocol/demand.ts'
import type { WorkerState, WorkerView } from '../../protocol/worker.ts'
import type { LeaseContext } from '../leases/lease.machine.ts'
import type { CurrentConnection, EnrolledWorker } from './enrolled-worker.ts'
import { type OwnDemandCounts, ownDemand } from './own-demand.ts'
import { RegistryEntry } from './registry-entry.ts'
import type { WorkerContext } from './worker.machine.ts'
import { viewOf } from './worker-view.ts'

export class WorkerRegistry {
  readonly #workers = new Map<string, EnrolledWorker>()
  readonly #leases = new Map<string, LeaseContext>()
  readonly #leaseOfRun = new Map<string, string>()
  /** Leases of workers that are no longer enrolled, by worker. */
  readonly #orphanedLeases = new Map<string, Set<string>>()
  readonly #free = new FreeWorkers<EnrolledWorker>()
  #capacity: FleetCapacity | undefined
  #version = 0
  /** By worker, the run of each terminal that this host has opened. The module of terminals sets it. */
  terminalsByWorker: () => ReadonlyMap<string, readonly string[]> = () => NO_TERMINALS
  /** Whether the host runs this worker itself. The module of the local worker sets it. */
  isOwn: (worker: WorkerContext) => boolean = ({ local }) => local

  // ---- updates --------------------------------------------------------------------------------------------------

  updateWorker(context: WorkerContext, state: WorkerState): EnrolledWorker {
    const known = this.#workers.get(context.id)
    if (known !== undefined) {
      known.context = context
      known.state = state
      this.#noteChange(known)
      return known
    }
    const worker = new RegistryEntry(context, state)
    if (context.lastSeenAt !== null) worker.lastSeenAt = Date.parse(context.lastSeenAt)
    for (const id of this.#orphanedLeases.get(context.id) ?? []) worker.leases.add(id)
    this.#orphanedLeases.delete(context.id)
    this.#workers.set(context.id, worker)
    this.#noteChange(worker)
    return worker
  }

  removeWorker(id: string): void {
    const leases = this.#workers.get(id)?.leases
    if (leases !== undefined && leases.size > 0) this.#orphanedLeases.set(id, leases)
    this.#workers.delete(id)
    this.#free.remove(id)
    this.#noteChange(undefined)
  }

  setConnection(workerId: string, connection: CurrentConnection): void {
    const worker = this.#workers.get(workerId)
    if (worker !== undefined) worker.connection = connection
    this.#noteChange(worker)
  }

  /** Returns whether it was the worker's current connection. */
  clearConnection(workerId: string, connection: number): boolean {
    const worker = this.#workers.get(workerId)
    if (worker?.connection?.number !== connection) return false
    worker.connection = undefined
    worker.attachSessions = 0
    this.#noteChange(worker)
    return true
  }

  /** Returns the run's other live lease, if any. A second one breaks an invariant. */
  updateLease(lease: LeaseContext): string | undefined {
    const leaseBefore = this.#leaseOfRun.get(lease.runId)
    this.#leases.set(lease.id, lease)
    this.#leaseOfRun.set(lease.runId, lease.id)
    this.#leasesOf(lease.workerId).add(lease.id)
    this.#noteChange(this.#workers.get(lease.workerId))
    return leaseBefore === lease.id ? undefined : leaseBefore
  }

  noteAcceptance({ workerId }: LeaseContext): void {
    const worker = this.#workers.get(workerId)
    if (worker !== undefined) worker.acceptedOn = worker.connection?.number
    this.#noteChange(worker)
  }

  removeLease({ id, runId, workerId }: LeaseContext): void {
    this.#leases.delete(id)
    if (this.#leaseOfRun.get(runId) === id) this.#leaseOfRun.delete(runId)
    const worker = this.#workers.get(workerId)
    worker?.leases.delete(id)
    this.#noteChange(worker)
    const orphaned = this.#orphanedLeases.get(workerId)
    orphaned?.delete(id)
    if (orphaned?.size === 0) this.#orphanedLeases.delete(workerId)
  }

  #noteChange(worker: EnrolledWorker | undefined): void {
    this.#capacity = undefined
    this.#version += 1
    if (worker !== undefined) this.#free.update(worker)
  }

  #leasesOf(workerId: string): Set<string> {
    const worker = this.#workers.get(workerId)
    if (worker !== undefined) return worker.leases
    const orphaned = this.#orphanedLeases.get(workerId) ?? new Set<string>()
    this.#orphanedLeases.set(workerId, orphaned)
    return orphaned
  }

  // ---- queries ---------------------------------------------------------------------------------------------------

  get(id: string): EnrolledWorker | undefined {
    return this.#workers.get(id)
  }

  all(): Iterable<EnrolledWorker> {
    return this.#workers.values()
  }

  /** The workers with a free slot, as runs are placed. None of them may change before the iteration ends. */
  inPlacementOrder(): Iterable<EnrolledWorker> {
    return this.#free.inOrder()
  }

  get size(): number {
    return this.#workers.size
  }

  /** How many workers hold a seat of each join key. A machine that has ended is enrolled for a while, without a seat. */
  countByJoinKey(): ReadonlyMap<string, number> {
    const counts = new Map<string, number>()
    for (const worker of this.#workers.values()) {
      const { joinKey } = worker.context
      if (joinKey !== undefined && !worker.hasEnded) counts.set(joinKey, (counts.get(joinKey) ?? 0) + 1)
    }
    return counts
  }

  lease(id: string): LeaseContext | undefined {
    return this.#leases.get(id)
  }

  leaseOf(runId: string): LeaseContext | undefined {
    const id = this.#leaseOfRun.get(runId)
    return id === undefined ? undefined : this.#leases.get(id)
  }

  get leaseCount(): number {
    return this.#leases.size
  }

  leases(): Iterable<LeaseContext> {
    return this.#leases.values()
  }

  /** Changes with every worker, connection and lease. */
  get version(): number {
    return this.#version
  }

  /** Oldest enrollment first. */
  views(): WorkerView[] {
    const terminals = this.terminalsByWorker()
    return [...this.#workers.values()]
      .sort((a, b) => byEnrollment(a.context, b.context))
      .map((worker) =>
        viewOf(worker, { isOwn: this.isOwn(worker.context), terminals: terminals.get(worker.id) ?? [] }),
      )
  }

  /** The demand of the fleet, for the holder of a join key. */
  fleetDemand(queuedRuns: number, wanted: number): Omit<FleetDemandResponse, 'worker'> {
    const { connected, spare } = this.capacity()
    return {
      queuedRuns,
      wanted,
      activeRuns: this.#leases.size,
      connectedWorkers: connected,
      spareCapacity: spare,
    }
  }

  demand(worker: EnrolledWorker, counts: OwnDemandCounts): FleetDemandResponse {
    const demand: FleetDemandResponse = this.fleetDemand(counts.queuedRuns, counts.wanted)
    demand.worker = ownDemand(worker, counts)
    return demand
  }

  /** Cached until a worker or lease changes, so polling the demand costs the same with any number of workers. */
  capacity(): FleetCapacity {
    this.#capacity ??= this.#countCapacity()
    return this.#capacity
  }

  #countCapacity(): FleetCapacity {
    let connected = 0
    let spare = 0
    for (const worker of this.#workers.values()) {
      if (!worker.online) continue
      connected += 1
      if (worker.state === 'active') spare += Math.max(0, worker.max - worker.used)
    }
    return { connected, spare }
  }
}

const NO_TERMINALS: ReadonlyMap<string, readonly string[]> = new Map()

interface FleetCapacity {
  readonly connected: number
  readonly spare: number
}

const byEnrollment = (a: WorkerContext, b: WorkerContext): number =>
  a.enrolledAt === b.enrolledAt ? (a.id < b.id ? -1 : 1) : a.enrolledAt < b.enrolledAt ? -1 : 1
