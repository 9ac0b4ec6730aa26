/**
 * What becomes of leases: they are granted, the books are opened and closed with them, and they do something to the
 * world. A dispatch goes out, time is watched, a completion is acknowledged, an end is told.
 *
 * What is done to the world is done after the commit that made it true, and may be done twice.
 */
import {
  type LeaseTimeouts,
  leaseDeadline,
  leaseTermMs,
  restoredLeaseDeadline,
  unansweredLeaseDeadline,
} from '../../core/lease/deadline.ts'
import type { Clock, Log, Meters } from '../../core/ports.ts'
import type { Result } from '../../core/result.ts'
import type { Job } from '../../protocol/frames.ts'
import { CANCEL_ANSWER_MS, DISPATCH_ANSWER_MS } from '../../protocol/limits.ts'
import type { Run } from '../../protocol/run.ts'
import type { RunEvent } from '../runs/run.machine.ts'
import { RUN } from '../runs/run.names.ts'
import type { ActorSystem, StateChange } from '../runtime/actor-system.ts'
import { Counter } from '../runtime/counter.ts'
import type { MonotonicTimers } from '../runtime/monotonic-timers.ts'
import type { Holds } from '../workers/dispatch-backoff.ts'
import { WORKER } from '../workers/fleet.names.ts'
import type { Lines } from '../workers/worker-connections.ts'
import type { Fleet, Member } from '../workers/worker-registry.ts'
import type { EndedLeases } from './ended-leases.ts'
import type { Book } from './frame-receiver.ts'
import type { LeaseContext, LeaseEffect, LeaseEvent } from './lease.machine.ts'
import { LEASE } from './lease.names.ts'

export interface LeasePorts {
  readonly clock: Clock
  /** The wall clock, as records write it down. */
  readonly instant: () => string
  readonly newId: () => string
  readonly log: Log
  readonly system: ActorSystem
  readonly fleet: Fleet
  readonly lines: Lines
  readonly holds: Holds
  readonly book: Book
  readonly ended: EndedLeases
  readonly timers: MonotonicTimers
  readonly timeouts: () => LeaseTimeouts
  /** The job of the run that this lease is for, with everything it needs, secrets included. */
  readonly job: (lease: LeaseContext) => Result<Job>
  /** Something that may let a run be placed. */
  readonly look: () => void
  readonly violated: (law: 'one live lease a run' | 'durable before dispatch') => void
}

const alarmOf = (leaseId: string): string => `lease ${leaseId}`

export class LeaseRoom {
  readonly #ports: LeasePorts
  /** When each dispatch left, for leases that nobody has answered for. */
  readonly #sentAt = new Map<string, number>()
  /** Told to cancel: the time for that runs once, however often the worker comes back. */
  readonly #cancelling = new Set<string>()
  readonly #startedAt: number
  readonly #ends = new Counter('leases_ended_total', 'how')
  readonly #dispatches = new Counter('dispatches_total', 'outcome')

  constructor(ports: LeasePorts) {
    this.#ports = ports
    this.#startedAt = ports.timers.now()
  }

  measure(meters: Meters): void {
    this.#ends.report(meters)
    this.#dispatches.report(meters)
  }

