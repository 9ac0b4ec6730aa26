/**
 * The yard: where the lives of runs, leases, workers and lines meet, and everything that follows from their states.
 *
 * One place hears of every good state (`watch`) and keeps the books that others read: who holds what, what waits, what
 * happened in a run, what the dashboards are told. Nothing in here is durable by itself; all of it follows from lives
 * and facts, so a restart finds it again.
 */

import { ids } from '../../core/ids.ts'
import { instants } from '../../core/instant.ts'
import { type Patience, termMs, timeoutMs } from '../../core/lease/deadline.ts'
import type { Cancel, Chance, Clock, Log, Meters, Store, Tracker } from '../../core/ports.ts'
import { type Answer, no } from '../../core/refusal.ts'
import { failed, isTerminal, newRun } from '../../core/run/change.ts'
import { jobFor } from '../../core/run/job.ts'
import { repoOf } from '../../core/tickets/repo.ts'
import type { ServiceConfig } from '../../protocol/config.ts'
import type { Job } from '../../protocol/frames.ts'
import { ENROLLMENT_PROOF_MS, QUEUE_REASON_PUSHES_MAX, WORKERS_PUSH_MS } from '../../protocol/limits.ts'
import type { Run, RunStatus, Ticket } from '../../protocol/run.ts'
import { Alarms } from '../fleet/alarms.ts'
import { Channel, type ChannelEffect } from '../fleet/channel.ts'
import type { ConnectionContext } from '../fleet/connection.machine.ts'
import { Enrollment } from '../fleet/enrollment.ts'
import { CONNECTION, WORKER } from '../fleet/fleet.names.ts'
import { Fleet, type Member } from '../fleet/fleet.ts'
import { Scheduler } from '../fleet/scheduler.ts'
import type { WorkerContext, WorkerEvent } from '../fleet/worker.machine.ts'
import { INTAKE, type IntakeContext, type IntakeEffect, type IntakeEvent } from '../intake/intake.machine.ts'
import { IntakeRoom } from '../intake/intake.room.ts'
import type { CutGuest } from '../kit/commit.ts'
import type { ActorHost, Change } from '../kit/host.ts'
import { Book } from '../lease/book.ts'
import { EndedLeases } from '../lease/ended.ts'
import { LeaseRoom } from '../lease/lease.effects.ts'
import type { LeaseContext, LeaseEffect, LeaseEvent } from '../lease/lease.machine.ts'
import { LEASE } from '../lease/lease.names.ts'
import { Errands } from '../run/errands.ts'
import { Journal } from '../run/journal.ts'
import { Memories } from '../run/memories.ts'
import { RestingRuns } from '../run/resting.ts'
import type { RunContext, RunEvent, RunInput } from '../run/run.machine.ts'
import { RUN } from '../run/run.names.ts'
import { RunPushes } from '../run/run-pushes.ts'
import type { Pushes } from './pushes.ts'
import type { RunEffect } from './run.effects.ts'

export type YardEffect = ChannelEffect | LeaseEffect | IntakeEffect | RunEffect

export interface YardParts {
  readonly clock: Clock
  readonly chance: Chance
  readonly log: Log
  readonly meters: Meters
  readonly store: Store
  readonly config: () => ServiceConfig
  readonly pushes: Pushes
  readonly trackerFor: (config: ServiceConfig) => Tracker | undefined
  readonly version: string
  /** New leases may be granted. */
  readonly serving: () => boolean
  /** Lines may come in: also in the moment in which the doors are being opened. */
  readonly open: () => boolean
}

/** The laws that are cheap enough to be watched while working; each break is a bug, counted and logged. */
type WatchedLaw = 'one live lease a run' | 'durable before dispatch' | 'acknowledged never falls'

const sameStatus = (a: IntakeContext['status'], b: IntakeContext['status']): boolean =>
  a.state === b.state && a.error === b.error

const UNFINISHED: readonly RunStatus[] = ['queued', 'preparing', 'running', 'finalizing']
const PRUNE_MS = 6 * 3_600_000

