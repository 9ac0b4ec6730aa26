/**
 * RunManager creates runs and reacts to every change of their state: it queues them, logs their status, moves tickets,
 * publishes updates, and passes ended runs on.
 *
 * RunManager itself only knows which ticket has an active run (queued or with a worker). The modules that it calls keep
 * everything else.
 */
import { createdAtOf } from '../../core/ids.ts'
import { no, type Result, yes } from '../../core/result.ts'
import { createStatusEvent } from '../../core/run/describe-transition.ts'
import { approveEdit } from '../../core/run/edited-ticket.ts'
import { publishedBundles } from '../../core/run/publishing.ts'
import { applyRunOptions } from '../../core/run/run-options.ts'
import {
  failRun,
  isTerminal,
  newRun,
  revertFollowUp,
  updatePullState,
} from '../../core/run/run-transitions.ts'
import { endsWithTicket, ticketLeftReason } from '../../core/tickets/run-progress.ts'
import type { PullState, Run, RunOptions, Ticket } from '../../protocol/run.ts'
import type { HostContext } from '../host-context.ts'
import { LEASE } from '../leases/lease.names.ts'
import type { StateChange } from '../runtime/actor-system.ts'
import type { WorkersView } from '../workers/module.ts'
import type { RunRecordsView } from './module.ts'
import { RUN, type RunContext, type RunInput, type RunMachineEvent } from './run.machine.ts'
import type { RunTransition } from './run-report.ts'

/** Runs that may be queued at once. */
const QUEUED_RUNS_MAX = 100_000

/** Effects that belong to no single lease or connection. */
export type RunEffect =
  | { readonly type: 'run.mark failed'; readonly runId: string }
  /** The record of the run names the artifact no more. */
  | { readonly type: 'run.delete artifact'; readonly runId: string; readonly name: string }

type StatusChange = Pick<RunTransition, 'run' | 'from' | 'job'>

export class RunManager {
  readonly #context: HostContext
  readonly #records: RunRecordsView
  readonly #workers: WorkersView
  /** Ids of active runs, by ticket id. */
  readonly #active = new Map<string, string>()
  /** Runs in the queue without a lease. */
  readonly #waiting = new Set<string>()
  readonly #startedAt: string

  constructor(context: HostContext, records: RunRecordsView, workers: WorkersView) {
    this.#context = context
    this.#records = records
    this.#workers = workers
    this.#startedAt = context.instant()
  }

  // ---- runs begin --------------------------------------------------------------------------------------------------

