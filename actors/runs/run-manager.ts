/**
 * What follows from the lives of runs: which ticket has one that is not at rest, which wait for a worker, what happened
 * in each, what people see of it.
 *
 * It keeps the first of these itself, for as long as the process lives; all else is in the books beside it.
 */
import type { Clock, ControlDatabase, Meters } from '../../core/ports.ts'
import { no, type Result, yes } from '../../core/result.ts'
import { holderOf } from '../../core/run/follow-up.ts'
import { failed, isTerminal, newRun, notFollowedUp, pullSeen } from '../../core/run/run-transitions.ts'
import type { ServiceConfig } from '../../protocol/config.ts'
import { QUEUE_REASON_PUSHES_MAX, QUEUED_RUNS_MAX } from '../../protocol/limits.ts'
import type { PullState, Run, RunStatus, Ticket } from '../../protocol/run.ts'
import { printable } from '../../protocol/schema-errors.ts'
import type { LeaseEvent } from '../leases/lease.machine.ts'
import { LEASE } from '../leases/lease.names.ts'
import type { ActorSystem, StateChange } from '../runtime/actor-system.ts'
import type { PullLinks } from '../tracker/pull-request-links.ts'
import type { IntakeRoom } from '../tracker/ticket-intake.ts'
import type { LinkRoom } from '../tracker/tracker-connection.ts'
import type { Scheduler } from '../workers/scheduler.ts'
import type { Fleet } from '../workers/worker-registry.ts'
import type { ToldRemarks } from './answered-remarks.ts'
import type { Evidence } from './artifact-upload.ts'
import type { RestingRuns } from './finished-runs.ts'
import type { FollowUps } from './follow-up-reader.ts'
import type { RunContext, RunEvent, RunInput } from './run.machine.ts'
import { RUN } from './run.names.ts'
import type { Journal } from './run-event-log.ts'
import type { RunPushes } from './run-pushes.ts'

/** What is to be done once something is on disk, and belongs to no single lease or line. */
export type RunEffect =
  /** Somebody waits for everything up to here to be on disk. */
  | { readonly type: 'run.landed'; readonly handle: number }
  | { readonly type: 'run.bury'; readonly runId: string }
  | { readonly type: 'run.discard'; readonly workerId: string; readonly runId: string }

export interface RunRoomPorts {
  readonly clock: Clock
  /** The wall clock, as records write it down. */
  readonly instant: () => string
  readonly newId: () => string
  readonly meters: Meters
  readonly system: ActorSystem
  readonly config: () => ServiceConfig
  /** The records on disk. */
  readonly runs: ControlDatabase['runs']
  readonly journal: Journal
  readonly resting: RestingRuns
  readonly runPushes: RunPushes
  readonly scheduler: Scheduler
  readonly intake: IntakeRoom
  readonly fleet: Fleet
  readonly link: LinkRoom
  readonly pullLinks: PullLinks
  readonly evidence: Evidence
  readonly followUps: FollowUps
  readonly told: ToldRemarks
  /** Somebody has worked on this run's pull request. */
  readonly lookAtPull: (run: Run) => void
}

export class RunRoom {
  readonly #ports: RunRoomPorts
  /** Ticket → the run of it that is not at rest. */
  readonly #active = new Map<string, string>()
  #queueReason: string | undefined

  constructor(ports: RunRoomPorts) {
    this.#ports = ports
  }

  // ---- runs begin --------------------------------------------------------------------------------------------------

