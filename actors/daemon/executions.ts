/**
 * Manages the leases of this worker: which it claims, when each expires, and what the host's frames change.
 *
 * A lease is claimed from its dispatch until its completion is acknowledged. A lost lease, or one that expires on the
 * worker's own clock, is stopped at once, before anything is written. A lease that the worker gives up by itself stays
 * claimed until its processes are gone (`given-up-claims.ts`). Otherwise the host would queue the run again, and another
 * worker would start it while the old processes are still exiting.
 *
 * An execution begins when its acceptance has left in time on the connection of its dispatch. Otherwise the host may
 * have given the run to another worker meanwhile, so the execution waits until the host names the lease again.
 */

import type { StopRequest } from '../../core/daemon/ports.ts'
import { workerTermMs } from '../../core/lease/deadline.ts'
import { interruptionError } from '../../core/run/interruption.ts'
import type { GrantedLease, Job, RunLease } from '../../protocol/frames.ts'
import { CANCEL_ANSWER_MS, DISPATCH_ANSWER_MS } from '../../protocol/limits.ts'
import type { StateChange } from '../runtime/actor-system.ts'
import { timerKind } from '../runtime/timer-kind.ts'
import { EXECUTION } from './daemon.names.ts'
import type { DaemonContext, ExecutionStatus } from './daemon-context.ts'
import {
  type ExecutionContext,
  type ExecutionEffect,
  type ExecutionInput,
  isLeaseLost,
} from './execution.machine.ts'
import type { ExecutionParts, ExecutionRunner } from './execution-runner.ts'
import { GivenUpClaims } from './given-up-claims.ts'
import type { Settlements } from './settlements.ts'

/** How long a worker that is being stopped publishes what agents have finished: less than its host waits for its end. */
export const LAST_PUBLISH_MS_MAX = 2_500

/** The parts of the executions module itself, and of the modules above it. */
interface LeaseParts extends ExecutionParts {
  readonly runner: ExecutionRunner
  readonly settlements: Settlements
}

/** An interrupted agent that does not end is killed early enough to report the outcome within `CANCEL_ANSWER_MS`. */
const CANCEL_KILL_MS = CANCEL_ANSWER_MS * (2 / 3)
/** How long an execution waits for an older execution of the same run to exit. */
const OLDER_GONE_MS_MAX = 120_000
/** How many ended lease ids are remembered, to reject dispatches that are repeated. */
const OVER_LEASES_MAX = 1_000

/** When a lease expires: on the monotonic clock (`until`), and as a timestamp for the host. */
interface LeaseTerm {
  until: number
  expiresAt: string
}

/** A dispatch whose acceptance has not been sent yet. */
interface UnansweredDispatch {
  readonly arrivedAt: number
  readonly connectionKey: object | undefined
}

type ExecutionTimer = 'expiry' | 'publish' | 'kill' | 'older'
export const EXECUTION_TIMER = timerKind<ExecutionTimer>('lease')

export class Executions {
  readonly #context: DaemonContext
  readonly #parts: LeaseParts
  readonly #terms = new Map<string, LeaseTerm>()
  readonly #givenUpClaims: GivenUpClaims
  readonly #overLeases = new Set<string>()
  readonly #unanswered = new Map<string, UnansweredDispatch>()
  /** By lease id, since when an accepted execution waits for the host to name its lease. */
  readonly #unconfirmedSince = new Map<string, number>()

  constructor(context: DaemonContext, parts: LeaseParts) {
    this.#context = context
    this.#parts = parts
    this.#givenUpClaims = new GivenUpClaims(context.timers)
  }

  runEffect(effect: ExecutionEffect): void {
    const { reports, runner } = this.#parts
    switch (effect.type) {
      case 'execution.accept':
        this.#sendAcceptance(effect.leaseId)
        return
      case 'execution.start':
        runner.start(effect.leaseId)
        return
      case 'execution.run agent':
        runner.runAgent(effect.leaseId)
        return
      case 'execution.finish':
        runner.finish(effect.leaseId, effect.agent)
        return
      case 'execution.recover':
        void runner.recover(effect.leaseId)
        return
      case 'execution.report':
        reports.complete(effect.leaseId)
    }
  }

  // ---- queries ------------------------------------------------------------------------------------------------------

