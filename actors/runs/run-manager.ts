/**
 * RunManager creates runs and reacts to every change of their state: it queues them, logs their status, moves tickets,
 * publishes updates, and passes ended runs on.
 *
 * RunManager itself only knows which ticket has an active run (queued or with a worker). The modules that it calls keep
 * everything else.
 */
import type { Clock, ControlDatabase, Meters } from '../../core/ports.ts'
import { no, type Result, yes } from '../../core/result.ts'
import { sandboxHolder } from '../../core/run/follow-up.ts'
import {
  failRun,
  isTerminal,
  newRun,
  revertFollowUp,
  updatePullState,
} from '../../core/run/run-transitions.ts'
import type { ServiceConfig } from '../../protocol/config.ts'
import { QUEUE_REASON_PUSHES_MAX, QUEUED_RUNS_MAX } from '../../protocol/limits.ts'
import type { PullState, Run, RunStatus, Ticket } from '../../protocol/run.ts'
import { printable } from '../../protocol/schema-errors.ts'
import type { RunBroadcast } from '../dashboard/run-broadcast.ts'
import type { LeaseEvent } from '../leases/lease.machine.ts'
import { LEASE } from '../leases/lease.names.ts'
import type { ActorSystem, StateChange } from '../runtime/actor-system.ts'
import type { PullRequestLinks } from '../tracker/pull-request-links.ts'
import type { TicketIntake } from '../tracker/ticket-intake.ts'
import type { TrackerConnection } from '../tracker/tracker-connection.ts'
import type { Scheduler } from '../workers/scheduler.ts'
import type { WorkerRegistry } from '../workers/worker-registry.ts'
import type { AnsweredRemarks } from './answered-remarks.ts'
import type { ArtifactUpload } from './artifact-upload.ts'
import type { FinishedRuns } from './finished-runs.ts'
import type { FollowUpReader } from './follow-up-reader.ts'
import type { RunContext, RunInput, RunMachineEvent } from './run.machine.ts'
import { RUN } from './run.names.ts'
import type { RunEventLog } from './run-event-log.ts'

/** Effects that belong to no single lease or connection. */
export type RunEffect =
  /** Notifies a caller that everything up to here is on disk. */
  | { readonly type: 'run.notify committed'; readonly handle: number }
  | { readonly type: 'run.mark failed'; readonly runId: string }
  | { readonly type: 'run.send discard'; readonly workerId: string; readonly runId: string }

export interface RunManagerPorts {
  readonly clock: Clock
  /** The current wall time as an ISO 8601 timestamp. */
  readonly instant: () => string
  readonly newId: () => string
  readonly meters: Meters
  readonly system: ActorSystem
  readonly config: () => ServiceConfig
  /** The run records on disk. */
  readonly runs: ControlDatabase['runs']
  readonly runEventLog: RunEventLog
  readonly finishedRuns: FinishedRuns
  readonly runPushes: RunBroadcast
  readonly scheduler: Scheduler
  readonly intake: TicketIntake
  readonly workers: WorkerRegistry
  readonly trackerConnection: TrackerConnection
  readonly pullRequestLinks: PullRequestLinks
  readonly artifactUpload: ArtifactUpload
  readonly followUpReader: FollowUpReader
  readonly answeredRemarks: AnsweredRemarks
  /** Polls the pull request of a run after its follow-up has ended. */
  readonly pollPull: (run: Run) => void
}

export class RunManager {
  readonly #ports: RunManagerPorts
  /** Ids of active runs, by ticket id. */
  readonly #active = new Map<string, string>()
  #queueReason: string | undefined

  constructor(ports: RunManagerPorts) {
    this.#ports = ports
  }

  // ---- runs begin --------------------------------------------------------------------------------------------------

