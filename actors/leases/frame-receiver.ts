/**
 * FrameReceiver applies the numbered frames of each lease in order and keeps the lease's watermark.
 *
 * A frame is applied as a whole or not at all; its effect and the new watermark become durable in one commit. A frame
 * that needs a file first (a part of an artifact, a usage snapshot) holds back the frames behind it, up to a limit of
 * bytes. Frames over the limit are dropped: the unchanged watermark makes the worker resend them. This is the hot path
 * and therefore no actor: a hundred thousand log lines cost the actors of run and lease a handful of events.
 */
import { readOr } from '../../core/damage.ts'
import {
  addLostRange,
  INITIAL_WATERMARK,
  judgeFrame,
  judgeLostRange,
  type LeaseWatermark,
} from '../../core/lease/watermark.ts'
import type { Write } from '../../core/ports/store.ts'
import type { ArrivingArtifact } from '../../core/run/arriving-artifact.ts'
import type { ScreenedReport } from '../../core/run/run-pull.ts'
import { USAGE_NOT_KEPT, usageToArchive } from '../../core/run/usage.ts'
import type { RunOutcome, RunPatch, WorkerFrameOf } from '../../protocol/frames.ts'
import { messageOf } from '../../protocol/message-of.ts'
import type { ReportedEvent } from '../../protocol/run.ts'
import type { HostContext } from '../host-context.ts'
import { RUN } from '../runs/run.machine.ts'
import type { CommitContribution, CommitParticipant } from '../runtime/commit-loop.ts'
import type { ModuleViews } from '../runtime/module.ts'
import type { LeaseContext, LeaseEvent } from './lease.machine.ts'
import { LEASE } from './lease.names.ts'
import { LeaseArtifacts } from './lease-artifacts.ts'
import { LeaseLog } from './lease-log.ts'

/** A lease is acknowledged once so many of its frames, or bytes, have come to disk since the last time. */
export const LEASE_ACK_FRAMES = 512
export const LEASE_ACK_BYTES = 1024 * 1024
/** Frame bytes that may wait for the disk, per lease and in total; frames beyond are requested again later. */
export const LEASE_PENDING_BYTES_MAX = 8 * 1024 * 1024
const FRAMES_PENDING_BYTES_MAX = 128 * 1024 * 1024

export type LeaseFrame =
  | WorkerFrameOf<'run-patch'>
  | WorkerFrameOf<'run-event'>
  | WorkerFrameOf<'run-artifact'>
  | WorkerFrameOf<'run-memories'>
  | (WorkerFrameOf<'run-usage-snapshot'> & { readonly leaseId: string; readonly seq: number })
  | WorkerFrameOf<'run-complete'>
  | WorkerFrameOf<'lease-gap'>

/** How often applying a frame may throw within `CRASHES_WITHIN_MS` before the lease is given up. */
const CRASHES_MAX = 3
const CRASHES_WITHIN_MS = 60_000

/** The watermark as it is stored. */
type StoredProgress = LeaseWatermark & {
  /** Bytes of events that the log does not name as left out yet. */
  readonly leftOutBytes?: number
  readonly arriving?: ArrivingArtifact
}

interface LeaseProgress {
  readonly leaseId: string
  readonly log: LeaseLog
  readonly artifacts: LeaseArtifacts
  readonly runId: string
  readonly workerId: string
  applied: LeaseWatermark
  /** The artifact whose last part is above `applied`. */
  arriving: ArrivingArtifact | undefined
  /** The watermark on disk. */
  durable: LeaseWatermark
  /** The highest frame number that was acknowledged to the worker. */
  acknowledged: number
  /** Whether the worker is known to have the lease. */
  isAccepted: boolean
  /** Whether the receiver ignores further frames: the run is complete, given up, or its worker was revoked. */
  isComplete: boolean
  /** Whether the watermark is damaged, so that no frame can be told from a repeated one. */
  readonly isUnreadable: boolean
  /** Whether the watermark is on disk or in a commit in flight. */
  isStored: boolean
  /** Whether a file is being written for the next frame. */
  isWritingFile: boolean
  /** The failure to write the next file is logged once, because a disk may stay full for days. */
  hasFileFailed: boolean
  readonly waiting: { readonly frame: LeaseFrame; readonly bytes: number }[]
  pendingBytes: number
  /** The part of `pendingBytes` that is applied and waits only for the next commit. */
  appliedBytes: number
  framesSinceAck: number
  bytesSinceAck: number
  crashes: number[]
}

