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
import type { Meters } from '../../core/ports.ts'
import { CANCEL_ANSWER_MS, DISPATCH_ANSWER_MS } from '../../protocol/limits.ts'
import type { Run } from '../../protocol/run.ts'
import type { HostContext } from '../host-context.ts'
import type { JobPreparation } from '../runs/job-preparation.ts'
import type { LeaseShares } from '../runs/lease-shares.ts'
import type { RunMachineEvent } from '../runs/run.machine.ts'
import { RUN } from '../runs/run.machine.ts'
import type { StateChange } from '../runtime/actor-system.ts'
import { Counter } from '../runtime/counter.ts'
import type { DispatchBackoff } from '../workers/dispatch-backoff.ts'
import type { EnrolledWorker } from '../workers/enrolled-worker.ts'
import { WORKER } from '../workers/worker.machine.ts'
import type { WorkerConnections } from '../workers/worker-connections.ts'
import type { WorkerRegistry } from '../workers/worker-registry.ts'
import type { EndedLeases } from './ended-leases.ts'
import type { FrameReceiver } from './frame-receiver.ts'
import type { LeaseContext, LeaseEffect, LeaseEvent } from './lease.machine.ts'
import { LEASE } from './lease.names.ts'

export interface LeaseManagerPorts
  extends Pick<
    HostContext,
    'clock' | 'instant' | 'log' | 'system' | 'timers' | 'timeouts' | 'requestScheduling'
  > {
  readonly newId: () => string
  readonly workers: WorkerRegistry
  readonly connections: WorkerConnections
  readonly dispatchBackoff: DispatchBackoff
  readonly frameReceiver: FrameReceiver
  readonly endedLeases: EndedLeases
  /** Whether an operator has paused dispatching. */
  readonly isPaused: () => boolean
  readonly preparation: JobPreparation
  readonly leaseShares: LeaseShares
  readonly onInvariantViolated: (law: 'one live lease a run' | 'durable before dispatch') => void
}

const timerKey = (leaseId: string): string => `lease ${leaseId}`

export class LeaseManager {
  readonly #ports: LeaseManagerPorts
  /** When each dispatch was sent, in monotonic milliseconds, by lease id. */
  readonly #sentAt = new Map<string, number>()
  /** Leases whose cancel was sent. The cancel timeout starts once, however often the worker reconnects. */
  readonly #cancelSent = new Set<string>()
  readonly #startedAt: number
  readonly #endCounter = new Counter('leases_ended_total', 'how')
  readonly #dispatchCounter = new Counter('dispatches_total', 'outcome')