  /** Refused when the queue is full. */
  checkQueueLimit(): Result<void> {
    if (this.#ports.scheduler.queue.size < QUEUED_RUNS_MAX) return yes(undefined)
    return no('unavailable', `${QUEUED_RUNS_MAX} runs are waiting already; cancel some first`)
  }

  /** Creates a run of a ticket. Refused when the queue is full; the next poll of the tracker then tries again. */
  createRun(ticket: Ticket): Result<string> {
    const space = this.checkQueueLimit()
    if (!space.ok) return space
    const id = this.#ports.newId()
    const input: RunInput = {
      run: newRun(id, ticket, this.#ports.instant()),
      job: 'run',
      woken: null,
      earlier: null,
      attempts: 0,
    }
    const spawned = this.#ports.system.spawn(RUN, id, input)
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
    this.#ports.system.spawn(RUN, run.id, input)
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
    return this.#contextOf(runId)?.run ?? this.#ports.finishedRuns.latest(runId)
  }

  activeRunOf(ticketId: string): string | undefined {
    return this.#active.get(ticketId)
  }

  send(runId: string, event: RunMachineEvent): boolean {
    return this.#ports.system.send(RUN, runId, event)
  }

  /** Cancels the run of a ticket that is no longer eligible, as `whenTicketLeaves` says. Follow-ups continue. */
  onTicketLeft({ id, identifier, state }: Ticket): void {
    const runId = this.#active.get(id)
    const context = runId === undefined ? undefined : this.#contextOf(runId)
    if (runId === undefined || context === undefined || context.job !== 'run') return
    if (context.run.status !== 'queued' && this.#ports.config().tracker.whenTicketLeaves === 'finish') return
    const reason = `${identifier} was taken out of the eligible tickets (it is in ${state})`
    this.send(runId, { type: 'cancel requested', at: this.#ports.instant(), reason, kept: true })
  }

  /** Records the state of a run's pull request, whether the run is active or finished. */
  onPullState(runId: string, url: string, state: PullState): void {
    const { finishedRuns, runPushes } = this.#ports
    if (this.send(runId, { type: 'pull state reported', at: this.#ports.instant(), url, state })) return
    const run = finishedRuns.latest(runId)
    const seen = run === undefined ? undefined : updatePullState(run, url, state)
    if (seen === undefined || seen === run) return
    finishedRuns.update(seen)
    runPushes.addChanged(seen)
  }

  lastFinishedAt(ticket: Ticket): string | undefined {
    const { runs, finishedRuns } = this.#ports
    let last: string | undefined
    for (const run of runs.list({ ticket: ticket.id })) {
      const { finishedAt } = finishedRuns.latest(run.id) ?? run
      if (finishedAt !== undefined && (last === undefined || finishedAt > last)) last = finishedAt
    }
    const recent = finishedRuns.latestEndOf(ticket.id)
    return recent !== undefined && (last === undefined || recent > last) ? recent : last
  }

  #contextOf(runId: string): RunContext | undefined {
    return this.#ports.system.peek(RUN, runId)?.context as RunContext | undefined
  }

  // ---- what people see ---------------------------------------------------------------------------------------------

  /** Adds the current wait reason to a queued run, as people see it. */
  withWaitReason(run: Run): Run {
    if (run.status !== 'queued') return run
    const waits = this.#ports.scheduler.reasonFor(run)
    if (waits === undefined) return run
    // The stored reason says why the run was queued again, the other why it still waits.
    return { ...run, queueReason: run.queueReason === undefined ? waits : `${run.queueReason}; ${waits}` }
  }

  /** Publishes a new common wait reason for the runs at the head of the queue; the rest show it when they are read. */
  publishQueueReason(): void {
    const { runPushes, scheduler } = this.#ports
    const reason = scheduler.queue.size === 0 ? undefined : scheduler.sharedReason()
    if (reason === this.#queueReason) return
    this.#queueReason = reason
    let pushed = 0
    for (const run of scheduler.queue.runs()) {
      if (pushed++ >= QUEUE_REASON_PUSHES_MAX) return
      runPushes.addChanged(run)
    }
  }

  // ---- state changes -----------------------------------------------------------------------------------------------

  onRunChanged({ key, before, after, over, restored }: StateChange): void {
    const { finishedRuns, runPushes, scheduler } = this.#ports
    const { run, lease, woken, job } = after.context as RunContext
    const was = before?.context as RunContext | undefined
    if (!restored) this.#logStatus(run, was?.run.status ?? woken ?? undefined, was === undefined)
    if (run !== was?.run) runPushes.addChanged(run)
    if (run.status === 'preparing' && was?.run.status === 'queued') this.#measureWait(run)
    if (!restored && run.status !== was?.run.status) this.#moveTicket(run, after.context as RunContext)
    if (!restored && run.prUrl !== was?.run.prUrl) this.#linkPull(run, after.context as RunContext)
    if (over) {
      this.#onRunFinished(key, run)
      if (job === 'follow-up') this.#onFollowUpEnded(after.context as RunContext)
      else this.#ports.intake.onRunEnded(run)
      return
    }
    if (was === undefined) {
      this.#active.set(run.ticket.id, key)
      finishedRuns.release(key)
    }
    const waits = run.status === 'queued' && lease === null
    if (job === 'follow-up') this.#updateFollowUpReader(run, waits)
    const waited = was !== undefined && was.lease === null && was.run.status === 'queued'
    if (job === 'follow-up' && waits && !waited && !restored) this.#logAbsentHolder(run)
    if (!waits) scheduler.remove(key)
    else if (!waited) scheduler.add(run)
  }

  /** Keeps the conversation until a worker has accepted the follow-up, because a worker may reject the dispatch. */
  #updateFollowUpReader(run: Run, waits: boolean): void {
    const { followUpReader } = this.#ports
    if (waits) followUpReader.startWaiting(run)
    else if (run.status === 'queued') followUpReader.stopWaiting(run.id)
    else followUpReader.forget(run.id)
  }

  /** Logs that the worker with the sandbox is not connected, and what to do: the wait may last the whole retention. */
  #logAbsentHolder(run: Run): void {
    const { clock, workers, instant, runEventLog } = this.#ports
    const holder = sandboxHolder(run, clock.now())
    const member = holder === undefined ? undefined : workers.get(holder)
    if (member === undefined || member.online) return
    const waits = `worker ${printable(member.name)} holds the sandbox and is not connected: it is waited for until ${run.sandbox.retainedUntil}`
    const cure = 'to have this done elsewhere sooner, cancel it, discard the sandbox, and follow up again'
    runEventLog.appendText(run.id, instant(), `${waits}; ${cure}`)
  }

  #onFollowUpEnded({ run, followUp }: RunContext): void {
    const isDone = run.status === 'completed' && run.error === undefined
    this.#ports.answeredRemarks.recordEnd(run.id, followUp?.id ?? run.id, isDone)
    this.#ports.pollPull(run)
  }

  #logStatus(run: Run, from: RunStatus | undefined, isNew: boolean): void {
    if (!isNew && from === run.status) return
    const reason = run.error ?? run.queueReason
    this.#ports.runEventLog.append(run.id, {
      at: this.#ports.instant(),
      type: 'status',
      ...(from === undefined ? {} : { from }),
      to: run.status,
      ...(reason === undefined ? {} : { reason }),
    })
  }

  #measureWait({ queuedAt }: Run): void {
    if (queuedAt === undefined) return
    const { clock, meters } = this.#ports
    meters.observe('queue_wait_seconds', Math.max(0, clock.now() - Date.parse(queuedAt)) / 1000)
  }

  /** Moves the ticket of a run. Follow-ups do not move their ticket. */
  #moveTicket({ status, ticket }: Run, { job }: RunContext): void {
    const { startedState, reviewState } = this.#ports.config().tracker
    const state = status === 'preparing' ? startedState : status === 'completed' ? reviewState : undefined
    if (job === 'run' && state !== undefined) this.#ports.intake.moveTicket(ticket.id, state)
  }

