/**
 * LeaseManager grants leases, runs their effects (dispatch, cancel, acknowledge, fence) and keeps their timers.
 *
 * Effects run after the commit that caused them, and running one twice is harmless: the lease's state is checked again
 * first. FrameReceiver applies the frames; the lease machine decides about states.
 */

import { NO_ANSWER } from '../../core/fleet/rejection.ts'
import {
  leaseDeadline,
  leaseTermMs,
  restoredLeaseDeadline,
  unansweredLeaseDeadline,
} from '../../core/lease/deadline.ts'
import type { Meters } from '../../core/ports/log.ts'
import { CANCEL_ANSWER_MS, DISPATCH_ANSWER_MS } from '../../protocol/limits.ts'
import type { Run } from '../../protocol/run.ts'
import type { HostContext } from '../host-context.ts'
import type { RunMachineEvent } from '../runs/run.machine.ts'
import { RUN } from '../runs/run.machine.ts'
import type { StateChange } from '../runtime/actor-system.ts'
import { Counter } from '../runtime/counter.ts'
import type { ModuleViews } from '../runtime/module.ts'
import { timerKind } from '../runtime/timer-kind.ts'
import type { EnrolledWorker } from '../workers/enrolled-worker.ts'
import { WORKER } from '../workers/worker.machine.ts'
import type { FrameReceiver } from './frame-receiver.ts'
import type { LeaseContext, LeaseEffect, LeaseEvent } from './lease.machine.ts'
import { LEASE } from './lease.names.ts'

type LeaseManagerModules = Pick<ModuleViews, 'workers' | 'jobs' | 'endedLeases' | 'leaseShares'>

export const LEASE_TIMER = timerKind<'answer' | 'away' | 'cancel'>('lease')

export class LeaseManager {
  readonly #context: HostContext
  readonly #modules: LeaseManagerModules
  readonly #frameReceiver: FrameReceiver
  /** When each dispatch was sent, in monotonic milliseconds, by lease id. */
  readonly #sentAt = new Map<string, number>()
  /** Leases whose cancel was sent. The cancel timeout starts once, however often the worker reconnects. */
  readonly #cancelSent = new Set<string>()
  readonly #startedAt: number
  readonly #endCounter = new Counter('leases_ended_total', 'how')
  readonly #dispatchCounter = new Counter('dispatches_total', 'outcome')

  constructor(context: HostContext, modules: LeaseManagerModules, frameReceiver: FrameReceiver) {
    this.#context = context
    this.#modules = modules
    this.#frameReceiver = frameReceiver
    this.#startedAt = context.timers.now()
  }

  reportCounts(meters: Meters): void {
    this.#endCounter.report(meters)
    this.#dispatchCounter.report(meters)
  }

