/**
 * The yard: where the lives of runs, leases, workers and lines meet, and everything that follows from their states.
 *
 * One place hears of every good state (`watch`) and passes it on to the room that it concerns; the rooms keep the books
 * that others read. Nothing in here is durable by itself; all of it follows from lives and facts, so a restart finds it
 * again.
 */
import type { Cancel } from '../../core/ports.ts'
import type { RunStatus } from '../../protocol/run.ts'
import type { TrackerStatus } from '../../protocol/tracker.ts'
import type { LeaseEvent } from '../leases/lease.machine.ts'
import { LEASE } from '../leases/lease.names.ts'
import type { RunContext } from '../runs/run.machine.ts'
import { RUN } from '../runs/run.names.ts'
import type { ActorSystem, StateChange } from '../runtime/actor-system.ts'
import type { CommitParticipant } from '../runtime/commit-loop.ts'
import { TERMINAL_SESSION } from '../terminals/terminal-session.names.ts'
import { TRACKER_CONNECTION, type TrackerConnectionContext } from '../tracker/tracker-connection.machine.ts'
import { trackerStatusOf } from '../tracker/tracker-connection.ts'
import { CONNECTION, WORKER } from '../workers/worker.names.ts'
import { createHostModules, type HostModules, type ModulePorts } from './modules.ts'

const UNFINISHED: readonly RunStatus[] = ['queued', 'preparing', 'running', 'finalizing']
const PRUNE_MS = 6 * 3_600_000

export class HostLifecycle {
  readonly modules: HostModules
  readonly #parts: ModulePorts
  readonly #system: ActorSystem
  #cancelPrune: Cancel = () => {}

  constructor(parts: ModulePorts, system: ActorSystem) {
    this.#parts = parts
    this.#system = system
    this.modules = createHostModules(parts, system)
  }

  get participants(): readonly CommitParticipant[] {
    const {
      journal,
      resting,
      memories,
      undeliveredDiscards,
      ended,
      frameReceiver,
      intake,
      pullRequestLinks,
      evidence,
      runPushes,
      sessionCosts,
      told,
    } = this.modules
    // Events before what follows from them: who hears of a run's end has heard of everything before it.
    return [
      journal,
      resting,
      memories,
      undeliveredDiscards,
      ended,
      frameReceiver,
      intake,
      intake.moves,
      pullRequestLinks,
      evidence,
      runPushes,
      sessionCosts,
      told,
    ]
  }

  // ---- beginning and end -------------------------------------------------------------------------------------------

  /** Lives are back. What they say of each other is brought together, before any door is open. */
  reconcile(): void {
    this.#endLeasesWithoutRun()
    this.#endRunsWithoutLease()
    this.#requeueRunsWithoutActor()
  }

