/**
 * The leases of this worker: which it claims, how long each lives, and what the host's word makes of them.
 *
 * A lease is claimed from its dispatch until the host has its completion. One that is lost, or whose time runs out by
 * the worker's own clock, is stopped in the same moment, before anything is written. Which of them the host has ended it
 * knows; one that this worker gives up on its own is claimed until nothing of it runs, or the host would queue the run
 * again and another worker begin it beside processes that are still dying.
 */
import type { StopRequest } from '../../core/daemon/ports.ts'
import type { GrantedLease, Job, RunLease } from '../../protocol/frames.ts'
import { CANCEL_ANSWER_MS } from '../../protocol/limits.ts'
import type { ActorSystem, StateChange } from '../runtime/actor-system.ts'
import { EXECUTION } from './daemon.names.ts'
import type { ExecutionStatus } from './daemon-dependencies.ts'
import type { ExecutionContext, ExecutionEffect, ExecutionInput } from './execution.machine.ts'
import type { ExecutionLookup } from './execution-lookup.ts'
import type { ExecutionRunner } from './execution-runner.ts'
import type { FrameOutbox } from './frame-outbox.ts'
import type { HostConnection } from './host-connection.ts'
import type { Reports } from './reports.ts'
import type { SleepAwareTimers } from './sleep-aware-timers.ts'

export interface ExecutionPorts {
  readonly system: ActorSystem
  readonly timers: SleepAwareTimers
  readonly hostConnection: HostConnection
  readonly lookup: ExecutionLookup
  readonly outbox: FrameOutbox
  readonly reports: Reports
  readonly runner: ExecutionRunner
  /** How much there is may have changed. */
  readonly onChange: () => void
}

/** The part of a lease's time that its worker uses. */
const WORKER_TERM_SHARE = 0.9
/** An agent that was asked to end, and does not, is killed in time for the host to hear how it ended. */
const CANCEL_KILL_MS = CANCEL_ANSWER_MS * (2 / 3)
/** How long a run waits for an older execution of it to be gone. */
const OLDER_GONE_MS_MAX = 120_000
/** So long after it was given up a lease is claimed at most: what can't be killed must not keep its run from others. */
const GIVEN_UP_CLAIM_MS_MAX = 60_000
/** Leases that are over, for dispatches that come again. */
const OVER_LEASES_MAX = 1_000

/** When a lease runs out: on the monotonic clock, and for people. */
interface LeaseTerm {
  until: number
  expiresAt: string
}

export class Executions {
  readonly #ports: ExecutionPorts
  readonly #terms = new Map<string, LeaseTerm>()
  /** By lease, until when it is still claimed though this worker has given it up. */
  readonly #claimedUntil = new Map<string, number>()
  readonly #overLeases = new Set<string>()

  constructor(ports: ExecutionPorts) {
    this.#ports = ports
  }

  runEffect(effect: ExecutionEffect): void {
    const { reports, runner } = this.#ports
    switch (effect.type) {
      case 'execution.accept':
        this.#sendAcceptance(effect.leaseId)
        return
      case 'execution.begin':
        runner.begin(effect.leaseId)
        return
      case 'execution.work':
        runner.work(effect.leaseId)
        return
      case 'execution.finish':
        runner.finish(effect.leaseId, effect.worked)
        return
      case 'execution.salvage':
        void runner.salvage(effect.leaseId)
        return
      case 'execution.report':
        reports.complete(effect.leaseId)
    }
  }

  // ---- asking ------------------------------------------------------------------------------------------------------

  /** What this worker believes to own, that of which something runs first. */
  claims(): RunLease[] {
    const isClaimed = (leaseId: string, state: string) =>
      state !== 'abandoned' || this.#isStillClaimed(leaseId)
    const claimed = this.#ports.lookup.all().filter(({ fields, state }) => isClaimed(fields.leaseId, state))
    claimed.sort((a, b) => Number(a.state === 'finished') - Number(b.state === 'finished'))
    return claimed.map(({ fields: { leaseId, runId, expiresAt } }) => ({
      id: leaseId,
      runId,
      expiresAt: this.#terms.get(leaseId)?.expiresAt ?? expiresAt,
      lastSeq: this.#ports.outbox.lastSeq(leaseId),
    }))
  }

  #isStillClaimed(leaseId: string): boolean {
    return (this.#claimedUntil.get(leaseId) ?? 0) > this.#ports.timers.now()
  }

  /** What there is of this run is still to be collected, or to be salvaged. */
  claimsRun(runId: string): boolean {
    return this.#ports.lookup
      .all()
      .some(({ fields, state }) => fields.runId === runId && state !== 'finished')
  }