  /** The leases that this worker claims, unfinished ones first. */
  claims(): RunLease[] {
    const isClaimed = (fields: ExecutionContext) =>
      !isLeaseLost(fields) || this.#givenUpClaims.has(fields.leaseId)
    const claimed = this.#parts.lookup.all().filter(({ fields }) => isClaimed(fields))
    claimed.sort((a, b) => Number(a.state === 'finished') - Number(b.state === 'finished'))
    return claimed.map(({ fields: { leaseId, runId, expiresAt } }) => ({
      id: leaseId,
      runId,
      expiresAt: this.#terms.get(leaseId)?.expiresAt ?? expiresAt,
      lastSeq: this.#parts.outbox.lastSeq(leaseId),
    }))
  }

  /** Whether outputs of this run are, or may be, still to be collected or recovered. */
  claimsRun(runId: string): boolean {
    const { lookup, unstoredEnds } = this.#parts
    if (lookup.isStopped) return true
    const isUnfinished = lookup
      .all()
      .some(({ fields, state }) => fields.runId === runId && state !== 'finished')
    return isUnfinished || unstoredEnds.has(runId)
  }

  status(): ExecutionStatus[] {
    return this.#parts.lookup
      .all()
      .map(({ fields: { leaseId, runId }, state }) => ({ leaseId, runId, phase: state }))
  }