type FrameReceiverModules = Pick<ModuleViews, 'workers' | 'runs' | 'runRecords' | 'jobs' | 'leaseShares'>

export class FrameReceiver implements CommitParticipant {
  readonly #context: HostContext
  readonly #modules: FrameReceiverModules
  readonly #onAckDue: (workerId: string, leaseId: string) => void
  readonly #progressByLease = new Map<string, LeaseProgress>()
  readonly #dirty = new Set<LeaseProgress>()
  readonly #closed: LeaseProgress[] = []
  #pendingBytes = 0

  /** @param onAckDue called when enough frames are on disk since the last acknowledgement to send the next one */
  constructor(
    context: HostContext,
    modules: FrameReceiverModules,
    onAckDue: (workerId: string, leaseId: string) => void,
  ) {
    this.#context = context
    this.#modules = modules
    this.#onAckDue = onAckDue
  }

  // ---- leases begin and end ----------------------------------------------------------------------------------------

  openLease(lease: LeaseContext, restored: boolean, accepted: boolean): void {
    const known = this.#progressByLease.get(lease.id)
    if (known !== undefined) {
      known.isAccepted ||= accepted
      return
    }
    const isUnreadable = restored && this.#isMarkDamaged(lease.id)
    // The cast holds because only this class writes to the collection.
    const stored =
      restored && !isUnreadable
        ? (this.#context.store.database.keyValues.get('mark', lease.id) as StoredProgress | undefined)
        : undefined
    const { leftOutBytes = 0, arriving, ...watermark }: StoredProgress = stored ?? INITIAL_WATERMARK
    this.#progressByLease.set(lease.id, {
      leaseId: lease.id,
      log: new LeaseLog(this.#context, this.#modules.runRecords.eventLog, lease.runId, leftOutBytes),
      artifacts: new LeaseArtifacts(this.#context, lease.runId, arriving),
      arriving,
      runId: lease.runId,
      workerId: lease.workerId,
      applied: watermark,
      durable: watermark,
      acknowledged: 0,
      isAccepted: accepted,
      isComplete: isUnreadable,
      isUnreadable,
      isStored: isUnreadable || stored !== undefined,
      isWritingFile: false,
      hasFileFailed: false,
      waiting: [],
      pendingBytes: 0,
      appliedBytes: 0,
      framesSinceAck: 0,
      bytesSinceAck: 0,
      crashes: [],
    })
  }

  /**
   * The worker of the lease is there. Without the watermark the run starts again, but not before: a worker that is away
   * still executes it, for as long as the lease lives, and cannot be stopped.
   */
  onLeaseHeld(leaseId: string): void {
    if (this.#progressByLease.get(leaseId)?.isUnreadable !== true) return
    this.#sendToLease(leaseId, { type: 'frames failed', at: this.#context.instant() })
  }

  #isMarkDamaged(leaseId: string): boolean {
    return readOr(
      () => this.#context.store.database.keyValues.get('mark', leaseId) === null,
      () => true,
    )
  }

  closeLease(leaseId: string): void {
    const progress = this.#progressByLease.get(leaseId)
    if (progress === undefined) return
    progress.isComplete = true
    this.#dropWaiting(progress)
    this.#progressByLease.delete(leaseId)
    this.#dirty.delete(progress)
    this.#pendingBytes -= progress.pendingBytes
    progress.pendingBytes = 0
    this.#endReports(progress)
    if (progress.isStored) {
      this.#closed.push(progress)
      this.#context.requestCommit()
    }
  }

  /** Ignores everything more from a worker, frames that wait for a file included. */
  ignoreWorker(workerId: string): void {
    for (const progress of this.#progressByLease.values()) {
      if (progress.workerId !== workerId) continue
      progress.isComplete = true
      this.#dropWaiting(progress)
    }
  }

  /** Returns the frame number to acknowledge now, never more than is on disk, and restarts the count for `onAckDue`. */
  acknowledge(leaseId: string): number {
    const progress = this.#progressByLease.get(leaseId)
    if (progress === undefined) return 0
    progress.framesSinceAck = 0
    progress.bytesSinceAck = 0
    if (progress.durable.mark < progress.acknowledged)
      this.#context.onInvariantViolated('acknowledged never falls')
    progress.acknowledged = progress.durable.mark
    return progress.durable.mark
  }

  /** Whether the worker is known to have the lease, and its watermark is readable. */
  mayAcknowledge(leaseId: string): boolean {
    const { isAccepted, isUnreadable } = this.#progressByLease.get(leaseId) ?? {}
    return isAccepted === true && isUnreadable === false
  }

  get size(): number {
    return this.#progressByLease.size
  }

  /** Bytes of frames, over all leases, that wait for a file, or are applied and wait for a commit. */
  get pendingBytes(): number {
    return this.#pendingBytes
  }

  /** How many frames are applied and not yet on disk, over all leases. */
  countUncommittedFrames(): number {
    let frames = 0
    for (const progress of this.#progressByLease.values())
      frames += progress.applied.mark - progress.durable.mark
    return frames
  }

  // ---- frames ------------------------------------------------------------------------------------------------------

  /** Receives a frame. Returns whether the worker holds the lease, not whether the frame was applied. */
  receiveFrame(workerId: string, frame: LeaseFrame, bytes: number): boolean {
    const progress = this.#progressByLease.get(frame.leaseId)
    if (progress === undefined || progress.workerId !== workerId) return false
    if (progress.isComplete) return true
    if (!progress.isAccepted) {
      // A worker that reports has accepted the lease, even when its `dispatch-accepted` was lost.
      progress.isAccepted = true
      const workerName = this.#modules.workers.registry.get(workerId)?.name
      this.#sendToLease(progress.leaseId, { type: 'accepted', at: this.#context.instant(), workerName })
      if (!this.#progressByLease.has(progress.leaseId)) return false
    }
    if (progress.isWritingFile) this.#holdFrame(progress, frame, bytes)
    else this.#applyFrame(progress, frame, bytes)
    return true
  }

  #holdFrame(progress: LeaseProgress, frame: LeaseFrame, bytes: number): void {
    if (!this.#fitsLimits(progress, bytes)) return
    progress.waiting.push({ frame, bytes })
    this.#addPendingBytes(progress, bytes)
  }

  #fitsLimits(progress: LeaseProgress, bytes: number): boolean {
    return (
      progress.pendingBytes + bytes <= LEASE_PENDING_BYTES_MAX &&
      this.#pendingBytes + bytes <= FRAMES_PENDING_BYTES_MAX
    )
  }

  #addPendingBytes(progress: LeaseProgress, bytes: number): void {
    progress.pendingBytes += bytes
    this.#pendingBytes += bytes
  }

  #applyFrame(progress: LeaseProgress, frame: LeaseFrame, bytes: number): void {
    try {
      if (!this.#fitsLimits(progress, bytes)) return
      if (frame.type === 'lease-gap') this.#applyGap(progress, frame, bytes)
      else if (judgeFrame(progress.applied.mark, frame.seq) === 'next')
        this.#applyNextFrame(progress, frame, bytes)
    } catch (error) {
      this.#onApplyError(progress, error)
    }
  }

  #applyNextFrame(
    progress: LeaseProgress,
    frame: Exclude<LeaseFrame, { type: 'lease-gap' }>,
    bytes: number,
  ): void {
    switch (frame.type) {
      case 'run-event':
        progress.log.append(this.#labelled(progress, frame.event))
        break
      case 'run-patch':
        if (!this.#acceptsFrames(progress.runId)) return
        this.#applyPatch(progress, frame)
        break
      case 'run-memories':
        this.#appendProblem(
          progress,
          this.#modules.jobs.preparation.recordMemories(progress.runId, frame.repo, frame.facts),
        )
        break
      case 'run-artifact':
        this.#applyAfterWrite(progress, bytes, frame.seq, () => progress.artifacts.write(frame))
        return
      case 'run-usage-snapshot':
        this.#applyAfterWrite(progress, bytes, frame.seq, () => this.#writeUsage(frame))
        return
      case 'run-complete':
        if (!this.#acceptsFrames(progress.runId)) return
        // First, so that a completion that throws is not taken for applied: the worker resends it.
        this.#completeRun(progress, frame)
        progress.isComplete = true
        progress.applied = { mark: frame.seq, lost: progress.applied.lost }
        this.#dropWaiting(progress)
        return
    }
    this.#advance(progress, frame.seq, bytes)
  }

  /** Workers do not know which execution of the run theirs is. */
  #labelled({ runId }: LeaseProgress, event: ReportedEvent): ReportedEvent {
    if (event.type !== 'cost') return event
    return {
      ...event,
      entry: { ...event.entry, label: this.#modules.leaseShares.labelOf(runId) ?? event.entry.label },
    }
  }

  /** Names in the run's log what was left out. */
  #endReports(progress: LeaseProgress): void {
    this.#appendProblems(progress, progress.artifacts.end())
    progress.log.end()
  }

  #appendProblem(progress: LeaseProgress, problem: string | undefined): void {
    if (problem !== undefined) progress.log.appendText(problem)
  }