export class Yard {
  readonly fleet = new Fleet()
  readonly ids
  /** The wall clock, as records write it down. */
  readonly now: () => string
  readonly journal: Journal
  readonly resting: RestingRuns
  readonly memories: Memories
  readonly errands: Errands
  readonly scheduler: Scheduler
  readonly channel: Channel
  readonly enrollment: Enrollment
  readonly intake: IntakeRoom
  readonly leases: LeaseRoom
  readonly book: Book
  readonly alarms: Alarms
  readonly runPushes: RunPushes
  readonly #ended: EndedLeases
  readonly #parts: YardParts
  readonly #host: ActorHost
  /** Ticket → the run of it that is not at rest. */
  readonly #activeRuns = new Map<string, string>()
  #workersPush: Cancel | undefined
  #queueReason: string | undefined
  #prune: Cancel = () => {}

  constructor(parts: YardParts, host: ActorHost) {
    const { clock, chance, log, meters, store } = parts
    const { facts, runs } = store.ledger
    const stir = () => host.stir()
    this.#parts = parts
    this.#host = host
    this.ids = ids(clock, chance)
    this.now = instants(clock)
    const instant = this.now
    this.alarms = new Alarms(
      clock,
      () => timeoutMs(this.#patience()),
      (key, name) => this.#rang(key, name),
    )
    this.enrollment = new Enrollment(clock, chance)
    this.journal = new Journal({
      events: store.events,
      stir,
      tell: (event, json) => {
        if (parts.pushes.anybody)
          parts.pushes.send({ type: 'run-event', event }, `{"type":"run-event","event":${json}}`)
      },
    })
    this.resting = new RestingRuns(runs, stir)
    this.memories = new Memories({ facts, newId: () => this.ids.memory(), stir })
    this.errands = new Errands(facts, stir)
    this.#ended = new EndedLeases(facts, stir)
    this.runPushes = new RunPushes({
      clock,
      anybody: () => parts.pushes.anybody,
      push: (run) => parts.pushes.send({ type: 'run-updated', run: this.seen(run) }),
    })
    this.scheduler = new Scheduler({
      fleet: this.fleet,
      now: () => this.alarms.now(),
      wall: () => clock.now(),
      mayGrant: () => parts.serving() && store.ledger.state().is === 'ready',
      waitingFor: (run) => this.#waitingFor(run),
      ticketOf: (run) => this.intake.current(run.ticket),
      grant: (run, worker) => this.#grant(run, worker),
      stir,
    })
    this.book = new Book({
      clock,
      instant,
      log,
      meters,
      facts,
      artifacts: store.artifacts,
      usage: store.usage,
      journal: this.journal,
      tellLease: (leaseId, event) => void host.tell(LEASE, leaseId, event),
      takesReports: (runId) => host.isWell(RUN, runId),
      patchRun: (runId, workerId, patch) => {
        const type =
          patch.status === 'running' || patch.status === 'finalizing'
            ? (`patched to ${patch.status}` as const)
            : 'patched'
        this.tellRun(runId, { type, workerId, patch })
      },
      remember: (runId, repo, learnt) => this.#remember(runId, repo, learnt),
      retentionHours: () => parts.config().sandbox.retentionHours,
      ackDue: (workerId, leaseId) => this.channel.acknowledgeProgress(workerId, leaseId),
      stir,
      violated: () => this.#violated('acknowledged never falls'),
    })
    this.channel = new Channel({
      clock,
      instant,
      chance,
      log,
      meters,
      host,
      fleet: this.fleet,
      book: this.book,
      ended: this.#ended,
      alarms: this.alarms,
      enrollment: this.enrollment,
      usage: store.usage,
      patience: () => this.#patience(),
      version: parts.version,
      look: () => this.scheduler.look(),
      changed: () => this.#workersChanged(),
      returned: (workerId) => this.#runErrands(workerId),
      open: parts.open,
    })
    this.leases = new LeaseRoom({
      clock,
      instant,
      log,
      meters,
      host,
      fleet: this.fleet,
      channel: this.channel,
      alarms: this.alarms,
      patience: () => this.#patience(),
      job: (lease) => this.#job(lease),
      violated: () => this.#violated('durable before dispatch'),
    })
    this.intake = new IntakeRoom({
      clock,
      chance,
      log,
      facts,
      trackerFor: parts.trackerFor,
      config: parts.config,
      tell: (event: IntakeEvent) => void host.tell(INTAKE, INTAKE, event),
      activeRun: (ticketId) => this.#activeRuns.get(ticketId),
      lastFinishedAt: (ticket) => this.#lastFinishedAt(ticket),
      take: (ticket) => void this.queueTicket(ticket),
      changed: (eligible) => {
        if (eligible) parts.pushes.send({ type: 'tickets', tickets: [...this.intake.eligible()] })
        this.scheduler.reconsider()
      },
      stir,
    })
  }

  get guests(): readonly CutGuest[] {
    // Events before what follows from them: who hears of a run's end has heard of everything before it.
    return [
      this.journal,
      this.resting,
      this.memories,
      this.errands,
      this.#ended,
      this.book,
      this.intake,
      this.intake.moves,
      this.runPushes,
    ]
  }

  // ---- beginning and end -------------------------------------------------------------------------------------------

  /** Lives are back. What they say of each other is brought together, before any door is open. */
  restored(): void {
    for (const lease of [...this.fleet.leases()]) {
      const run = this.#host.peek(RUN, lease.runId)?.context as RunContext | undefined
      if (run === undefined || (run.lease !== null && run.lease !== lease.id))
        this.#tellLease(lease.id, { type: 'orphaned' })
      // The lease outranks what the run's record says.
      else if (run.lease === null) this.tellRun(lease.runId, { type: 'granted', leaseId: lease.id })
    }
    const at = this.now()
    for (const id of [...this.#host.keys(RUN)]) {
      const lease = (this.#host.peek(RUN, id)?.context as RunContext | undefined)?.lease ?? null
      if (lease !== null && this.fleet.lease(lease) === undefined)
        this.tellRun(id, {
          type: 'lease lost',
          leaseId: lease,
          at,
          reason: 'the lease was gone after a restart',
        })
    }
    // A record that no life belongs to: its own was damaged, or from a time before.
    for (const run of this.#parts.store.ledger.runs.list({ status: UNFINISHED }))
      if (this.#host.peek(RUN, run.id) === undefined && !this.#host.isDamaged(RUN, run.id)) this.#revive(run)
  }

  start(): void {
    this.alarms.start()
    this.#pruneNow()
    this.intake.configure()
    this.intake.moves.start()
    this.scheduler.look()
  }

  stop(): void {
    this.alarms.stop()
    this.intake.stop()
    this.runPushes.stop()
    this.#workersPush?.()
    this.#prune()
  }

  configured(): void {
    this.intake.configure()
    this.channel.configured()
    this.scheduler.reconsider()
  }

  #revive(run: Run): void {
    const { startedAt: _, ...rest } = run
    const queued: Run = {
      ...rest,
      status: 'queued',
      queueReason: 'interrupted: its life was lost in a restart',
    }
    const input: RunInput = { run: queued, job: 'run', woken: run.status, earlier: null, attempts: 0 }
    this.#host.bear(RUN, run.id, input)
  }

  #pruneNow(): void {
    this.#ended.prune(this.#parts.clock.now())
    this.#prune = this.#parts.clock.after(PRUNE_MS, () => this.#pruneNow())
  }

  // ---- before each cut ---------------------------------------------------------------------------------------------

  beforeCut(): void {
    this.scheduler.decide()
    this.#tellReason()
  }

  /** Those at the head of the queue say why they wait; the rest say it when they are asked. */
  #tellReason(): void {
    const { pushes } = this.#parts
    if (!pushes.anybody) return
    const reason = this.scheduler.queue.size === 0 ? undefined : this.scheduler.commonReason()
    if (reason === this.#queueReason) return
    this.#queueReason = reason
    let told = 0
    for (const run of this.scheduler.queue.runs()) {
      if (told++ >= QUEUE_REASON_PUSHES_MAX) return
      this.runPushes.changed(run)
    }
  }

  // ---- runs --------------------------------------------------------------------------------------------------------

  queueTicket(ticket: Ticket): Answer<string> {
    const id = this.ids.run()
    const input: RunInput = {
      run: newRun(id, ticket, this.now()),
      job: 'run',
      woken: null,
      earlier: null,
      attempts: 0,
    }
    const born = this.#host.bear(RUN, id, input)
    return born.ok ? { ok: true, value: id } : born
  }

  activeRun(ticketId: string): string | undefined {
    return this.#activeRuns.get(ticketId)
  }

  tellRun(runId: string, event: RunEvent): boolean {
    return this.#host.tell(RUN, runId, event)
  }

  /** As people should see it: with the reason for which it waits. */
  seen(run: Run): Run {
    if (run.status !== 'queued') return run
    const waits = this.scheduler.reasonFor(run)
    if (waits === undefined) return run
    // Why it is in the queue again, and why it still is.
    return { ...run, queueReason: run.queueReason === undefined ? waits : `${run.queueReason}; ${waits}` }
  }

  #lastFinishedAt(ticket: Ticket): string | undefined {
    let last: string | undefined
    for (const run of this.#parts.store.ledger.runs.list({ ticket: ticket.id })) {
      const { finishedAt } = this.resting.newest(run.id) ?? run
      if (finishedAt !== undefined && (last === undefined || finishedAt > last)) last = finishedAt
    }
    const recent = this.resting.latestEndOf(ticket.id)
    return recent !== undefined && (last === undefined || recent > last) ? recent : last
  }

  #waitingFor(run: Run): string | undefined {
    const blocked = this.intake.waitingFor(run.ticket)
    if (blocked !== undefined) return blocked
    const repo = repoOf(run.ticket, this.#parts.config().repos)
    return repo.ok ? undefined : repo.refusal.message
  }

  #remember(runId: string, repo: string, learnt: readonly string[]): void {
    const run = this.#host.peek(RUN, runId)?.context as RunContext | undefined
    if (run === undefined) return
    const own = repoOf(run.run.ticket, this.#parts.config().repos)
    if (!own.ok || own.value.mapping.remote !== repo) {
      this.journal.say(
        runId,
        this.now(),
        `memories for ${repo} were not kept: the run is about another repository`,
      )
      return
    }
    this.memories.record(repo, learnt, { ident: run.run.ticket.identifier, now: this.now() })
  }

  #job({ runId }: LeaseContext): Answer<Job> {
    const config = this.#parts.config()
    const run = (this.#host.peek(RUN, runId)?.context as RunContext | undefined)?.run
    if (run === undefined) return no('unknown', 'the run is no more')
    const repo = repoOf(run.ticket, config.repos)
    if (!repo.ok) return repo
    const memories = this.memories.of(repo.value.mapping.remote)
    return { ok: true, value: jobFor({ kind: 'run', run, config, repo: repo.value, memories }) }
  }

  #grant(run: Run, worker: Member): void {
    // One that recovers from a crash has not heard of its lease yet.
    if (this.fleet.leaseOf(run.id) !== undefined) return
    const id = this.ids.lease()
    const born = this.#host.bear(LEASE, id, {
      id,
      runId: run.id,
      workerId: worker.id,
      termMs: termMs(this.#patience()),
      grantedAt: this.now(),
    })
    if (born.ok) this.tellRun(run.id, { type: 'granted', leaseId: id })
  }