  /** Refused when the queue is full. */
  checkQueueLimit(): Result<void> {
    if (this.#waiting.size < QUEUED_RUNS_MAX) return yes(undefined)
    return no('unavailable', `${QUEUED_RUNS_MAX} runs are waiting already; cancel some first`)
  }

  /** Creates a run of a ticket. Refused when the queue is full; the next poll of the tracker then tries again. */
  /** `isRead`: a person starts it with the words of its ticket. */
  createRun(ticket: Ticket, options: RunOptions = {}, isRead = false): Result<string> {
    const space = this.checkQueueLimit()
    if (!space.ok) return space
    const { config, instant, ids, system } = this.#context
    const id = ids.run()
    this.#records.eventLog.begin(id)
    const run = applyRunOptions(newRun(id, ticket, config().sandbox.provider, instant()), options)
    const input: RunInput = {
      run: isRead ? approveEdit(run, ticket) : run,
      job: 'run',
      woken: null,
      earlier: null,
      attempts: 0,
    }
    const spawned = system.spawn(RUN, id, input)
    return spawned.ok ? { ok: true, value: id } : spawned
  }

  /** Queues a run again whose record is active although it has no actor. */
  requeueLostRun(run: Run): void {
    // Only follow-ups start with a result. The lost actor knew which follow-up it was, so it can't be continued.
    if (run.result !== undefined) {
      this.#restoreEarlierEnd(run, 'its state was lost in a restart')
      return
    }
    const { startedAt: _, ...rest } = run
    const queued: Run = {
      ...rest,
      status: 'queued',
      queueReason: 'interrupted: its state was lost in a restart',
    }
    const input: RunInput = { run: queued, job: 'run', woken: run.status, earlier: null, attempts: 0 }
    this.#context.system.spawn(RUN, run.id, input)
  }

  // ---- queries and events ------------------------------------------------------------------------------------------

  /** How many tickets have an active run. */
  get size(): number {
    return this.#active.size
  }

  /** Ids of the tickets that have an active run. */
  activeTickets(): Iterable<string> {
    return this.#active.keys()
  }

  /** Returns the latest record of a run, on disk or not. */
  latest(runId: string): Run | undefined {
    return this.#contextOf(runId)?.run ?? this.#records.finishedRuns.latest(runId)
  }

  activeRunOf(ticketId: string): string | undefined {
    return this.#active.get(ticketId)
  }

  send(runId: string, event: RunMachineEvent): boolean {
    return this.#context.system.send(RUN, runId, event)
  }

  /** The lease of a run that waits, after a restart that lost the lease, until no worker can hold it. */
  lostLeaseOf(runId: string): string | undefined {
    const leaseId = this.#contextOf(runId)?.lease ?? undefined
    return this.#workers.registry.leaseOf(runId) === undefined ? leaseId : undefined
  }

  /** Cancels a run: at once while its lease is lost, because no worker can be asked. */
  cancel(runId: string, request: Extract<RunMachineEvent, { readonly type: 'cancel requested' }>): void {
    const leaseId = this.lostLeaseOf(runId)
    this.send(runId, request)
    if (leaseId !== undefined) this.send(runId, { type: 'cancel enforced', leaseId, at: request.at })
  }

  /** Cancels the run of a ticket that is no longer eligible, unless the run may finish without it. */
  onTicketLeft(ticket: Ticket): void {
    const { config, instant } = this.#context
    const runId = this.activeRunOf(ticket.id) ?? ''
    const context = this.#contextOf(runId)
    if (context === undefined || !endsWithTicket(context, config().tracker)) return
    const reason = ticketLeftReason(ticket)
    this.cancel(runId, { type: 'cancel requested', at: instant(), reason, kept: true })
  }

  /** Records the state of a run's pull request, whether the run is active or finished. */
  onPullState(runId: string, url: string, state: PullState): void {
    const { finishedRuns } = this.#records
    if (this.send(runId, { type: 'pull state reported', at: this.#context.instant(), url, state })) return
    const run = finishedRuns.latest(runId)
    const seen = run === undefined ? undefined : updatePullState(run, url, state)
    if (seen === undefined || seen === run) return
    finishedRuns.update(seen)
  }

  lastFinishedAt(ticket: Ticket): string | undefined {
    const { system, store } = this.#context
    const { runs } = store.database
    const { finishedRuns } = this.#records
    const listed = runs.list({ ticket: ticket.id })
    const readable = listed.map((run) =>
      system.isDamaged(RUN, run.id)
        ? this.#endOfDamaged(run.id)
        : (finishedRuns.latest(run.id) ?? run).finishedAt,
    )
    // After the list, which finds what is damaged.
    const damaged = runs.damagedOf(ticket.id).map((id) => this.#endOfDamaged(id))
    const ends = [...readable, ...damaged, finishedRuns.latestEndOf(ticket.id)]
    return ends.reduce(
      (last, end) => (last === undefined || (end !== undefined && end > last) ? end : last),
      undefined,
    )
  }

  /**
   * A damaged run counts as ended: the ticket must not run again until somebody has moved it. The wall clock may have been
   * set back since the run began.
   */
  #endOfDamaged(id: string): string {
    const createdAt = createdAtOf(id) ?? this.#startedAt
    return createdAt > this.#startedAt ? createdAt : this.#startedAt
  }

  #contextOf(runId: string): RunContext | undefined {
    return this.#context.system.peek(RUN, runId)?.context
  }

  // ---- state changes -----------------------------------------------------------------------------------------------

  onRunChanged({ key, before, after, over, restored }: StateChange<RunContext>): void {
    const { finishedRuns } = this.#records
    const { run, lease, woken, job } = after.context
    const was = before?.context
    if (!restored)
      this.#logStatus({ run, from: was?.run.status ?? woken ?? undefined, job }, was === undefined)
    if (was !== undefined) this.#records.report.onCosts(was.run, run)
    if (run.status === 'preparing' && was?.run.status === 'queued') this.#measureWait(run)
    if (over) {
      this.#onRunFinished(key, run)
      for (const name of publishedBundles(was?.publishing, run)) {
        const effect: RunEffect = { type: 'run.delete artifact', runId: key, name }
        this.#context.system.runAfterCommit(effect)
      }
      return
    }
    if (was === undefined) {
      this.#active.set(run.ticket.id, key)
      finishedRuns.release(key)
    }
    if (run.status === 'queued' && lease === null) this.#waiting.add(key)
    else this.#waiting.delete(key)
  }

  #logStatus({ run, from, job }: StatusChange, isNew: boolean): void {
    if (!isNew && from === run.status) return
    const { config, instant } = this.#context
    const { report, eventLog } = this.#records
    const workerName = this.#workers.registry.get(run.sandbox.workerId ?? '')?.name
    report.onTransition({ run, from, job, workerName })
    eventLog.append(run.id, createStatusEvent({ run, from, workerName, config: config(), at: instant() }))
  }

  #measureWait({ queuedAt }: Run): void {
    if (queuedAt === undefined) return
    const { clock, meters } = this.#context
    meters.observe('queue_wait_seconds', Math.max(0, clock.now() - Date.parse(queuedAt)) / 1000)
  }

  #onRunFinished(key: string, run: Run): void {
    this.#waiting.delete(key)
    this.#records.finishedRuns.recordEnd(run)
    if (isTerminal(run.status)) this.#removeActive(run)
    else {
      const effect: RunEffect = { type: 'run.mark failed', runId: key }
      this.#context.system.runAfterCommit(effect)
    }
  }