  #appendProblems({ log }: LeaseProgress, problems: readonly string[]): void {
    for (const problem of problems) log.appendText(problem)
  }

  #applyPatch(progress: LeaseProgress, frame: WorkerFrameOf<'run-patch'>): void {
    const { report, pull, refusal } = this.#screen(progress.runId, frame.patch)
    this.#appendProblem(progress, refusal)
    const { status } = report
    const type =
      status === 'running' || status === 'finalizing' ? (`patched to ${status}` as const) : 'patched'
    const { runId, workerId } = progress
    this.#modules.runs.send(runId, {
      type,
      workerId,
      patch: report,
      ...(pull === undefined ? {} : { pull }),
    })
  }

  /** Takes out of a report what the run's agent can't use, and the addresses that are not of its pull request. */
  #screen<R extends RunPatch | RunOutcome>(runId: string, reported: R): ScreenedReport<R> {
    const { preparation, runPulls } = this.#modules.jobs
    return runPulls.screen(runId, preparation.screenSession(runId, reported))
  }

  /** False while the run's actor recovers from a crash: its frames would be acknowledged before they take effect. */
  #acceptsFrames(runId: string): boolean {
    return this.#context.system.isRunning(RUN, runId)
  }

  #sendToLease(leaseId: string, event: LeaseEvent): void {
    this.#context.system.send(LEASE, leaseId, event)
  }

  #completeRun(progress: LeaseProgress, frame: WorkerFrameOf<'run-complete'>): void {
    const { report, pull, refusal } = this.#screen(progress.runId, frame.outcome)
    this.#appendProblem(progress, refusal)
    this.#endReports(progress)
    this.#sendToLease(progress.leaseId, {
      type: 'completed',
      at: this.#context.instant(),
      outcome: report,
      retentionHours: this.#context.config().sandbox.retentionHours,
      ...(pull === undefined ? {} : { pull }),
    })
  }

  #advance(progress: LeaseProgress, seq: number, bytes: number): void {
    progress.applied = { mark: seq, lost: progress.applied.lost }
    this.#onAdvanced(progress, bytes)
  }

  #onAdvanced(progress: LeaseProgress, bytes: number): void {
    this.#addPendingBytes(progress, bytes)
    progress.appliedBytes += bytes
    progress.framesSinceAck += 1
    progress.bytesSinceAck += bytes
    this.#dirty.add(progress)
    this.#context.requestCommit()
  }

  #applyGap(progress: LeaseProgress, { from, to, damaged }: WorkerFrameOf<'lease-gap'>, bytes: number): void {
    const lost = judgeLostRange(progress.applied.mark, from, to)
    if (typeof lost === 'string') return
    progress.log.append({ at: this.#context.instant(), type: 'gap', from: lost[0], to: lost[1] })
    if (damaged === true) progress.log.appendText(damagedFramesText(lost[0], lost[1]))
    this.#context.meters.count('frames_lost_total', undefined, lost[1] - lost[0] + 1)
    progress.applied = addLostRange(progress.applied, lost)
    this.#onAdvanced(progress, bytes)
  }

  /** Leaves the watermark unchanged, so that the worker resends the frame. Gives the lease up after repeated errors. */
  #onApplyError(progress: LeaseProgress, error: unknown): void {
    const now = this.#context.clock.monotonic()
    progress.crashes = [...progress.crashes.filter((at) => now - at < CRASHES_WITHIN_MS), now]
    this.#context.meters.count('actor_crashes_total', { kind: 'ledger' })
    this.#context.log.error(
      { lease: progress.leaseId, err: error },
      'a frame could not be applied; the worker will resend it',
    )
    if (progress.crashes.length < CRASHES_MAX) return
    progress.isComplete = true
    this.#dropWaiting(progress)
    this.#sendToLease(progress.leaseId, { type: 'frames failed', at: this.#context.instant() })
  }

  // ---- frames that need a file -------------------------------------------------------------------------------------

  #applyAfterWrite(
    progress: LeaseProgress,
    bytes: number,
    seq: number,
    write: () => Promise<readonly string[]>,
  ): void {
    progress.isWritingFile = true
    this.#addPendingBytes(progress, bytes)
    write()
      .then(
        (problems) => this.#onFileWritten(progress, bytes, seq, problems),
        (error: unknown) => this.#onFileFailed(progress, bytes, error),
      )
      .catch((error: unknown) => this.#onApplyError(progress, error))
  }

  #onFileWritten(progress: LeaseProgress, bytes: number, seq: number, problems: readonly string[]): void {
    progress.isWritingFile = false
    progress.hasFileFailed = false
    if (this.#progressByLease.get(progress.leaseId) !== progress) return
    this.#removePendingBytes(progress, bytes)
    if (progress.isComplete) return
    this.#appendProblems(progress, problems)
    progress.arriving = progress.artifacts.arriving
    this.#advance(progress, seq, bytes)
    while (!progress.isWritingFile && !progress.isComplete) {
      const next = progress.waiting.shift()
      if (next === undefined) return
      this.#removePendingBytes(progress, next.bytes)
      this.#applyFrame(progress, next.frame, next.bytes)
    }
  }

  #onFileFailed(progress: LeaseProgress, bytes: number, error: unknown): void {
    progress.isWritingFile = false
    if (this.#progressByLease.get(progress.leaseId) !== progress) return
    this.#removePendingBytes(progress, bytes)
    this.#dropWaiting(progress)
    if (progress.hasFileFailed) return
    progress.hasFileFailed = true
    const reason = messageOf(error)
    this.#context.log.warn(
      { lease: progress.leaseId, reason },
      'a file of a frame could not be written; the worker will resend the frame',
    )
  }

  #removePendingBytes(progress: LeaseProgress, bytes: number): void {
    progress.pendingBytes -= bytes
    this.#pendingBytes -= bytes
  }

  #dropWaiting(progress: LeaseProgress): void {
    for (const { bytes } of progress.waiting.splice(0)) this.#removePendingBytes(progress, bytes)
  }

  async #writeUsage({ snapshot }: WorkerFrameOf<'run-usage-snapshot'>): Promise<readonly string[]> {
    const usable = usageToArchive(snapshot)
    if (!usable.ok) return [`${USAGE_NOT_KEPT}: ${usable.refusal.message}`]
    await this.#context.store.usage.replace(usable.value.key, usable.value.text)
    return []
  }

  // ---- commits -----------------------------------------------------------------------------------------------------

  contribute(): CommitContribution | undefined {
    if (this.#dirty.size === 0 && this.#closed.length === 0) return undefined
    const writes: Write[] = []
    const taken: { progress: LeaseProgress; at: LeaseWatermark; bytes: number }[] = []
    for (const progress of this.#dirty) {
      writes.push({
        table: 'key-value',
        collection: 'mark',
        key: progress.leaseId,
        value: storedForm(progress),
      })
      progress.isStored = true
      taken.push({ progress, at: progress.applied, bytes: progress.appliedBytes })
      progress.appliedBytes = 0
    }
    for (const { leaseId } of this.#closed.splice(0))
      writes.push({ table: 'key-value', collection: 'mark', key: leaseId, value: null })
    this.#dirty.clear()
    return { writes, onCommitted: () => this.#onCommitted(taken) }
  }

  #onCommitted(
    taken: readonly {
      readonly progress: LeaseProgress
      readonly at: LeaseWatermark
      readonly bytes: number
    }[],
  ): void {
    for (const { progress, at, bytes } of taken) {
      progress.durable = at
      if (this.#progressByLease.get(progress.leaseId) !== progress) continue
      this.#removePendingBytes(progress, bytes)
      if (progress.framesSinceAck >= LEASE_ACK_FRAMES || progress.bytesSinceAck >= LEASE_ACK_BYTES)
        this.#onAckDue(progress.workerId, progress.leaseId)
    }
  }
}

function storedForm({ applied, arriving, log: { leftOutBytes } }: LeaseProgress): StoredProgress {
  return {
    ...applied,
    ...(leftOutBytes === 0 ? {} : { leftOutBytes }),
    ...(arriving === undefined ? {} : { arriving }),
  }
}

const damagedFramesText = (from: number, to: number): string =>
  `${from === to ? `report ${from} of this run is` : `reports ${from} to ${to} of this run are`} damaged in the database of ` +
  'its worker, so what they said is lost; there, the damage is named by switchyard check-data'
