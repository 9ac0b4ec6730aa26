/**
 * Puts the first run in line onto a worker with room, the moment both are there.
 *
 * It looks right before each cut, and only when something changed: so a run that becomes queued and its lease become
 * durable with one write, and there is no interval in which anybody waits to be looked at.
 */
import { explained, place, type Want, type WorkerFacts } from '../../core/fleet/placement.ts'
import type { Run, Ticket } from '../../protocol/run.ts'
import type { Placement } from '../../protocol/worker.ts'
import { Queue } from './run-queue.ts'
import type { Fleet, Member } from './worker-registry.ts'

export interface SchedulerPorts {
  readonly fleet: Fleet
  /** On the clock that never jumps. */
  readonly now: () => number
  /** The wall clock, for what people read. */
  readonly wall: () => number
  /** Whether leases may be granted at all: not while starting, stopping or on a full disk. */
  readonly mayGrant: () => boolean
  /** What a run waits for besides a worker: its blockers, a repository. */
  readonly waitingFor: (run: Run) => string | undefined
  /** The worker that it needs: it keeps the sandbox of a follow-up. */
  readonly holderOf: (run: Run) => string | undefined
  /** Asked when a worker has room for it. `held`: `waitingFor` says what for; `later`: it is asked again. */
  readonly readiness: (run: Run) => 'ready' | 'held' | 'later'
  /** Its ticket as the tracker has it now: raising the priority there moves what waits here. */
  readonly ticketOf: (run: Run) => Ticket
  /** The lease is granted and told when this returns. */
  readonly grant: (run: Run, worker: Member) => void
  /** There is something to look at before the next cut, and so there must be one. */
  readonly requestCommit: () => void
}

export class Scheduler {
  readonly queue = new Queue()
  readonly #ports: SchedulerPorts
  #stale = false
  #reason: { readonly text: string | undefined } | undefined

  constructor(ports: SchedulerPorts) {
    this.#ports = ports
  }

  /** A run waits for a worker. */
  queued(run: Run): void {
    this.queue.add(run, this.#ports.waitingFor(run), this.#ports.ticketOf(run))
    this.look()
  }

  /** It does not wait any more. */
  left(runId: string): void {
    this.queue.remove(runId)
  }

  /** Blockers, repositories or the like changed. */
  reconsider(): void {
    for (const run of [...this.queue.runs()]) {
      const waitingFor = this.#ports.waitingFor(run)
      const ticket = this.#ports.ticketOf(run)
      if (waitingFor !== this.queue.heldFor(run.id) || !this.queue.isInPlace(run.id, ticket))
        this.queue.add(run, waitingFor, ticket)
    }
    this.look()
  }

  /** Something changed that may let a run be placed. */
  look(): void {
    this.#stale = true
    this.#reason = undefined
    this.#ports.requestCommit()
  }

  /** Called before each cut. */
  decide(): void {
    if (!this.#stale) return
    if (!this.#ports.mayGrant()) return
    this.#stale = false
    const { fleet } = this.#ports
    const now = this.#ports.now()
    const free = new Set<Member>()
    for (const member of fleet.members()) if (hasRoom(member, now)) free.add(member)
    const back: (() => void)[] = []
    while (free.size > 0) {
      const runId = this.queue.first()
      if (runId === undefined) break
      const run = this.#run(runId)
      const placed = run === undefined ? undefined : place(this.#want(run, undefined), free, now)
      const member = placed?.is === 'placed' ? fleet.member(placed.worker) : undefined
      const readiness = run === undefined || member === undefined ? 'later' : this.#ports.readiness(run)
      if (run === undefined || member === undefined || readiness === 'later') {
        const undo = this.queue.setAside(runId)
        if (undo !== undefined) back.push(undo)
        continue
      }
      if (readiness === 'held') {
        this.#hold(run)
        continue
      }
      this.#ports.grant(run, member)
      this.#reason = undefined
      // A run that could not be granted must not be tried for ever.
      if (this.queue.has(runId)) {
        const undo = this.queue.setAside(runId)
        if (undo !== undefined) back.push(undo)
      }
      if (!hasRoom(member, now)) free.delete(member)
    }
    for (const undo of back) undo()
  }

  #hold(run: Run): void {
    const { ticketOf, waitingFor } = this.#ports
    // It must not be looked at again and again, whoever has forgotten what it waits for.
    this.queue.add(run, waitingFor(run) ?? 'it is being made ready', ticketOf(run))
  }

  /** Why it waits; undefined when it does not. */
  reasonFor(run: Run): string | undefined {
    if (!this.queue.has(run.id)) return undefined
    return this.queue.heldFor(run.id) ?? this.#ownReason(run) ?? this.commonReason()
  }

  #ownReason(run: Run): string | undefined {
    const wanted = this.#want(run, undefined)
    if (wanted.on === undefined) return undefined
    const placed = place(wanted, this.#ports.fleet.members(), this.#ports.now())
    return placed.is === 'waits' ? placed.reason : undefined
  }

  /** Why runs wait that wait for nothing but a worker; the same for all of them, so worked out once. */
  commonReason(): string | undefined {
    if (this.#reason === undefined) {
      const placed = place({ runId: 'any' }, this.#ports.fleet.members(), this.#ports.now())
      this.#reason = { text: placed.is === 'waits' ? placed.reason : undefined }
    }
    return this.#reason.text
  }

  placement(run: Run): Placement {
    const { fleet } = this.#ports
    const lease = fleet.leaseOf(run.id)
    const wall = this.#ports.wall()
    const workers = [...fleet.members()].map((member) => onTheWall(member, wall - this.#ports.now()))
    const explanation = explained(this.#want(run, this.queue.heldFor(run.id)), workers, wall)
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

  #want(run: Run, waitingFor: string | undefined): Want {
    const on = this.#ports.holderOf(run)
    return {
      runId: run.id,
      ...(on === undefined ? {} : { on }),
      ...(waitingFor === undefined ? {} : { waitingFor }),
    }
  }
}

/** Its facts as a person reads them: a pause ends at an instant of the wall clock. */
function onTheWall(member: Member, ahead: number): WorkerFacts {
  const { id, name, state, online, max, used, hold } = member
  const pausedUntil = member.pausedUntil + ahead
  return { id, name, state, online, max, used, pausedUntil, ...(hold === undefined ? {} : { hold }) }
}

const hasRoom = (member: Member, now: number): boolean =>
  member.online &&
  member.state === 'active' &&
  member.used < member.max &&
  member.pausedUntil <= now &&
  member.hold === undefined