  status(): ExecutionStatus[] {
    return this.#ports.lookup
      .all()
      .map(({ fields: { leaseId, runId }, state }) => ({ leaseId, runId, phase: state }))
  }

  /** `running`: something runs, or is not settled yet. `untold`: settled, and the host has not said that it knows. */
  count(): { readonly running: number; readonly unacknowledged: number } {
    const lookup = this.#ports.lookup.all()
    const unsettled = lookup.filter(({ state }) => state !== 'finished').map(({ fields }) => fields.leaseId)
    const running = new Set([...unsettled, ...this.#ports.runner.occupiedRuns.keys()]).size
    return { running, unacknowledged: lookup.length - unsettled.length }
  }

  /** Slots taken by others than this run. */
  slotsUsedByOthers(runId: string): number {
    const { lookup, runner } = this.#ports
    const unsettled = lookup.all().filter(({ state }) => state !== 'finished')
    const runsByLease = new Map(unsettled.map(({ fields }) => [fields.leaseId, fields.runId]))
    return [...new Map([...runsByLease, ...runner.occupiedRuns]).values()].filter((run) => run !== runId)
      .length
  }

  /** `over`: it was here once. */
  leaseStanding(leaseId: string): 'held' | 'over' | undefined {
    const state = this.#ports.lookup.stateOf(leaseId)
    if (state === undefined) return this.#overLeases.has(leaseId) ? 'over' : undefined
    return state === 'abandoned' ? 'over' : 'held'
  }

  // ---- what the host says ------------------------------------------------------------------------------------------

  /** Answers whether it was taken; then its acceptance is said once it is on disk. */
  begin(lease: GrantedLease, job: Job, workerId: string, arrivedAt: number): boolean {
    const { system, lookup, outbox, reports, runner } = this.#ports
    const { id, runId, expiresAt, remainingMs } = lease
    // The newer lease of a run fences the older one off.
    for (const { fields } of lookup.all())
      if (fields.runId === runId) this.loseLease(fields.leaseId, 'a newer lease of the same run was granted')
    runner.keepJob(id, job)
    reports.open(id, job.repo.remote)
    const input: ExecutionInput = {
      leaseId: id,
      runId,
      workerId,
      expiresAt,
      retentionHours: job.retentionHours,
    }
    if (!system.spawn(EXECUTION, id, input).ok) {
      runner.forgetJob(id)
      reports.close(id)
      return false
    }
    outbox.startSending(id)
    this.renew(id, expiresAt, arrivedAt, remainingMs)
    return true
  }

  /** The host asks again. What is not on disk yet is said when it is. */
  repeatAcceptance(leaseId: string): void {
    const { system, hostConnection } = this.#ports
    if (system.peekDurable(EXECUTION, leaseId) !== undefined)
      hostConnection.send({ type: 'dispatch-accepted', leaseId })
  }

  /** @param since when this worker last gave a sign of life that the host has answered */
  renew(leaseId: string, expiresAt: string, since: number, remainingMs: number): void {
    const state = this.#ports.lookup.stateOf(leaseId)
    if (state === undefined || state === 'abandoned') return
    const before = this.#terms.get(leaseId)?.until ?? Number.NEGATIVE_INFINITY
    const until = Math.max(before, since + remainingMs * WORKER_TERM_SHARE)
    this.#terms.set(leaseId, { until, expiresAt })
    // What is finished does not run out: it is still to be told, and stops nothing.
    if (state !== 'finished' && until > before) this.#ports.timers.at(timerKey(leaseId), 'expiry', until)
  }

  /** It may not be this worker's any more, or never was: then there is nothing to do. */
  loseLease(leaseId: string, reason: string, how: StopRequest['how'] = 'kill'): void {
    this.#claimedUntil.delete(leaseId)
    this.#ports.lookup.send(leaseId, { type: 'lost', how, reason })
  }

  /** By this worker's own decision: as far as the host knows it is still its own. */
  #giveUp(leaseId: string, reason: string): void {
    const { lookup, timers } = this.#ports
    if (lookup.stateOf(leaseId) !== 'abandoned')
      this.#claimedUntil.set(leaseId, timers.now() + GIVEN_UP_CLAIM_MS_MAX)
    lookup.send(leaseId, { type: 'lost', how: 'kill', reason })
  }

  cancel(leaseId: string, reason: string): void {
    this.#ports.lookup.send(leaseId, { type: 'cancel requested', reason })
  }

  acknowledgeCompletion(leaseId: string): void {
    this.#ports.lookup.send(leaseId, { type: 'acknowledged' })
  }

  /** The host may be ahead of this disk, and took the number of the completion for that of something else. */
  repeatCompletion(leaseId: string): void {
    const { lookup, reports } = this.#ports
    if (lookup.stateOf(leaseId) === 'finished') reports.complete(leaseId)
  }

  /** A timer that was set here came due. */
  onTimer(key: string, name: string): void {
    const { lookup, runner } = this.#ports
    const leaseId = key.slice(LEASE_TIMER.length)
    if (name === 'expiry') this.#giveUp(leaseId, 'its time ran out without a word of the host')
    else if (name === 'kill') runner.stop(leaseId, { how: 'kill', reason: 'it did not end when asked' })
    else if (runner.stopWaiting(leaseId))
      lookup.send(leaseId, {
        type: 'could not prepare',
        reason: 'an older execution of this run can not be ended',
      })
  }

  // ---- all of them -------------------------------------------------------------------------------------------------

  /** Not claimed any more. `all`: what is finished, too, for there is nobody left to tell. */
  abandonAll(how: StopRequest['how'], reason: string, all: boolean): void {
    for (const { fields, state } of this.#ports.lookup.all())
      if (all || state !== 'finished') this.loseLease(fields.leaseId, reason, how)
  }

  /** Not claimed any more once it is gone, so that others do it; but what is out already is told as done. */
  handBackAll(reason: string): void {
    const { lookup } = this.#ports
    for (const { fields, state } of lookup.all()) {
      if (state === 'finished') continue
      if (fields.progress.prUrl === undefined) this.#giveUp(fields.leaseId, reason)
      else lookup.send(fields.leaseId, { type: 'stopped', reason })
    }
  }

  /** The daemon ends, and whatever still runs ends with it. */
  releaseClaims(): void {
    this.#claimedUntil.clear()
  }

  /** Killed at once; how far each came is put on disk. */
  killAll(reason: string): void {
    const { lookup, runner } = this.#ports
    for (const { fields } of lookup.all()) lookup.send(fields.leaseId, { type: 'stopped', reason })
    // Lives hear nothing any more when the disk is broken.
    runner.killAll(reason)
  }

  // ---- following the lives -----------------------------------------------------------------------------------------

  onStateChange({ key, before, after, over, restored }: StateChange): void {
    const { outbox, timers } = this.#ports
    const { stop } = after.context as ExecutionContext
    const stoppedBefore = (before?.context as ExecutionContext | undefined)?.stop
    if (before === undefined) outbox.openLease(key, restored)
    // Of one that was brought back nothing runs; what becomes of it is its own affair.
    if (!restored && stop !== null && stop !== stoppedBefore) this.#stop(key, stop)
    if (after.value === 'finished') timers.cancelAll(timerKey(key))
    if (over) this.#cleanUp(key)
    this.#ports.onChange()
  }

  /** At once, whatever the disk does: a full one must not keep a fenced run alive. */
  #stop(leaseId: string, { as, how, reason }: NonNullable<ExecutionContext['stop']>): void {
    const { lookup, timers, runner } = this.#ports
    if (as !== 'cancelled') timers.cancelAll(timerKey(leaseId))
    if (as === 'cancelled' && how === 'interrupt') timers.in(timerKey(leaseId), 'kill', CANCEL_KILL_MS)
    runner.forgetJob(leaseId)
    const order = { how, reason, ...(as === 'nothing' ? { inVain: true } : {}) }
    if (!runner.stop(leaseId, order)) lookup.send(leaseId, { type: 'ended', outcome: null })
  }

  #cleanUp(leaseId: string): void {
    const { outbox, reports, timers, runner } = this.#ports
    runner.forgetJob(leaseId)
    runner.stop(leaseId, { how: 'kill', reason: 'the lease is over' })
    timers.cancelAll(timerKey(leaseId))
    reports.close(leaseId)
    outbox.closeLease(leaseId)
    this.#terms.delete(leaseId)
    this.#claimedUntil.delete(leaseId)
    this.#overLeases.add(leaseId)
    for (const oldest of this.#overLeases) {
      if (this.#overLeases.size <= OVER_LEASES_MAX) return
      this.#overLeases.delete(oldest)
    }
  }

  #sendAcceptance(leaseId: string): void {
    const { hostConnection, lookup, timers, runner } = this.#ports
    if (lookup.stateOf(leaseId) !== 'accepted') return
    hostConnection.send({ type: 'dispatch-accepted', leaseId })
    timers.in(timerKey(leaseId), 'older', OLDER_GONE_MS_MAX)
    runner.enqueue(leaseId)
  }
}

/** In front of the keys of this room's timers. */
export const LEASE_TIMER = 'lease '
const timerKey = (leaseId: string): string => `${LEASE_TIMER}${leaseId}`