  #endLeasesWithoutRun(): void {
    const orphaned: LeaseEvent = { type: 'orphaned' }
    for (const lease of [...this.modules.workers.leases()]) {
      const run = this.#runOf(lease.runId)
      if (run === undefined || (run.lease !== null && run.lease !== lease.id))
        this.#system.send(LEASE, lease.id, orphaned)
      // The lease outranks what the run's record says.
      else if (run.lease === null) this.modules.runs.send(lease.runId, { type: 'granted', leaseId: lease.id })
    }
  }

  #endRunsWithoutLease(): void {
    const { workers, instant, runs } = this.modules
    const at = instant()
    const reason = 'the lease was gone after a restart'
    for (const id of [...this.#system.keys(RUN)]) {
      const leaseId = this.#runOf(id)?.lease ?? null
      if (leaseId !== null && workers.lease(leaseId) === undefined)
        runs.send(id, { type: 'lease lost', leaseId, at, reason })
    }
  }

  /** Records that no life belongs to: its own was damaged, or they are from a time before. */
  #requeueRunsWithoutActor(): void {
    for (const run of this.#parts.store.database.runs.list({ status: UNFINISHED }))
      if (this.#runOf(run.id) === undefined && !this.#system.isDamaged(RUN, run.id))
        this.modules.runs.requeueLostRun(run)
  }

  #runOf(id: string): RunContext | undefined {
    return this.#system.peek(RUN, id)?.context as RunContext | undefined
  }

  start(): void {
    const {
      timers,
      evidence,
      intake,
      trackerConnection,
      localWorker,
      pullRequestLinks,
      pullWatch,
      scheduler,
      sessionCosts,
    } = this.modules
    timers.start()
    sessionCosts.start()
    this.#prune()
    trackerConnection.onConfigChange()
    localWorker.onConfigChange()
    intake.moves.start()
    pullRequestLinks.start()
    evidence.start()
    pullWatch.start()
    scheduler.requestScheduling()
  }

  stop(): void {
    const {
      timers,
      connect,
      evidence,
      followUps,
      intake,
      trackerConnection,
      localWorker,
      pullRequestLinks,
      pullWatch,
      runPushes,
      workerManager,
    } = this.modules
    timers.stop()
    connect.stop()
    trackerConnection.stop()
    pullRequestLinks.stop()
    evidence.stop()
    followUps.stop()
    pullWatch.stop()
    intake.stop()
    localWorker.stopNow()
    runPushes.stop()
    workerManager.stop()
    this.#cancelPrune()
  }

  onConfigChange(): void {
    const { followUps, intake, connections, trackerConnection, localWorker, scheduler } = this.modules
    trackerConnection.onConfigChange()
    intake.onConfigChange()
    localWorker.onConfigChange()
    connections.onConfigChange()
    followUps.onCodeHostChanged()
    scheduler.refreshQueue()
  }

  #prune(): void {
    this.modules.ended.prune(this.#parts.clock.now())
    this.modules.sessionCosts.prune()
    this.#cancelPrune = this.#parts.clock.after(PRUNE_MS, () => this.#prune())
  }

  // ---- before each cut ---------------------------------------------------------------------------------------------

  beforeCommit(): void {
    this.modules.scheduler.placeRuns()
    if (this.#parts.broadcast.hasListeners) this.modules.runs.publishQueueReason()
  }

  // ---- following the lives -----------------------------------------------------------------------------------------

  onStateChange(change: StateChange): void {
    const { modules } = this
    if (change.kind === RUN) this.#onRunChange(change)
    else if (change.kind === TERMINAL_SESSION) modules.terminals.onStateChange(change)
    else if (change.kind === LEASE) modules.leases.onLeaseChanged(change)
    else if (change.kind === WORKER) modules.workerManager.onWorkerChange(change)
    else if (change.kind === CONNECTION) modules.workerManager.onConnectionChange(change)
    else if (change.kind === TRACKER_CONNECTION) this.#onTrackerConnectionChange(change)
  }

  #onRunChange(change: StateChange): void {
    this.modules.runs.onRunChanged(change)
    if (change.over) this.modules.sessionCosts.onRunFinished(change.key)
  }

  #onTrackerConnectionChange({ before, after }: StateChange): void {
    this.modules.trackerConnection.onStateChange(after.value)
    const status = trackerStatusOf(after.value, after.context as TrackerConnectionContext)
    if (
      before === undefined ||
      sameStatus(trackerStatusOf(before.value, before.context as TrackerConnectionContext), status)
    )
      return
    this.#parts.broadcast.send({ type: 'linear-status', linearStatus: status })
  }

  trackerStatus(): TrackerStatus {
    const link = this.#system.peek(TRACKER_CONNECTION, TRACKER_CONNECTION)
    return link === undefined
      ? { state: 'disconnected' }
      : trackerStatusOf(link.value, link.context as TrackerConnectionContext)
  }

  // ---- figures -----------------------------------------------------------------------------------------------------

  updateGauges(): void {
    const { meters } = this.#parts
    const { frameReceiver, frameRouter, workers, leases, scheduler } = this.modules
    meters.gauge('queue_depth', scheduler.queue.size)
    meters.gauge('leases', workers.leaseCount)
    meters.gauge('workers_connected', workers.capacity().connected)
    meters.gauge('watermark_lag_frames', frameReceiver.countUncommittedFrames())
    frameRouter.reportMetrics(meters)
    leases.reportCounts(meters)
  }

  /** How many of each thing that comes and goes are held in memory. At rest none of them may grow with the years. */
  census() {
    const {
      timers,
      terminals,
      frameReceiver,
      connect,
      evidence,
      workers,
      followUps,
      journal,
      connections,
      pullRequestLinks,
      runPushes,
      runs,
      scheduler,
    } = this.modules
    return {
      monotonicTimers: timers.pending,
      connections: connections.size,
      workers: workers.size,
      leases: workers.leaseCount,
      queued: scheduler.queue.size,
      activeRuns: runs.size,
      bookPages: frameReceiver.size,
      pendingBytes: frameReceiver.pendingBytes,
      framesBehind: frameReceiver.countUncommittedFrames(),
      journalPages: journal.size,
      recentPushes: runPushes.size,
      pullLinks: pullRequestLinks.size,
      evidence: evidence.size,
      followUps: followUps.size,
      connecting: connect.size,
      booted: terminals.size,
      terminals: terminals.views,
    }
  }
}

const sameStatus = (a: TrackerStatus, b: TrackerStatus): boolean => a.state === b.state && a.error === b.error
