/**
 * The fleet as it is right now: who is enrolled, who is connected, who holds which lease.
 *
 * Nothing here is counted up and down: every figure is the size of a set that follows from the good states of lives,
 * by way of `watch`. It is ahead of the disk by at most the cut that is on its way.
 */
import type { WorkerFacts } from '../../core/fleet/placement.ts'
import type { FleetDemandResponse, WorkerState, WorkerView } from '../../protocol/worker.ts'
import type { LeaseContext } from '../leases/lease.machine.ts'
import type { WorkerContext } from './worker.machine.ts'

/** What is known of a worker beyond what it keeps on disk. */
export interface Member extends WorkerFacts {
  context: WorkerContext
  state: WorkerState
  /** Ids of its leases. */
  readonly leases: Set<string>
  line: Line | undefined
  lastSeenAt: number | undefined
  attachSessions: number
  pausedUntil: number
  hold?: string
  /** The monotonic instant at which anything was heard of it last. */
  heardAt: number
  readonly refusals: { readonly at: number; readonly class: string; readonly detail: string }[]
}

/** Its current connection. */
export interface Line {
  readonly connection: number
  readonly since: string
  readonly address: string
}

class Membership implements Member {
  context: WorkerContext
  state: WorkerState
  readonly leases = new Set<string>()
  line: Line | undefined
  lastSeenAt: number | undefined
  attachSessions = 0
  pausedUntil = 0
  hold?: string
  heardAt = 0
  readonly refusals: { at: number; class: string; detail: string }[] = []

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
    return this.line !== undefined
  }
  get max(): number {
    return this.context.capabilities?.maxConcurrency ?? 0
  }
  get used(): number {
    return this.leases.size
  }
}

export class Fleet {
  readonly #members = new Map<string, Member>()
  readonly #leases = new Map<string, LeaseContext>()
  readonly #leaseOfRun = new Map<string, string>()
  /** Leases of workers that are enrolled no more. */
  readonly #stray = new Map<string, Set<string>>()
  #capacity: Capacity | undefined

  // ---- following the lives ---------------------------------------------------------------------------------------

  workerIs(context: WorkerContext, state: WorkerState): Member {
    this.#capacity = undefined
    const known = this.#members.get(context.id)
    if (known !== undefined) {
      known.context = context
      known.state = state
      return known
    }
    const member = new Membership(context, state)
    if (context.lastSeenAt !== null) member.lastSeenAt = Date.parse(context.lastSeenAt)
    for (const id of this.#stray.get(context.id) ?? []) member.leases.add(id)
    this.#stray.delete(context.id)
    this.#members.set(context.id, member)
    return member
  }

  workerLeft(id: string): void {
    this.#capacity = undefined
    const leases = this.#members.get(id)?.leases
    if (leases !== undefined && leases.size > 0) this.#stray.set(id, leases)
    this.#members.delete(id)
  }

  connected(workerId: string, line: Line): void {
    this.#capacity = undefined
    const member = this.#members.get(workerId)
    if (member !== undefined) member.line = line
  }

  /** Answers whether it was the worker's current line. */
  disconnected(workerId: string, connection: number): boolean {
    this.#capacity = undefined
    const member = this.#members.get(workerId)
    if (member?.line?.connection !== connection) return false
    member.line = undefined
    member.attachSessions = 0
    return true
  }

  /** Answers the run's other lease, should there be one: there must not. */
  leaseIs(lease: LeaseContext): string | undefined {
    this.#capacity = undefined
    const other = this.#leaseOfRun.get(lease.runId)
    this.#leases.set(lease.id, lease)
    this.#leaseOfRun.set(lease.runId, lease.id)
    this.#leasesOf(lease.workerId).add(lease.id)
    return other === lease.id ? undefined : other
  }

  leaseEnded({ id, runId, workerId }: LeaseContext): void {
    this.#capacity = undefined
    this.#leases.delete(id)
    if (this.#leaseOfRun.get(runId) === id) this.#leaseOfRun.delete(runId)
    this.#members.get(workerId)?.leases.delete(id)
    const stray = this.#stray.get(workerId)
    stray?.delete(id)
    if (stray?.size === 0) this.#stray.delete(workerId)
  }

  #leasesOf(workerId: string): Set<string> {
    const member = this.#members.get(workerId)
    if (member !== undefined) return member.leases
    const stray = this.#stray.get(workerId) ?? new Set<string>()
    this.#stray.set(workerId, stray)
    return stray
  }

  // ---- asking ----------------------------------------------------------------------------------------------------

  member(id: string): Member | undefined {
    return this.#members.get(id)
  }

  members(): Iterable<Member> {
    return this.#members.values()
  }

  get size(): number {
    return this.#members.size
  }

  lease(id: string): LeaseContext | undefined {
    return this.#leases.get(id)
  }

  leaseOf(runId: string): LeaseContext | undefined {
    const id = this.#leaseOfRun.get(runId)
    return id === undefined ? undefined : this.#leases.get(id)
  }

  get liveLeases(): number {
    return this.#leases.size
  }

  leases(): Iterable<LeaseContext> {
    return this.#leases.values()
  }

  /** Oldest enrollment first. */
  views(): WorkerView[] {
    return [...this.#members.values()].sort((a, b) => order(a.context, b.context)).map(viewOf)
  }

  demand(workerId: string, queuedRuns: number): FleetDemandResponse | undefined {
    const own = this.#members.get(workerId)
    if (own === undefined) return undefined
    const { connected, spare } = this.capacity()
    return {
      queuedRuns,
      activeRuns: this.#leases.size,
      connectedWorkers: connected,
      spareCapacity: spare,
      worker: {
        id: workerId,
        connected: own.online,
        state: own.state,
        // Of a worker that is away nobody can say what still runs there.
        activeRuns: own.online ? own.leases.size : 0,
        attachSessions: own.attachSessions,
      },
    }
  }

  /** Worked out anew only when something changed: whoever polls demand costs the same in any fleet. */
  capacity(): Capacity {
    this.#capacity ??= this.#measure()
    return this.#capacity
  }

  #measure(): Capacity {
    let connected = 0
    let spare = 0
    for (const member of this.#members.values()) {
      if (!member.online) continue
      connected += 1
      if (member.state === 'active') spare += Math.max(0, member.max - member.used)
    }
    return { connected, spare }
  }
}

interface Capacity {
  readonly connected: number
  readonly spare: number
}

const order = (a: WorkerContext, b: WorkerContext): number =>
  a.enrolledAt === b.enrolledAt ? (a.id < b.id ? -1 : 1) : a.enrolledAt < b.enrolledAt ? -1 : 1

function viewOf({ context, state, line, leases, lastSeenAt }: Member): WorkerView {
  return {
    id: context.id,
    name: context.name,
    state,
    connection: line === undefined ? 'offline' : 'online',
    ...(context.local ? { local: true } : {}),
    ...(context.capabilities === null ? {} : { capabilities: context.capabilities }),
    activeRuns: leases.size,
    enrolledAt: context.enrolledAt,
    ...(line === undefined ? {} : { connectedAt: line.since, address: line.address }),
    ...(lastSeenAt === undefined ? {} : { lastSeenAt: new Date(lastSeenAt).toISOString() }),
  }
}