  do(effect: LeaseEffect): void {
    switch (effect.type) {
      case 'lease.dispatch':
        this.#dispatch(effect.leaseId)
        return
      case 'lease.await worker':
        this.#awaitWorker(effect.leaseId, effect.arrived)
        return
      case 'lease.send cancel':
        this.#sendCancel(effect)
        return
      case 'lease.acknowledge completion':
        this.#ports.lines.sendTo(effect.workerId, { type: 'run-complete-ack', leaseId: effect.leaseId })
        return
      case 'lease.fence':
        this.#ports.lines.sendTo(effect.workerId, {
          type: 'lease-lost',
          leaseId: effect.leaseId,
          reason: effect.reason,
        })
        return
    }
  }

  // ---- following the lives -----------------------------------------------------------------------------------------

  grant(run: Run, worker: Member): void {
    const { fleet, system, instant, newId, timeouts } = this.#ports
    // One that recovers from a crash has not heard of its lease yet.
    if (fleet.leaseOf(run.id) !== undefined) return
    const id = newId()
    const born = system.spawn(LEASE, id, {
      id,
      runId: run.id,
      workerId: worker.id,
      termMs: leaseTermMs(timeouts()),
      grantedAt: instant(),
    })
    const granted: RunEvent = { type: 'granted', leaseId: id }
    if (born.ok) system.send(RUN, run.id, granted)
  }

  leaseIs({ key, before, after, over, restored }: StateChange): void {
    const { book, fleet, violated } = this.#ports
    const lease = after.context as LeaseContext
    if (over) {
      this.#isOver(lease)
      return
    }
    if (before === undefined && fleet.leaseIs(lease) !== undefined) violated('one live lease a run')
    book.open(lease, restored, after.value !== 'offered' && after.value !== 'unsure')
    if (before !== undefined && before.value !== after.value) this.#ports.timers.cancelAll(alarmOf(key))
  }

  #isOver(lease: LeaseContext): void {
    const { timers, book, clock, ended, fleet, look } = this.#ports
    fleet.leaseEnded(lease)
    book.close(lease.id)
    timers.cancelAll(alarmOf(lease.id))
    this.#sentAt.delete(lease.id)
    this.#cancelling.delete(lease.id)
    ended.ended(lease, clock.now())
    this.#ends.add(lease.end ?? 'lost')
    look()
  }

  /** An alarm that was set here came due. */
  rang(key: string, name: string): void {
    const leaseId = key.slice('lease '.length)
    const at = this.#ports.instant()
    if (name === 'away') this.#tell(leaseId, { type: 'time ran out', at })
    else if (name === 'cancel') this.#tell(leaseId, { type: 'cancel timed out', at })
    else this.#unanswered(leaseId, at)
  }

  #unanswered(leaseId: string, at: string): void {
    const { holds, fleet } = this.#ports
    const member = fleet.member(fleet.lease(leaseId)?.workerId ?? '')
    this.#tell(leaseId, { type: 'unanswered', at })
    if (member !== undefined) holds.refused(member, 'no answer to a dispatch')
  }

  // ---- dispatch ----------------------------------------------------------------------------------------------------

  #dispatch(leaseId: string): void {
    const { system } = this.#ports
    const life = system.peek(LEASE, leaseId)
    // It ended between the commit and now, or its worker went away.
    if (life === undefined || (life.value !== 'offered' && life.value !== 'unsure')) return
    const lease = life.context as LeaseContext
    const refusal = life.value === 'unsure' ? 'its worker went away before' : this.#send(lease)
    this.#dispatches.add(refusal === undefined ? 'sent' : 'withdrawn')
    if (refusal !== undefined)
      this.#tell(leaseId, { type: 'withdrawn', at: this.#ports.instant(), reason: refusal })
  }

  /** Answers why it was not sent. Whether it may be is asked again here, after the lease became durable. */
  #send(lease: LeaseContext): string | undefined {
    const { system, fleet, lines, holds, clock, timers, log } = this.#ports
    const member = fleet.member(lease.workerId)
    if (system.peekDurable(LEASE, lease.id) === undefined) {
      this.#ports.violated('durable before dispatch')
      return 'the lease is not on disk'
    }
    if (member === undefined || !member.online) return 'the worker is not connected'
    const durable = system.peekDurable(WORKER, lease.workerId)
    if (member.state !== 'active' || durable === undefined || durable.value === 'draining')
      return 'the worker is draining'
    // Before anything that could throw: a lease that nobody answers for must come to an end.
    timers.set(alarmOf(lease.id), 'answer', timers.now() + DISPATCH_ANSWER_MS)
    const job = this.#ports.job(lease)
    if (!job.ok) {
      log.warn({ run: lease.runId, reason: job.refusal.message }, 'a run could not be dispatched')
      return job.refusal.message
    }
    const text = JSON.stringify({
      type: 'dispatch',
      lease: {
        id: lease.id,
        runId: lease.runId,
        expiresAt: new Date(clock.now() + lease.termMs).toISOString(),
        remainingMs: lease.termMs,
      },
      job: job.value,
    })
    if (!lines.sendText(lease.workerId, text)) {
      // Until its line is cut it looks free: without a pause it would be offered the run with every cut.
      holds.refused(member, 'its line takes nothing more')
      return 'the worker reads too slowly'
    }
    this.#sentAt.set(lease.id, timers.now())
    return undefined
  }

  // ---- waiting -----------------------------------------------------------------------------------------------------

  #awaitWorker(leaseId: string, arrived: boolean): void {
    const { fleet, timers } = this.#ports
    const lease = fleet.lease(leaseId)
    if (lease === undefined) return
    timers.cancelAll(alarmOf(leaseId))
    timers.set(alarmOf(leaseId), 'away', this.#until(lease, arrived))
  }

  #until({ id, workerId, termMs }: LeaseContext, arrived: boolean): number {
    const { fleet, timers, timeouts } = this.#ports
    const heardAt = fleet.member(workerId)?.heardAt ?? timers.now()
    // Not heard of since this process began: what was promised before it did may still be counted on.
    if (heardAt <= this.#startedAt)
      return arrived
        ? leaseDeadline(this.#startedAt, termMs)
        : restoredLeaseDeadline(this.#startedAt, termMs, timeouts())
    if (arrived) return leaseDeadline(heardAt, termMs)
    return Math.max(
      leaseDeadline(heardAt, termMs),
      unansweredLeaseDeadline(this.#sentAt.get(id) ?? timers.now(), termMs, timeouts()),
    )
  }

  #sendCancel({ leaseId, workerId, reason }: Extract<LeaseEffect, { type: 'lease.send cancel' }>): void {
    const { timers, lines, system } = this.#ports
    if (system.peek(LEASE, leaseId)?.value !== 'cancelling') return
    lines.sendTo(workerId, { type: 'cancel', leaseId, reason })
    if (!this.#cancelling.has(leaseId)) {
      this.#cancelling.add(leaseId)
      timers.cancelAll(alarmOf(leaseId))
      timers.set(alarmOf(leaseId), 'cancel', timers.now() + CANCEL_ANSWER_MS)
    }
  }

  #tell(leaseId: string, event: LeaseEvent): void {
    this.#ports.system.send(LEASE, leaseId, event)
  }
}
