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
import { furnish, type RoomParts, type Rooms } from './modules.ts'

const UNFINISHED: readonly RunStatus[] = ['queued', 'preparing', 'running', 'finalizing']
const PRUNE_MS = 6 * 3_600_000

export class Yard {
  readonly rooms: Rooms
  readonly #parts: RoomParts
  readonly #system: ActorSystem
  #prune: Cancel = () => {}

  constructor(parts: RoomParts, system: ActorSystem) {
    this.#parts = parts
    this.#system = system
    this.rooms = furnish(parts, system)
  }

  get guests(): readonly CommitParticipant[] {
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
    } = this.rooms
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
  restored(): void {
    this.#leasesWithoutRun()
    this.#runsWithoutLease()
    this.#runsWithoutLife()
  }

  #leasesWithoutRun(): void {
    const orphaned: LeaseEvent = { type: 'orphaned' }
    for (const lease of [...this.rooms.workers.leases()]) {
      const run = this.#runOf(lease.runId)
      if (run === undefined || (run.lease !== null && run.lease !== lease.id))
        this.#system.send(LEASE, lease.id, orphaned)
      // The lease outranks what the run's record says.
      else if (run.lease === null) this.rooms.runs.send(lease.runId, { type: 'granted', leaseId: lease.id })
    }
  }

  #runsWithoutLease(): void {
    const { workers, instant, runs } = this.rooms
    const at = instant()
    const reason = 'the lease was gone after a restart'
    for (const id of [...this.#system.keys(RUN)]) {
      const leaseId = this.#runOf(id)?.lease ?? null
      if (leaseId !== null && workers.lease(leaseId) === undefined)
        runs.send(id, { type: 'lease lost', leaseId, at, reason })
    }
  }

  /** Records that no life belongs to: its own was damaged, or they are from a time before. */
  #runsWithoutLife(): void {
    for (const run of this.#parts.store.database.runs.list({ status: UNFINISHED }))
      if (this.#runOf(run.id) === undefined && !this.#system.isDamaged(RUN, run.id))
        this.rooms.runs.requeueLostRun(run)
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
    } = this.rooms
    timers.start()
    sessionCosts.start()
    this.#pruneNow()
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
    } = this.rooms
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
    this.#prune()
  }

  configured(): void {
    const { followUps, intake, connections, trackerConnection, localWorker, scheduler } = this.rooms
    trackerConnection.onConfigChange()
    intake.onConfigChange()
    localWorker.onConfigChange()
    connections.onConfigChange()
    followUps.onCodeHostChanged()
    scheduler.refreshQueue()
  }

  #pruneNow(): void {
    this.rooms.ended.prune(this.#parts.clock.now())
    this.rooms.sessionCosts.prune()
    this.#prune = this.#parts.clock.after(PRUNE_MS, () => this.#pruneNow())
  }

  // ---- before each cut ---------------------------------------------------------------------------------------------

  beforeCut(): void {
    this.rooms.scheduler.placeRuns()
    if (this.#parts.pushes.hasListeners) this.rooms.runs.publishQueueReason()
  }

  // ---- following the lives -----------------------------------------------------------------------------------------

  watch(change: StateChange): void {
    const { rooms } = this
    if (change.kind === RUN) this.#runIs(change)
    else if (change.kind === TERMINAL_SESSION) rooms.terminals.onStateChange(change)
    else if (change.kind === LEASE) rooms.leases.onLeaseChanged(change)
    else if (change.kind === WORKER) rooms.workerManager.onWorkerChange(change)
    else if (change.kind === CONNECTION) rooms.workerManager.onConnectionChange(change)
    else if (change.kind === TRACKER_CONNECTION) this.#linkIs(change)
  }

  #runIs(change: StateChange): void {
    this.rooms.runs.onRunChanged(change)
    if (change.over) this.rooms.sessionCosts.onRunFinished(change.key)
  }

  #linkIs({ before, after }: StateChange): void {
    this.rooms.trackerConnection.onStateChange(after.value)
    const status = trackerStatusOf(after.value, after.context as TrackerConnectionContext)
    if (
      before === undefined ||
      sameStatus(trackerStatusOf(before.value, before.context as TrackerConnectionContext), status)
    )
      return
    this.#parts.pushes.send({ type: 'linear-status', linearStatus: status })
  }

  trackerStatus(): TrackerStatus {
    const link = this.#system.peek(TRACKER_CONNECTION, TRACKER_CONNECTION)
    return link === undefined
      ? { state: 'disconnected' }
      : trackerStatusOf(link.value, link.context as TrackerConnectionContext)
  }

  // ---- figures -----------------------------------------------------------------------------------------------------

  measure(): void {
    const { meters } = this.#parts
    const { frameReceiver, frameRouter, workers, leases, scheduler } = this.rooms
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
    } = this.rooms
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