  #runErrands(workerId: string): void {
    for (const errand of this.errands.of(workerId)) this.runErrand(errand.workerId, errand.runId)
  }

  /** Answers nothing: what could not be told is told when the worker is back. */
  runErrand(workerId: string, runId: string): void {
    if (this.channel.sendTo(workerId, { type: 'discard', runId })) this.errands.done({ workerId, runId })
  }

  // ---- following the lives -----------------------------------------------------------------------------------------

  watch(change: Change): void {
    if (change.kind === RUN) this.#runIs(change)
    else if (change.kind === LEASE) this.#leaseIs(change)
    else if (change.kind === WORKER) this.#workerIs(change)
    else if (change.kind === CONNECTION) this.#connectionIs(change)
    else if (change.kind === INTAKE) this.#intakeIs(change)
  }

  #runIs({ key, before, after, over, restored }: Change): void {
    const { run, lease, woken } = after.context as RunContext
    const was = before?.context as RunContext | undefined
    if (!restored) this.#noteStatus(run, was?.run.status ?? woken ?? undefined, was === undefined)
    if (run !== was?.run) this.runPushes.changed(run)
    if (run.status === 'preparing' && was?.run.status === 'queued' && run.queuedAt !== undefined)
      this.#parts.meters.observe(
        'queue_wait_seconds',
        Math.max(0, this.#parts.clock.now() - Date.parse(run.queuedAt)) / 1000,
      )
    if (!restored && run.status !== was?.run.status) this.#moveTicket(run, after.context as RunContext)
    if (over) {
      this.#runRests(key, run)
      return
    }
    if (was === undefined) {
      this.#activeRuns.set(run.ticket.id, key)
      this.resting.woken(key)
    }
    const waits = run.status === 'queued' && lease === null
    if (!waits) this.scheduler.left(key)
    else if (was === undefined || was.lease !== null || was.run.status !== 'queued')
      this.scheduler.queued(run)
  }

  /** A follow-up leaves its ticket alone. */
  #moveTicket({ status, ticket }: Run, { job }: RunContext): void {
    const { startedState, reviewState } = this.#parts.config().tracker
    const state = status === 'preparing' ? startedState : status === 'completed' ? reviewState : undefined
    if (job === 'run' && state !== undefined) this.intake.move(ticket.id, state)
  }

  #noteStatus(run: Run, from: RunStatus | undefined, born: boolean): void {
    if (!born && from === run.status) return
    const reason = run.error ?? run.queueReason
    this.journal.note(run.id, {
      at: this.now(),
      type: 'status',
      ...(from === undefined ? {} : { from }),
      to: run.status,
      ...(reason === undefined ? {} : { reason }),
    })
  }

  #runRests(key: string, run: Run): void {
    this.scheduler.left(key)
    this.resting.ended(run)
    if (isTerminal(run.status)) this.#noLongerActive(run)
    else this.#host.afterwards({ type: 'run.bury', runId: key } as RunEffect)
  }

  #noLongerActive({ id, ticket }: Run): void {
    if (this.#activeRuns.get(ticket.id) === id) this.#activeRuns.delete(ticket.id)
  }

  /** Its life was given up. People must not wait for it, and no worker may go on with it. */
  bury(runId: string): void {
    const run = this.resting.newest(runId)
    const lease = this.fleet.leaseOf(runId)
    if (lease !== undefined) this.#tellLease(lease.id, { type: 'orphaned' })
    if (run === undefined || isTerminal(run.status) || this.#host.peek(RUN, runId) !== undefined) return
    const buried = failed(
      run,
      'internal error: the run could not be carried on; the log says why',
      this.now(),
    )
    this.#noteStatus(buried, run.status, false)
    this.resting.change(buried)
    this.#noLongerActive(buried)
    this.runPushes.changed(buried)
  }

  #leaseIs({ key, before, after, over, restored }: Change): void {
    const lease = after.context as LeaseContext
    if (over) {
      this.fleet.leaseEnded(lease)
      this.book.close(key)
      this.leases.settled(key, true)
      this.#ended.ended(lease, this.#parts.clock.now())
      this.#parts.meters.count('leases_ended_total', { how: lease.end ?? 'lost' })
      this.scheduler.look()
      return
    }
    if (before === undefined && this.fleet.leaseIs(lease) !== undefined)
      this.#violated('one live lease a run')
    this.book.open(lease, restored, after.value !== 'offered' && after.value !== 'unsure')
    if (before !== undefined && before.value !== after.value) this.leases.settled(key, false)
  }

  #workerIs({ key, before, after, over }: Change): void {
    const context = after.context as WorkerContext
    if (over) {
      this.#workerLeft(key, after.value === 'revoked')
      return
    }
    const state = after.value === 'draining' ? 'draining' : 'active'
    const was = before === undefined ? undefined : before.value === 'draining' ? 'draining' : 'active'
    const member = this.fleet.workerIs(context, state)
    this.#awaitProof(key, context.proven, before === undefined)
    const named = (before?.context as WorkerContext | undefined)?.name
    if (was !== undefined && was !== state) {
      if (state === 'active') this.forgive(member)
      this.#host.afterwards({ type: 'fleet.tell state', workerId: key } as ChannelEffect)
      this.scheduler.look()
    }
    if (was !== state || named !== context.name) this.#workersChanged()
  }

  /** On the clock that never jumps, and anew after a restart: a wall clock set right must not cost an enrollment. */
  #awaitProof(id: string, proven: boolean, fresh: boolean): void {
    const alarm = `enrollment ${id}`
    if (!proven && fresh) this.alarms.set(alarm, 'proof', this.alarms.now() + ENROLLMENT_PROOF_MS)
    else if (proven && !fresh) this.alarms.cancelAll(alarm)
  }

  /** Somebody has looked after it. */
  forgive(member: Member): void {
    delete member.hold
    member.pausedUntil = 0
    member.refusals.length = 0
    this.alarms.cancelAll(`worker ${member.id}`)
    this.scheduler.look()
  }

  #workerLeft(id: string, revoked: boolean): void {
    const member = this.fleet.member(id)
    const leases = [...(member?.leases ?? [])]
    if (revoked) {
      this.channel.revoked(id, 'the enrollment of this worker was revoked')
      this.book.silence(id)
      this.errands.forget(id)
    } else this.channel.sendAway(id, 'the enrollment could not be carried on')
    this.fleet.workerLeft(id)
    this.alarms.cancelAll(`worker ${id}`)
    this.alarms.cancelAll(`enrollment ${id}`)
    for (const leaseId of leases) this.#tellLease(leaseId, { type: 'worker lost' })
    this.scheduler.look()
    this.#workersChanged()
  }

  #connectionIs({ after, before, over }: Change): void {
    const { number, workerId, since } = after.context as ConnectionContext
    if (over) {
      this.channel.over(number)
      if (workerId !== null && this.fleet.disconnected(workerId, number)) this.#lineLost(workerId)
      return
    }
    if (workerId === null || since === null || before?.value === after.value) return
    this.fleet.connected(workerId, { connection: number, since, address: this.channel.addressOf(number) })
    this.scheduler.look()
    this.#workersChanged()
  }

  #lineLost(workerId: string): void {
    for (const leaseId of [...(this.fleet.member(workerId)?.leases ?? [])])
      this.#tellLease(leaseId, { type: 'worker lost' })
    this.scheduler.look()
    this.#workersChanged()
  }

  measure(): void {
    const { meters } = this.#parts
    meters.gauge('queue_depth', this.scheduler.queue.size)
    meters.gauge('leases', this.fleet.liveLeases)
    meters.gauge('workers_connected', this.fleet.capacity().connected)
    meters.gauge('watermark_lag_frames', this.book.lag())
  }

  #intakeIs({ before, after }: Change): void {
    const { status } = after.context as IntakeContext
    if (before === undefined || sameStatus((before.context as IntakeContext).status, status)) return
    this.#parts.pushes.send({ type: 'linear-status', linearStatus: status })
  }

  trackerStatus(): IntakeContext['status'] {
    return (
      (this.#host.peek(INTAKE, INTAKE)?.context as IntakeContext | undefined)?.status ?? {
        state: 'disconnected',
      }
    )
  }

  // ---- small ones --------------------------------------------------------------------------------------------------

  /** However many changes there are, people are told of the fleet as a whole, at a bounded pace. */
  #workersChanged(): void {
    if (!this.#parts.pushes.anybody || this.#workersPush !== undefined) return
    this.#workersPush = this.#parts.clock.after(WORKERS_PUSH_MS, () => {
      this.#workersPush = undefined
      this.#host.afterwards({ type: 'run.push workers' } as RunEffect)
    })
  }

  pushWorkers(): void {
    this.#parts.pushes.send({ type: 'workers', workers: this.fleet.views() })
  }

  #rang(key: string, name: string): void {
    if (key.startsWith('lease ')) this.leases.rang(key, name)
    else if (key.startsWith('enrollment ')) this.#neverProved(key.slice('enrollment '.length))
    else if (key.startsWith('worker ')) this.channel.rested(key.slice('worker '.length), name)
    else this.channel.rang(key, name)
  }

  #neverProved(workerId: string): void {
    const event: WorkerEvent = { type: 'never proved' }
    this.#host.tell(WORKER, workerId, event)
  }

  #tellLease(leaseId: string, event: LeaseEvent): void {
    this.#host.tell(LEASE, leaseId, event)
  }

  #patience(): Patience {
    return this.#parts.config().fleet
  }

  #violated(law: WatchedLaw): void {
    this.#parts.meters.count('invariant_violations_total', { law })
    this.#parts.log.error({ law }, 'a law was broken; please report this')
  }

  /** How many of each thing that comes and goes are held in memory. At rest none of them may grow with the years. */
  census() {
    return {
      alarms: this.alarms.pending,
      connections: this.channel.size,
      workers: this.fleet.size,
      leases: this.fleet.liveLeases,
      queued: this.scheduler.queue.size,
      activeRuns: this.#activeRuns.size,
      bookPages: this.book.size,
      pendingBytes: this.book.pendingBytes,
      framesBehind: this.book.lag(),
      journalPages: this.journal.size,
      recentPushes: this.runPushes.size,
    }
  }
}