  #removeActive({ id, ticket }: Run): void {
    if (this.#active.get(ticket.id) === id) this.#active.delete(ticket.id)
  }

  runEffect(effect: RunEffect): void {
    const { store, log } = this.#context
    const { runId } = effect
    if (effect.type === 'run.mark failed') this.#markFailed(runId)
    else
      store.artifacts
        .remove(runId, effect.name)
        .catch((error: unknown) => log.warn({ err: error, ...effect }, 'an artifact could not be deleted'))
  }

  /** Ends a run whose actor was given up, so that people do not wait for it and no worker continues it. */
  #markFailed(runId: string): void {
    const { system, instant } = this.#context
    const run = this.#records.finishedRuns.latest(runId)
    const lease = this.#workers.registry.leaseOf(runId)
    if (lease !== undefined) system.send(LEASE, lease.id, { type: 'orphaned' })
    if (run === undefined || isTerminal(run.status) || system.peek(RUN, runId) !== undefined) return
    const why = 'internal error: the run could not be carried on; the log says why'
    if (run.result === undefined) this.#finishWithoutActor(run, failRun(run, why, instant()))
    else this.#restoreEarlierEnd(run, why)
  }

  /** Ends a follow-up without an actor. The end of the run before it is unknown, so now counts as its end. */
  #restoreEarlierEnd(run: Run, why: string): void {
    const now = this.#context.instant()
    const earlier = { result: run.result ?? null, startedAt: null, finishedAt: now }
    this.#finishWithoutActor(run, revertFollowUp(run, earlier, why, now))
  }

  #finishWithoutActor(before: Run, run: Run): void {
    this.#logStatus({ run, from: before.status, job: before.result ? 'follow-up' : 'run' }, false)
    this.#records.finishedRuns.update(run)
    this.#removeActive(run)
  }
}