  /** Whether one more may wait. */
  hasRoom(): Result<void> {
    if (this.#ports.scheduler.queue.size < QUEUED_RUNS_MAX) return yes(undefined)
    return no('unavailable', `${QUEUED_RUNS_MAX} runs are waiting already; cancel some first`)
  }

  /** Refused for want of room, a ticket comes back with the next look at its tracker. */
  take(ticket: Ticket): Result<string> {
    const room = this.hasRoom()
    if (!room.ok) return room
    const id = this.#ports.newId()
    const input: RunInput = {
      run: newRun(id, ticket, this.#ports.instant()),
      job: 'run',
      woken: null,
      earlier: null,
      attempts: 0,
    }
    const born = this.#ports.system.spawn(RUN, id, input)
    return born.ok ? { ok: true, value: id } : born
  }

  /** A record that says it is not at rest, and that no life belongs to. */
  revive(run: Run): void {
    // Only a follow-up begins with a result; which one it was, its life knew.
    if (run.result !== undefined) {
      this.#restsAsBefore(run, 'its life was lost in a restart')
      return
    }
    const { startedAt: _, ...rest } = run
    const queued: Run = {
      ...rest,
      status: 'queued',
      queueReason: 'interrupted: its life was lost in a restart',
    }
    const input: RunInput = { run: queued, job: 'run', woken: run.status, earlier: null, attempts: 0 }
    this.#ports.system.spawn(RUN, run.id, input)
  }

  // ---- asking and telling ------------------------------------------------------------------------------------------

  /** How many tickets have a run that is not at rest. */
  get size(): number {
    return this.#active.size
  }

  /** Their tickets. */
  busy(): Iterable<string> {
    return this.#active.keys()
  }

  /** The newest word on it, be it on disk or not. */
  newest(runId: string): Run | undefined {
    return this.#contextOf(runId)?.run ?? this.#ports.resting.newest(runId)
  }

  activeOf(ticketId: string): string | undefined {
    return this.#active.get(ticketId)
  }

  tell(runId: string, event: RunEvent): boolean {
    return this.#ports.system.send(RUN, runId, event)
  }

  /** Somebody took its ticket out of the eligible ones. A follow-up leaves its ticket alone, and the ticket it. */
  ticketLeft({ id, identifier, state }: Ticket): void {
    const runId = this.#active.get(id)
    const context = runId === undefined ? undefined : this.#contextOf(runId)
    if (runId === undefined || context === undefined || context.job !== 'run') return
    if (context.run.status !== 'queued' && this.#ports.config().tracker.whenTicketLeaves === 'finish') return
    const reason = `${identifier} was taken out of the eligible tickets (it is in ${state})`
    this.tell(runId, { type: 'cancel requested', at: this.#ports.instant(), reason, kept: true })
  }

  /** The code host says how the pull request of a run is doing, be the run at rest or not. */
  pullSeen(runId: string, url: string, state: PullState): void {
    const { resting, runPushes } = this.#ports
    if (this.tell(runId, { type: 'pull seen', at: this.#ports.instant(), url, state })) return
    const run = resting.newest(runId)
    const seen = run === undefined ? undefined : pullSeen(run, url, state)
    if (seen === undefined || seen === run) return
    resting.change(seen)
    runPushes.changed(seen)
  }

  lastFinishedAt(ticket: Ticket): string | undefined {
    const { runs, resting } = this.#ports
    let last: string | undefined
    for (const run of runs.list({ ticket: ticket.id })) {
      const { finishedAt } = resting.newest(run.id) ?? run
      if (finishedAt !== undefined && (last === undefined || finishedAt > last)) last = finishedAt
    }
    const recent = resting.latestEndOf(ticket.id)
    return recent !== undefined && (last === undefined || recent > last) ? recent : last
  }

  #contextOf(runId: string): RunContext | undefined {
    return this.#ports.system.peek(RUN, runId)?.context as RunContext | undefined
  }

  // ---- what people see ---------------------------------------------------------------------------------------------

  /** As people should see it: with the reason for which it waits. */
  seen(run: Run): Run {
    if (run.status !== 'queued') return run
    const waits = this.#ports.scheduler.reasonFor(run)
    if (waits === undefined) return run
    // Why it is in the queue again, and why it still is.
    return { ...run, queueReason: run.queueReason === undefined ? waits : `${run.queueReason}; ${waits}` }
  }

  /** Those at the head of the queue say why they wait; the rest say it when they are asked. */
  tellReason(): void {
    const { runPushes, scheduler } = this.#ports
    const reason = scheduler.queue.size === 0 ? undefined : scheduler.commonReason()
    if (reason === this.#queueReason) return
    this.#queueReason = reason
    let told = 0
    for (const run of scheduler.queue.runs()) {
      if (told++ >= QUEUE_REASON_PUSHES_MAX) return
      runPushes.changed(run)
    }
  }

  // ---- following the lives -----------------------------------------------------------------------------------------

  runIs({ key, before, after, over, restored }: StateChange): void {
    const { resting, runPushes, scheduler } = this.#ports
    const { run, lease, woken, job } = after.context as RunContext
    const was = before?.context as RunContext | undefined
    if (!restored) this.#noteStatus(run, was?.run.status ?? woken ?? undefined, was === undefined)
    if (run !== was?.run) runPushes.changed(run)
    if (run.status === 'preparing' && was?.run.status === 'queued') this.#measureWait(run)
    if (!restored && run.status !== was?.run.status) this.#moveTicket(run, after.context as RunContext)
    if (!restored && run.prUrl !== was?.run.prUrl) this.#linkPull(run, after.context as RunContext)
    if (over) {
      this.#rests(key, run)
      if (job === 'follow-up') this.#followedUp(after.context as RunContext)
      else this.#ports.intake.ended(run)
      return
    }
    if (was === undefined) {
      this.#active.set(run.ticket.id, key)
      resting.woken(key)
    }
    const waits = run.status === 'queued' && lease === null
    if (job === 'follow-up') this.#followsUp(run, waits)
    const waited = was !== undefined && was.lease === null && was.run.status === 'queued'
    if (job === 'follow-up' && waits && !waited && !restored) this.#tellAbsence(run)
    if (!waits) scheduler.left(key)
    else if (!waited) scheduler.queued(run)
  }

  /** What was read for it is kept until a worker has it: one that is granted it may still refuse. */
  #followsUp(run: Run, waits: boolean): void {
    const { followUps } = this.#ports
    if (waits) followUps.waits(run)
    else if (run.status === 'queued') followUps.left(run.id)
    else followUps.forget(run.id)
  }

  /** That may take as long as the sandbox is kept, and there is a way out of it. */
  #tellAbsence(run: Run): void {
    const { clock, fleet, instant, journal } = this.#ports
    const holder = holderOf(run, clock.now())
    const member = holder === undefined ? undefined : fleet.member(holder)
    if (member === undefined || member.online) return
    const waits = `worker ${printable(member.name)} holds the sandbox and is not connected: it is waited for until ${run.sandbox.retainedUntil}`
    const cure = 'to have this done elsewhere sooner, cancel it, discard the sandbox, and follow up again'
    journal.say(run.id, instant(), `${waits}; ${cure}`)
  }

  #followedUp({ run, followUp }: RunContext): void {
    const isDone = run.status === 'completed' && run.error === undefined
    this.#ports.told.ended(run.id, followUp?.id ?? run.id, isDone)
    this.#ports.lookAtPull(run)
  }

  #noteStatus(run: Run, from: RunStatus | undefined, born: boolean): void {
    if (!born && from === run.status) return
    const reason = run.error ?? run.queueReason
    this.#ports.journal.note(run.id, {
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

  /** A follow-up leaves its ticket alone. */
  #moveTicket({ status, ticket }: Run, { job }: RunContext): void {
    const { startedState, reviewState } = this.#ports.config().tracker
    const state = status === 'preparing' ? startedState : status === 'completed' ? reviewState : undefined
    if (job === 'run' && state !== undefined) this.#ports.intake.move(ticket.id, state)
  }

  #linkPull({ prUrl, ticket }: Run, { job, woken }: RunContext): void {
    // A run that is woken has had its pull request before.
    if (job === 'run' && prUrl !== undefined && woken === null && this.#ports.link.linksPulls)
      this.#ports.pullLinks.opened(ticket, prUrl)
  }

  #rests(key: string, run: Run): void {
    const { evidence, followUps, system, resting, scheduler } = this.#ports
    evidence.ended(run)
    followUps.forget(key)
    scheduler.left(key)
    resting.ended(run)
    if (isTerminal(run.status)) this.#noLongerActive(run)
    else {
      const bury: RunEffect = { type: 'run.bury', runId: key }
      system.runAfterCommit(bury)
    }
  }

  #noLongerActive({ id, ticket }: Run): void {
    if (this.#active.get(ticket.id) === id) this.#active.delete(ticket.id)
  }

  /** Its life was given up. People must not wait for it, and no worker may go on with it. */
  bury(runId: string): void {
    const { fleet, system, instant, resting } = this.#ports
    const run = resting.newest(runId)
    const lease = fleet.leaseOf(runId)
    const orphaned: LeaseEvent = { type: 'orphaned' }
    if (lease !== undefined) system.send(LEASE, lease.id, orphaned)
    if (run === undefined || isTerminal(run.status) || system.peek(RUN, runId) !== undefined) return
    const why = 'internal error: the run could not be carried on; the log says why'
    if (run.result === undefined) this.#laidToRest(run, failed(run, why, instant()))
    else this.#restsAsBefore(run, why)
  }

  /** When the first of its ends was, nobody knows any more. */
  #restsAsBefore(run: Run, why: string): void {
    const now = this.#ports.instant()
    const earlier = { result: run.result ?? null, startedAt: null, finishedAt: now }
    this.#laidToRest(run, notFollowedUp(run, earlier, why, now))
  }

  #laidToRest(before: Run, run: Run): void {
    const { resting, runPushes } = this.#ports
    this.#noteStatus(run, before.status, false)
    resting.change(run)
    this.#noLongerActive(run)
    runPushes.changed(run)
  }
}