  /** `running`: not finished, or with processes left. `unacknowledged`: finished, and the host has not acknowledged it. */
  count(): { readonly running: number; readonly unacknowledged: number } {
    const lookup = this.#parts.lookup.all()
    const unsettled = lookup.filter(({ state }) => state !== 'finished').map(({ fields }) => fields.leaseId)
    const running = new Set([...unsettled, ...this.#parts.runner.occupiedRuns.keys()]).size
    return { running, unacknowledged: lookup.length - unsettled.length }
  }

  /** How many slots runs other than this one use. */
  slotsUsedByOthers(runId: string): number {
    const { lookup, runner } = this.#parts
    const unsettled = lookup.all().filter(({ state }) => state !== 'finished')
    const runsByLease = new Map(unsettled.map(({ fields }) => [fields.leaseId, fields.runId]))
    return [...new Map([...runsByLease, ...runner.occupiedRuns]).values()].filter((run) => run !== runId)
      .length
  }

  /** `over`: this worker had the lease once. */
  leaseStanding(leaseId: string): 'held' | 'over' | undefined {
    const fields = this.#parts.lookup.fieldsOf(leaseId)
    if (fields === undefined) return this.#overLeases.has(leaseId) ? 'over' : undefined
    return isLeaseLost(fields) ? 'over' : 'held'
  }

  // ---- frames of the host ------------------------------------------------------------------------------------------

  /** Starts an execution. Returns false when it could not be recorded; otherwise `dispatch-accepted` follows its commit. */
  begin(lease: GrantedLease, job: Job, workerId: string, arrivedAt: number): boolean {
    const { system, hostSender } = this.#context
    const { lookup, outbox, reports, runner } = this.#parts
    const { id, runId, expiresAt, remainingMs } = lease
    // The newer lease of a run fences the older one.
    for (const { fields } of lookup.all())
      if (fields.runId === runId) this.loseLease(fields.leaseId, 'a newer lease of the same run was granted')
    runner.keepJob(id, job)
    reports.open(id, job)
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
    this.#unanswered.set(id, { arrivedAt, connectionKey: hostSender.connectionKey })
    outbox.startSending(id)
    this.renew(id, expiresAt, arrivedAt, remainingMs)
    return true
  }

  /** Answers a repeated dispatch. If the execution is not on disk yet, the pending commit sends the answer. */
  repeatAcceptance(leaseId: string): void {
    const { system, hostSender } = this.#context
    if (system.peekDurable(EXECUTION, leaseId) !== undefined)
      hostSender.send({ type: 'dispatch-accepted', leaseId })
  }

  /** @param since when this worker sent the heartbeat or `register` that the host has answered */
  renew(leaseId: string, expiresAt: string, since: number, remainingMs: number): void {
    const found = this.#parts.lookup.find(leaseId)
    if (found === undefined || isLeaseLost(found.fields)) return
    const { state } = found
    const before = this.#terms.get(leaseId)?.until ?? Number.NEGATIVE_INFINITY
    const until = Math.max(before, since + workerTermMs(remainingMs))
    this.#terms.set(leaseId, { until, expiresAt })
    if (since >= (this.#unconfirmedSince.get(leaseId) ?? Number.POSITIVE_INFINITY)) this.#start(leaseId)
    // After its end an execution does not expire: only its report is left, and there is nothing to stop.
    const hasEnded = state === 'recovering' || state === 'finished'
    if (!hasEnded && until > before) this.#context.timers.at(EXECUTION_TIMER.key(leaseId), 'expiry', until)
  }

  /** Nothing happens for a lease that this worker does not have. */
  loseLease(leaseId: string, reason: string, how: StopRequest['how'] = 'kill'): void {
    this.#givenUpClaims.delete(leaseId)
    this.#parts.lookup.send(leaseId, { type: 'lease lost', how, reason })
  }

  /** Ends a lease by the worker's own decision; the host still counts it as held by this worker. */
  #giveUp(leaseId: string, reason: string): void {
    const { lookup } = this.#parts
    const fields = lookup.fieldsOf(leaseId)
    if (fields !== undefined && !isLeaseLost(fields)) this.#givenUpClaims.add(leaseId)
    lookup.send(leaseId, { type: 'lease lost', how: 'kill', reason })
  }

  cancel(leaseId: string, reason: string): void {
    this.#parts.lookup.send(leaseId, { type: 'cancel requested', reason })
  }

  acknowledgeCompletion(leaseId: string): void {
    this.#parts.lookup.send(leaseId, { type: 'completion acknowledged' })
  }

  /**
   * Adds the completion to the outbox again if it is missing: this disk may be older than what the host has
   * acknowledged, and then the acknowledged number belonged to another frame.
   */
  repeatCompletion(leaseId: string): void {
    const { lookup, reports } = this.#parts
    if (lookup.stateOf(leaseId) === 'finished') reports.complete(leaseId)
  }

  onClaimTimer(leaseId: string): void {
    this.#givenUpClaims.onTimer(leaseId)
  }

  onTimer(leaseId: string, name: ExecutionTimer): void {
    const { lookup, runner } = this.#parts
    if (name === 'expiry') this.#giveUp(leaseId, 'the lease expired without an acknowledgement from the host')
    else if (name === 'publish')
      lookup.send(leaseId, {
        type: 'stop requested',
        reason: interruptionError('the worker ended before the work was published'),
      })
    else if (name === 'kill')
      runner.stop(leaseId, { how: 'kill', reason: 'the execution did not end after the interrupt' })
    else if (runner.stopWaiting(leaseId))
      lookup.send(leaseId, {
        type: 'preparation failed',
        reason: 'an older execution of this run cannot be ended',
      })
  }

  // ---- all executions -------------------------------------------------------------------------------------------------

  /** Ends and unclaims all leases. `all`: finished ones, too, because the host will not accept their completion. */
  abandonAll(how: StopRequest['how'], reason: string, all: boolean): void {
    for (const { fields, state } of this.#parts.lookup.all())
      if (all || state !== 'finished') this.loseLease(fields.leaseId, reason, how)
  }

  /**
   * Hands all runs back, so that other workers get them. A run whose agent has ended has a moment to be published, and is
   * reported in any case: its work is published later, and its agent does not begin again.
   */
  handBackAll(reason: string): void {
    const { timers } = this.#context
    const { lookup } = this.#parts
    for (const { fields, state } of lookup.all()) {
      if (state === 'finished') continue
      if (state === 'finishing')
        timers.in(EXECUTION_TIMER.key(fields.leaseId), 'publish', LAST_PUBLISH_MS_MAX)
      else this.#handBack(fields.leaseId, reason)
    }
  }

  /** Gives back the runs whose agents have not begun; the others continue. */
  handBackUnbegun(reason: string): void {
    for (const { fields, state } of this.#parts.lookup.all())
      if (state === 'accepted' || state === 'preparing') this.#handBack(fields.leaseId, reason)
  }

  /**
   * Gives up the lease of a run that begins again elsewhere. A run whose pull request exists, whose agent has not begun, or
   * whose work is finished, is reported instead. A host of the first form takes no report for a run that was given back.
   */
  #handBack(leaseId: string, reason: string): void {
    const { hostSender } = this.#context
    const { lookup } = this.#parts
    const { begun = true, progress = {} } = lookup.fieldsOf(leaseId) ?? {}
    const isDone = progress.prUrl !== undefined || progress.sandbox?.unpublished === true
    if ((begun || hostSender.isFirstForm) && !isDone) this.#giveUp(leaseId, reason)
    else lookup.send(leaseId, { type: 'stop requested', reason })
  }

  /**
   * Stops claiming given-up leases that no process is left of. The others stay claimed in the last heartbeat: their
   * processes may outlive the daemon, so the host waits for the end of the lease before it queues the run again.
   */
  releaseEndedClaims(): void {
    this.#givenUpClaims.keepOnly((leaseId) => this.#parts.runner.occupiedRuns.has(leaseId))
  }

  /** Kills all executions at once; their progress is written to disk. */
  killAll(reason: string): void {
    const { lookup, runner } = this.#parts
    for (const { fields } of lookup.all()) lookup.send(fields.leaseId, { type: 'stop requested', reason })
    // After a disk failure actors receive no events.
    runner.killAll(reason)
  }

  // ---- state changes -----------------------------------------------------------------------------------------

  onStateChange({ key, before, after, over, restored }: StateChange<ExecutionContext>): void {
    const { timers } = this.#context
    const { outbox, unstoredEnds } = this.#parts
    const { stop, runId } = after.context
    const isEnd = after.value === 'finished' || over
    if (!restored && isEnd && before?.value !== 'finished') unstoredEnds.add(key, runId)
    const stoppedBefore = before?.context.stop
    if (before === undefined) outbox.openLease(key, restored)
    // A restored execution has no processes, so there is nothing to stop.
    if (!restored && stop !== null && stop !== stoppedBefore) this.#stop(key, stop)
    if (after.value === 'finished') timers.cancelAll(EXECUTION_TIMER.key(key))
    if (over) this.#cleanUp(after.context)
    this.#context.publish({ view: 'executions' })
  }

  /** Stops before the commit, because a full disk must not keep a fenced run alive. */
  #stop(leaseId: string, { as, how, reason }: NonNullable<ExecutionContext['stop']>): void {
    const { timers } = this.#context
    const { lookup, outbox, runner } = this.#parts
    if (as === 'nothing') outbox.stopSending(leaseId)
    // An interrupted agent may go on for a while, but not beyond the end of its lease.
    if (how === 'kill' && as !== 'cancelled') timers.cancelAll(EXECUTION_TIMER.key(leaseId))
    if (as === 'cancelled' && how === 'interrupt')
      timers.in(EXECUTION_TIMER.key(leaseId), 'kill', CANCEL_KILL_MS)
    runner.forgetJob(leaseId)
    const request: StopRequest = { how, reason, ...(as === 'nothing' ? { leaseLost: true } : {}) }
    if (!runner.stop(leaseId, request)) lookup.send(leaseId, { type: 'ended', outcome: null })
  }

  /** Ends an execution for good. Costs that the host has not acknowledged are settled, however the execution ended. */
  #cleanUp({ leaseId, costs }: ExecutionContext): void {
    const { timers } = this.#context
    const { outbox, reports, settlements, runner } = this.#parts
    if (costs.length > 0) settlements.add(leaseId, costs, outbox.unacknowledgedUsage(leaseId))
    runner.forgetJob(leaseId)
    runner.stop(leaseId, { how: 'kill', reason: 'the lease is over' })
    timers.cancelAll(EXECUTION_TIMER.key(leaseId))
    reports.close(leaseId)
    outbox.closeLease(leaseId)
    this.#terms.delete(leaseId)
    this.#givenUpClaims.delete(leaseId)
    this.#unanswered.delete(leaseId)
    this.#unconfirmedSince.delete(leaseId)
    this.#overLeases.add(leaseId)
    for (const oldest of this.#overLeases) {
      if (this.#overLeases.size <= OVER_LEASES_MAX) return
      this.#overLeases.delete(oldest)
    }
  }

  #sendAcceptance(leaseId: string): void {
    const { hostSender, timers } = this.#context
    const { lookup } = this.#parts
    const dispatch = this.#unanswered.get(leaseId)
    this.#unanswered.delete(leaseId)
    if (lookup.stateOf(leaseId) !== 'accepted') return
    const isSameConnection = hostSender.isUp && hostSender.connectionKey === dispatch?.connectionKey
    const isInTime = dispatch !== undefined && timers.now() - dispatch.arrivedAt <= DISPATCH_ANSWER_MS
    if (isSameConnection) hostSender.send({ type: 'dispatch-accepted', leaseId })
    if (isSameConnection && isInTime) this.#start(leaseId)
    else this.#unconfirmedSince.set(leaseId, timers.now())
  }

  #start(leaseId: string): void {
    const { timers } = this.#context
    const { runner } = this.#parts
    this.#unconfirmedSince.delete(leaseId)
    timers.in(EXECUTION_TIMER.key(leaseId), 'older', OLDER_GONE_MS_MAX)
    runner.enqueue(leaseId)
  }
}