  constructor(ports: LeaseManagerPorts) {
    this.#ports = ports
    this.#startedAt = ports.timers.now()
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
        this.#ports.connections.sendToWorker(effect.workerId, {
          type: 'run-complete-ack',
          leaseId: effect.leaseId,
        })
        return
      case 'lease.fence':
        this.#ports.connections.sendToWorker(effect.workerId, {
          type: 'lease-lost',
          leaseId: effect.leaseId,
          reason: effect.reason,
        })
        return
    }
  }

  // ---- leases begin and end ----------------------------------------------------------------------------------------

  grantLease(run: Run, worker: EnrolledWorker): void {
    const { workers, system, instant, newId, timeouts } = this.#ports
    // A run that recovers from a crash does not know of its lease yet and looks as if it had none.
    if (workers.leaseOf(run.id) !== undefined) return
    const id = newId()
    const spawned = system.spawn(LEASE, id, {
      id,
      runId: run.id,
      workerId: worker.id,
      termMs: leaseTermMs(timeouts()),
      grantedAt: instant(),
    })
    const place = this.#ports.preparation.placeOf(run)
    const granted: RunMachineEvent = {
      type: 'granted',
      leaseId: id,
      ...(place === undefined ? {} : { place }),
    }
    if (spawned.ok) system.send(RUN, run.id, granted)
  }

  onLeaseChanged({ key, before, after, over, restored }: StateChange): void {
    const { frameReceiver, workers, dispatchBackoff, onInvariantViolated } = this.#ports
    const lease = after.context as LeaseContext
    if (over) {
      this.#onLeaseEnded(lease)
      return
    }
    if (before === undefined && workers.updateLease(lease) !== undefined)
      onInvariantViolated('one live lease a run')
    if (after.value === 'held' && before !== undefined && before.value !== 'held') {
      workers.noteAcceptance(lease)
      const worker = workers.get(lease.workerId)
      if (worker !== undefined) dispatchBackoff.onAccepted(worker)
    }
    frameReceiver.openLease(lease, restored, after.value !== 'offered' && after.value !== 'unconfirmed')
    if (after.value === 'held' && !restored) frameReceiver.onLeaseHeld(lease.id)
    if (before !== undefined && before.value !== after.value) this.#ports.timers.cancelAll(timerKey(key))
  }

  #onLeaseEnded(lease: LeaseContext): void {
    const {
      timers,
      frameReceiver,
      clock,
      endedLeases,
      leaseShares,
      workers,
      requestScheduling,
      preparation,
    } = this.#ports
    workers.removeLease(lease)
    frameReceiver.closeLease(lease.id)
    timers.cancelAll(timerKey(lease.id))
    this.#sentAt.delete(lease.id)
    this.#cancelSent.delete(lease.id)
    preparation.forgetJob(lease.id)
    endedLeases.recordEnd(lease, clock.now(), leaseShares.take(lease.runId, lease.id))
    this.#endCounter.add(lease.end ?? 'lost')
    requestScheduling()
  }

  /** Called when a timer of a lease fires. */
  onTimer(key: string, name: string): void {
    const leaseId = key.slice('lease '.length)
    const at = this.#ports.instant()
    if (name === 'away') this.#sendEvent(leaseId, { type: 'lease expired', at })
    else if (name === 'cancel') this.#sendEvent(leaseId, { type: 'cancel timed out', at })
    else this.#onDispatchUnanswered(leaseId, at)
  }

  #onDispatchUnanswered(leaseId: string, at: string): void {
    const { dispatchBackoff, workers } = this.#ports
    const member = workers.get(workers.lease(leaseId)?.workerId ?? '')
    this.#sendEvent(leaseId, { type: 'unanswered', at })
    if (member !== undefined) dispatchBackoff.onRejected(member, NO_ANSWER)
  }

  // ---- dispatch ----------------------------------------------------------------------------------------------------

  /** A dispatch to a new worker waits for the audit trail, and is then judged and timed anew. */
  #dispatchWhenOpen(leaseId: string): void {
    const { workers, connections } = this.#ports
    const workerId = workers.lease(leaseId)?.workerId ?? ''
    if (!connections.holdUntilFirst(workerId, () => this.#dispatch(leaseId))) this.#dispatch(leaseId)
  }

  #dispatch(leaseId: string): void {
    const { system } = this.#ports
    const snapshot = system.peek(LEASE, leaseId)
    // The lease may have changed between the commit and now.
    if (snapshot === undefined || (snapshot.value !== 'offered' && snapshot.value !== 'unconfirmed')) return
    const lease = snapshot.context as LeaseContext
    const refusal =
      snapshot.value === 'unconfirmed' ? 'the worker disconnected before' : this.#sendDispatch(lease)
    this.#dispatchCounter.add(refusal === undefined ? 'sent' : 'withdrawn')
    if (refusal !== undefined)
      this.#sendEvent(leaseId, { type: 'withdrawn', at: this.#ports.instant(), reason: refusal })
  }

  /** Sends the dispatch, or returns why it was not sent. Conditions are checked again now that the lease is durable. */
  #sendDispatch(lease: LeaseContext): string | undefined {
    const { system, workers, connections, dispatchBackoff, clock, timers, log } = this.#ports
    const member = workers.get(lease.workerId)
    if (system.peekDurable(LEASE, lease.id) === undefined) {
      this.#ports.onInvariantViolated('durable before dispatch')
      return 'the lease is not on disk'
    }
    if (member === undefined || !member.online) return 'the worker is not connected'
    const durable = system.peekDurable(WORKER, lease.workerId)
    if (member.state !== 'active' || durable === undefined || durable.value === 'draining')
      return 'the worker is draining'
    if (member.context.capabilities?.ending === true) return 'the worker is about to end'
    if (this.#ports.isPaused()) return 'dispatching is paused'
    // Set the timer before anything that could throw, so that an unanswered lease always ends.
    timers.set(timerKey(lease.id), 'answer', timers.now() + DISPATCH_ANSWER_MS)
    const job = this.#ports.preparation.prepareJob(lease)
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
    const { workers, timers } = this.#ports
    const lease = workers.lease(leaseId)
    if (lease === undefined) return
    timers.cancelAll(timerKey(leaseId))
    timers.set(timerKey(leaseId), 'away', this.#deadlineOf(lease, arrived))
  }

  #deadlineOf({ id, workerId, termMs }: LeaseContext, arrived: boolean): number {
    const { workers, timers, timeouts } = this.#ports
    const lastFrameAt = workers.get(workerId)?.lastFrameAt ?? timers.now()
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
    const { timers, connections, system } = this.#ports
    if (system.peek(LEASE, leaseId)?.value !== 'cancelling') return
    connections.sendToWorker(workerId, { type: 'cancel', leaseId, reason })
    if (!this.#cancelSent.has(leaseId)) {
      this.#cancelSent.add(leaseId)
      timers.cancelAll(timerKey(leaseId))
      timers.set(timerKey(leaseId), 'cancel', timers.now() + CANCEL_ANSWER_MS)
    }
  }

  #sendEvent(leaseId: string, event: LeaseEvent): void {
    this.#ports.system.send(LEASE, leaseId, event)
  }
}