  runEffect(effect: LeaseEffect): void {
    switch (effect.type) {
      case 'lease.dispatch':
        this.#dispatchWhenOpen(effect.leaseId)
        return
      case 'lease.await worker':
        this.#awaitWorker(effect.leaseId, effect.arrived)
        return
      case 'lease.send cancel':
        this.#sendCancel(effect)
        return
      case 'lease.acknowledge completion':
        this.#modules.workers.connections.sendToWorker(effect.workerId, {
          type: 'run-complete-ack',
          leaseId: effect.leaseId,
        })
        return
      case 'lease.fence':
        this.#modules.workers.connections.sendToWorker(effect.workerId, {
          type: 'lease-lost',
          leaseId: effect.leaseId,
          reason: effect.reason,
        })
        return
    }
  }

  // ---- leases begin and end ----------------------------------------------------------------------------------------

  grantLease(run: Run, worker: EnrolledWorker): void {
    const { system, instant, ids, timeouts } = this.#context
    // A run that recovers from a crash does not know of its lease yet and looks as if it had none.
    if (this.#modules.workers.registry.leaseOf(run.id) !== undefined) return
    const id = ids.lease()
    const spawned = system.spawn(LEASE, id, {
      id,
      runId: run.id,
      workerId: worker.id,
      termMs: leaseTermMs(timeouts()),
      grantedAt: instant(),
    })
    const place = this.#modules.jobs.preparation.placeOf(run)
    const granted: RunMachineEvent = {
      type: 'granted',
      leaseId: id,
      ...(place === undefined ? {} : { place }),
    }
    if (spawned.ok) system.send(RUN, run.id, granted)
  }

  onLeaseChanged({ key, before, after, over, restored }: StateChange<LeaseContext>): void {
    const { registry, dispatchBackoff } = this.#modules.workers
    const frameReceiver = this.#frameReceiver
    const lease = after.context
    if (over) {
      this.#onLeaseEnded(lease)
      return
    }
    if (before === undefined && registry.updateLease(lease) !== undefined)
      this.#context.onInvariantViolated('one live lease a run')
    if (after.value === 'held' && before !== undefined && before.value !== 'held') {
      registry.noteAcceptance(lease)
      const worker = registry.get(lease.workerId)
      if (worker !== undefined) dispatchBackoff.onAccepted(worker)
    }
    frameReceiver.openLease(lease, restored, after.value !== 'offered' && after.value !== 'unconfirmed')
    if (after.value === 'held' && !restored) frameReceiver.onLeaseHeld(lease.id)
    if (before !== undefined && before.value !== after.value)
      this.#context.timers.cancelAll(LEASE_TIMER.key(key))
  }

  #onLeaseEnded(lease: LeaseContext): void {
    const { timers, clock, requestScheduling } = this.#context
    const { workers, jobs, leaseShares } = this.#modules
    workers.registry.removeLease(lease)
    this.#frameReceiver.closeLease(lease.id)
    timers.cancelAll(LEASE_TIMER.key(lease.id))
    this.#sentAt.delete(lease.id)
    this.#cancelSent.delete(lease.id)
    jobs.preparation.forgetJob(lease.id)
    const share = leaseShares.take(lease.runId, lease.id)
    this.#modules.endedLeases.endedLeases.recordEnd(lease, clock.now(), share)
    this.#endCounter.add(lease.end ?? 'lost')
    requestScheduling()
  }

  /** Called when a timer of a lease fires. */
  onTimer(leaseId: string, name: 'answer' | 'away' | 'cancel'): void {
    const at = this.#context.instant()
    if (name === 'away') this.#sendEvent(leaseId, { type: 'lease expired', at })
    else if (name === 'cancel') this.#sendEvent(leaseId, { type: 'cancel timed out', at })
    else this.#onDispatchUnanswered(leaseId, at)
  }

  #onDispatchUnanswered(leaseId: string, at: string): void {
    const { dispatchBackoff, registry } = this.#modules.workers
    const member = registry.get(registry.lease(leaseId)?.workerId ?? '')
    this.#sendEvent(leaseId, { type: 'unanswered', at })
    if (member !== undefined) dispatchBackoff.onRejected(member, NO_ANSWER)
  }

  // ---- dispatch ----------------------------------------------------------------------------------------------------

  /** A dispatch to a new worker waits for the audit trail, and is then judged and timed anew. */
  #dispatchWhenOpen(leaseId: string): void {
    const { registry, connections } = this.#modules.workers
    const workerId = registry.lease(leaseId)?.workerId ?? ''
    if (!connections.holdUntilFirst(workerId, () => this.#dispatch(leaseId))) this.#dispatch(leaseId)
  }

  #dispatch(leaseId: string): void {
    const { system } = this.#context
    const snapshot = system.peek(LEASE, leaseId)
    // The lease may have changed between the commit and now.
    if (snapshot === undefined || (snapshot.value !== 'offered' && snapshot.value !== 'unconfirmed')) return
    const lease = snapshot.context
    const refusal =
      snapshot.value === 'unconfirmed' ? 'the worker disconnected before' : this.#sendDispatch(lease)
    this.#dispatchCounter.add(refusal === undefined ? 'sent' : 'withdrawn')
    if (refusal !== undefined)
      this.#sendEvent(leaseId, { type: 'withdrawn', at: this.#context.instant(), reason: refusal })
  }

  /** Sends the dispatch, or returns why it was not sent. Conditions are checked again now that the lease is durable. */
  #sendDispatch(lease: LeaseContext): string | undefined {
    const { system, clock, timers, log, config } = this.#context
    const { registry, connections, dispatchBackoff } = this.#modules.workers
    const member = registry.get(lease.workerId)
    if (system.peekDurable(LEASE, lease.id) === undefined) {
      this.#context.onInvariantViolated('durable before dispatch')
      return 'the lease is not on disk'
    }
    if (member === undefined || !member.online) return 'the worker is not connected'
    const durable = system.peekDurable(WORKER, lease.workerId)
    if (member.state !== 'active' || durable === undefined || durable.value === 'draining')
      return 'the worker is draining'
    if (member.context.capabilities?.ending === true) return 'the worker is about to end'
    if (config().policy.paused) return 'dispatching is paused'
    // Set the timer before anything that could throw, so that an unanswered lease always ends.
    timers.set(LEASE_TIMER.key(lease.id), 'answer', timers.now() + DISPATCH_ANSWER_MS)
    const job = this.#modules.jobs.preparation.prepareJob(lease)
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
    if (!connections.sendTextToWorker(lease.workerId, text)) {
      // The worker looks free until its connection is closed. Without a backoff every commit would offer it the run.
      dispatchBackoff.onRejected(member, 'its connection takes no more data')
      return 'the worker reads too slowly'
    }
    this.#sentAt.set(lease.id, timers.now())
    return undefined
  }

  // ---- waiting -----------------------------------------------------------------------------------------------------

  #awaitWorker(leaseId: string, arrived: boolean): void {
    const { timers } = this.#context
    const lease = this.#modules.workers.registry.lease(leaseId)
    if (lease === undefined) return
    timers.cancelAll(LEASE_TIMER.key(leaseId))
    timers.set(LEASE_TIMER.key(leaseId), 'away', this.#deadlineOf(lease, arrived))
  }

  #deadlineOf({ id, workerId, termMs }: LeaseContext, arrived: boolean): number {
    const { timers, timeouts } = this.#context
    const lastFrameAt = this.#modules.workers.registry.get(workerId)?.lastFrameAt ?? timers.now()
    // The worker was not heard since this process started: it may count on the promise of the previous process.
    if (lastFrameAt <= this.#startedAt)
      return arrived
        ? leaseDeadline(this.#startedAt, termMs)
        : restoredLeaseDeadline(this.#startedAt, termMs, timeouts())
    if (arrived) return leaseDeadline(lastFrameAt, termMs)
    return Math.max(
      leaseDeadline(lastFrameAt, termMs),
      unansweredLeaseDeadline(this.#sentAt.get(id) ?? timers.now(), termMs, timeouts()),
    )
  }

  #sendCancel({ leaseId, workerId, reason }: Extract<LeaseEffect, { type: 'lease.send cancel' }>): void {
    const { timers, system } = this.#context
    if (system.peek(LEASE, leaseId)?.value !== 'cancelling') return
    this.#modules.workers.connections.sendToWorker(workerId, { type: 'cancel', leaseId, reason })
    if (!this.#cancelSent.has(leaseId)) {
      this.#cancelSent.add(leaseId)
      timers.cancelAll(LEASE_TIMER.key(leaseId))
      timers.set(LEASE_TIMER.key(leaseId), 'cancel', timers.now() + CANCEL_ANSWER_MS)
    }
  }

  #sendEvent(leaseId: string, event: LeaseEvent): void {
    this.#context.system.send(LEASE, leaseId, event)
  }
}
