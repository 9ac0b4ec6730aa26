/**
 * WorkerRegistry answers which workers are enrolled, which are connected, and which leases each holds.
 *
 * State changes of worker, connection and lease actors update it. Every figure is the size of a set, so no counter can
 * drift. The registry may be ahead of the disk by the commit that is under way.
 */
import { drainHolders } from '../../core/fleet/drain-holders.ts'
import { FreeWorkers } from '../../core/fleet/free-workers.ts'
import type { FleetDemandResponse } from '../../protocol/demand.ts'
import type { WorkerAgents, WorkerState, WorkerView } from '../../protocol/worker.ts'
import type { LeaseContext } from '../leases/lease.machine.ts'
import type { CurrentConnection, EnrolledWorker } from './enrolled-worker.ts'
import type { Setback } from './setbacks.ts'
import type { WorkerContext } from './worker.machine.ts'

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

// ---- what people and supervisors see -----------------------------------------------------------------------------

/** The keys of a view that only a draining worker has. */
export const drainOf = (state: WorkerState, { drainedBy }: WorkerContext): Pick<WorkerView, 'drainedBy'> =>
  state === 'draining' ? { drainedBy: [...drainHolders(drainedBy)] } : {}

interface HostFacts {
  /** The host runs the worker itself. */
  readonly isOwn: boolean
  /** For each terminal that this host has opened on the worker, its run. */
  readonly terminals: readonly string[]
}

/** Shows an enrolled worker to people and to programs, without its credential. */
function viewOf(worker: EnrolledWorker, { isOwn, terminals }: HostFacts): WorkerView {
  const { context, state, connection, leases, lastSeenAt } = worker
  const shown = connection === undefined ? [] : terminals
  // A terminal that was opened since the last heartbeat counts too.
  const attachSessions = Math.max(worker.attachSessions, shown.length)
  return {
    id: context.id,
    name: context.name,
    state,
    ...drainOf(state, context),
    connection: connection === undefined ? 'offline' : 'online',
    ...(isOwn ? { local: true } : {}),
    ...(context.joinKey === undefined ? {} : { joinKey: context.joinKey }),
    ...(context.ephemeral === true ? { ephemeral: true } : {}),
    ...(context.capabilities === null ? {} : { capabilities: context.capabilities }),
    activeRuns: leases.size,
    ...(attachSessions === 0 ? {} : { attachSessions }),
    ...(shown.length === 0 ? {} : { attachedRuns: [...new Set(shown)] }),
    enrolledAt: context.enrolledAt,
    ...(connection === undefined ? {} : { connectedAt: connection.since, address: connection.address }),
    ...(lastSeenAt === undefined ? {} : { lastSeenAt: new Date(lastSeenAt).toISOString() }),
  }
}

/** Figures of a worker that asks, which the queue and the terminals hold. */
interface OwnDemandCounts {
  readonly queuedRuns: number
  readonly wanted: number
  readonly attachSessions: number
  readonly awaitedRuns: number
  readonly promisedRuns: number
}

/** Supervisors poll this. The common answer is one literal, because spreading would take longer than the rest. */
function ownDemand(
  { context, online, state, leases }: EnrolledWorker,
  { attachSessions, awaitedRuns, promisedRuns }: OwnDemandCounts,
): NonNullable<FleetDemandResponse['worker']> {
  const { id } = context
  // The host cannot know which runs continue on a disconnected worker.
  const activeRuns = online ? leases.size : 0
  if (state === 'active' && awaitedRuns === 0 && promisedRuns === 0)
    return { id, connected: online, state, activeRuns, attachSessions }
  return {
    id,
    connected: online,
    state,
    ...drainOf(state, context),
    activeRuns,
    attachSessions,
    ...(awaitedRuns === 0 ? {} : { awaitedRuns }),
    ...(promisedRuns === 0 ? {} : { promisedRuns }),
  }
}

// ---- an entry ----------------------------------------------------------------------------------------------------

class RegistryEntry implements EnrolledWorker {
  context: WorkerContext
  state: WorkerState
  readonly leases = new Set<string>()
  connection: CurrentConnection | undefined
  lastSeenAt: number | undefined
  attachSessions = 0
  pausedUntil = 0
  refusal?: string
  hold?: string
  fullDisk?: string
  lastFrameAt = 0
  acceptedOn: number | undefined
  readonly refusals: { at: number; class: string; detail: string }[] = []
  readonly setbacks = new Map<string, Setback>()
  readonly setbackTries = new Map<string, number>()

  constructor(context: WorkerContext, state: WorkerState) {
    this.context = context
    this.state = state
  }

  get id(): string {
    return this.context.id
  }
  get name(): string {
    return this.context.name
  }
  get online(): boolean {
    return this.connection !== undefined
  }
  get isEnding(): boolean {
    return this.context.ephemeral === true && this.context.capabilities?.ending === true
  }
  get hasEnded(): boolean {
    return this.isEnding && !this.online && this.used === 0
  }
  get max(): number {
    const { capabilities } = this.context
    if (capabilities === null || capabilities.ending === true) return 0
    return capabilities.once === true && this.#hasTakenItsRun ? 0 : capabilities.maxConcurrency
  }
  /** A new connection may belong to a new process, which takes a run of its own. */
  get #hasTakenItsRun(): boolean {
    return this.connection !== undefined && this.connection.number === this.acceptedOn
  }
  get agents(): WorkerAgents | undefined {
    return this.context.capabilities?.agents
  }
  get limitsMemory(): boolean {
    return this.context.capabilities?.limits === 'cgroup'
  }
  get publishes(): boolean {
    return this.context.capabilities?.publish === true
  }
  get continuesSessions(): boolean {
    return this.context.capabilities?.continuesSessions === true
  }
  get holdsKeys(): boolean {
    return this.context.capabilities?.holdsKeys === true
  }
  get used(): number {
    return this.leases.size
  }
}