  #linkPull({ prUrl, ticket }: Run, { job, woken }: RunContext): void {
    // A retried run had its pull request linked before.
    if (job === 'run' && prUrl !== undefined && woken === null && this.#ports.trackerConnection.linksPulls)
      this.#ports.pullRequestLinks.addLink(ticket, prUrl)
  }

  #onRunFinished(key: string, run: Run): void {
    const { artifactUpload, followUpReader, system, finishedRuns, scheduler } = this.#ports
    artifactUpload.onRunEnded(run)
    followUpReader.forget(key)
    scheduler.remove(key)
    finishedRuns.recordEnd(run)
    if (isTerminal(run.status)) this.#removeActive(run)
    else {
      const effect: RunEffect = { type: 'run.mark failed', runId: key }
      system.runAfterCommit(effect)
    }
  }

  #removeActive({ id, ticket }: Run): void {
    if (this.#active.get(ticket.id) === id) this.#active.delete(ticket.id)
  }

  /** Ends a run whose actor was given up, so that people do not wait for it and no worker continues it. */
  markFailed(runId: string): void {
    const { workers, system, instant, finishedRuns } = this.#ports
    const run = finishedRuns.latest(runId)
    const lease = workers.leaseOf(runId)
    const orphaned: LeaseEvent = { type: 'orphaned' }
    if (lease !== undefined) system.send(LEASE, lease.id, orphaned)
    if (run === undefined || isTerminal(run.status) || system.peek(RUN, runId) !== undefined) return
    const why = 'internal error: the run could not be carried on; the log says why'
    if (run.result === undefined) this.#finishWithoutActor(run, failRun(run, why, instant()))
    else this.#restoreEarlierEnd(run, why)
  }

  /** Ends a follow-up without an actor. The end of the run before it is unknown, so now counts as its end. */
  #restoreEarlierEnd(run: Run, why: string): void {
    const now = this.#ports.instant()
    const earlier = { result: run.result ?? null, startedAt: null, finishedAt: now }
    this.#finishWithoutActor(run, revertFollowUp(run, earlier, why, now))
  }

  #finishWithoutActor(before: Run, run: Run): void {
    const { finishedRuns, runPushes } = this.#ports
    this.#logStatus(run, before.status, false)
    finishedRuns.update(run)
    this.#removeActive(run)
    runPushes.addChanged(run)
  }
}
