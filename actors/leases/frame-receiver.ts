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
import type { Artifacts, KeyValues, UsageArchive, Write } from '../../core/ports.ts'
import type { ArrivingArtifact } from '../../core/run/arriving-artifact.ts'
import { USAGE_NOT_KEPT, usageToArchive } from '../../core/run/usage.ts'
import type { WorkerFrameOf } from '../../protocol/frames.ts'
import { messageOf } from '../../protocol/message-of.ts'
import type { ReportedEvent, RunPull } from '../../protocol/run.ts'
import type { HostContext } from '../host-context.ts'
import type { LeaseShares } from '../runs/lease-shares.ts'
import type { RunEventLog } from '../runs/run-event-log.ts'
import type { RunPulls } from '../runs/run-pulls.ts'
import type { CommitContribution, CommitParticipant } from '../runtime/commit-loop.ts'
import type { LeaseContext, LeaseEvent } from './lease.machine.ts'
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

export interface FrameReceiverPorts
  extends Pick<HostContext, 'clock' | 'instant' | 'log' | 'meters' | 'requestCommit'> {
  readonly keyValues: KeyValues
  readonly artifacts: Artifacts
  readonly usage: UsageArchive
  readonly runEventLog: RunEventLog
  readonly leaseShares: Pick<LeaseShares, 'labelOf'>
  readonly workerName: (workerId: string) => string | undefined
  readonly sendToLease: (leaseId: string, event: LeaseEvent) => void
  /** False while the run's actor recovers from a crash: its frames would be acknowledged before they take effect. */
  readonly acceptsFrames: (runId: string) => boolean
  readonly patchRun: (
    runId: string,
    workerId: string,
    patch: WorkerFrameOf<'run-patch'>['patch'],
    pull: RunPull | undefined,
  ) => void
  /** Takes the addresses out of a report that are not of the run's pull request. */
  readonly screenReport: RunPulls['screen']
  /** Returns why the memories were not kept, if they were not. */
  readonly recordMemories: (runId: string, repo: string, facts: readonly string[]) => string | undefined
  readonly retentionHours: () => number
  /** The bytes of events that a run may store. */
  readonly logBudget: () => number
  /** The bytes of artifacts that a run may store. */
  readonly artifactBudget: () => number
  /** Called when enough frames are on disk since the last acknowledgement to send the next one. */
  readonly onAckDue: (workerId: string, leaseId: string) => void
  /** Called when the durable watermark lies below an acknowledged number, which must never happen. */
  readonly onInvariantViolated: () => void
}

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

export class FrameReceiver implements CommitParticipant {
  readonly #ports: FrameReceiverPorts
  readonly #progressByLease = new Map<string, LeaseProgress>()
  readonly #dirty = new Set<LeaseProgress>()
  readonly #closed: LeaseProgress[] = []
  #pendingBytes = 0

  constructor(ports: FrameReceiverPorts) {
    this.#ports = ports
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
        ? (this.#ports.keyValues.get('mark', lease.id) as StoredProgress | undefined)
        : undefined
    const { leftOutBytes = 0, arriving, ...watermark }: StoredProgress = stored ?? INITIAL_WATERMARK
    this.#progressByLease.set(lease.id, {
      leaseId: lease.id,
      log: new LeaseLog(this.#ports, lease.runId, leftOutBytes),
      artifacts: new LeaseArtifacts(this.#ports, lease.runId, arriving),
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
    this.#ports.sendToLease(leaseId, { type: 'frames failed', at: this.#ports.instant() })
  }

  #isMarkDamaged(leaseId: string): boolean {
    return readOr(
      () => this.#ports.keyValues.get('mark', leaseId) === null,
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
      this.#ports.requestCommit()
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
    if (progress.durable.mark < progress.acknowledged) this.#ports.onInvariantViolated()
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
      const { instant, workerName, sendToLease } = this.#ports
      sendToLease(progress.leaseId, { type: 'accepted', at: instant(), workerName: workerName(workerId) })
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
    const { recordMemories } = this.#ports
    switch (frame.type) {
      case 'run-event':
        progress.log.append(this.#labelled(progress, frame.event))
        break
      case 'run-patch':
        if (!this.#ports.acceptsFrames(progress.runId)) return
        this.#applyPatch(progress, frame)
        break
      case 'run-memories':
        this.#appendProblem(progress, recordMemories(progress.runId, frame.repo, frame.facts))
        break
      case 'run-artifact':
        this.#applyAfterWrite(progress, bytes, frame.seq, () => progress.artifacts.write(frame))
        return
      case 'run-usage-snapshot':
        this.#applyAfterWrite(progress, bytes, frame.seq, () => this.#writeUsage(frame))
        return
      case 'run-complete':
        if (!this.#ports.acceptsFrames(progress.runId)) return
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
      entry: { ...event.entry, label: this.#ports.leaseShares.labelOf(runId) ?? event.entry.label },
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
    const { report, pull, refusal } = this.#ports.screenReport(progress.runId, frame.patch)
    this.#appendProblem(progress, refusal)
    this.#ports.patchRun(progress.runId, progress.workerId, report, pull)
  }

  #completeRun(progress: LeaseProgress, frame: WorkerFrameOf<'run-complete'>): void {
    const { report, pull, refusal } = this.#ports.screenReport(progress.runId, frame.outcome)
    this.#appendProblem(progress, refusal)
    this.#endReports(progress)
    this.#ports.sendToLease(progress.leaseId, {
      type: 'completed',
      at: this.#ports.instant(),
      outcome: report,
      retentionHours: this.#ports.retentionHours(),
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
    this.#ports.requestCommit()
  }

  #applyGap(progress: LeaseProgress, { from, to, damaged }: WorkerFrameOf<'lease-gap'>, bytes: number): void {
    const lost = judgeLostRange(progress.applied.mark, from, to)
    if (typeof lost === 'string') return
    progress.log.append({ at: this.#ports.instant(), type: 'gap', from: lost[0], to: lost[1] })
    if (damaged === true) progress.log.appendText(damagedFramesText(lost[0], lost[1]))
    this.#ports.meters.count('frames_lost_total', undefined, lost[1] - lost[0] + 1)
    progress.applied = addLostRange(progress.applied, lost)
    this.#onAdvanced(progress, bytes)
  }

  /** Leaves the watermark unchanged, so that the worker resends the frame. Gives the lease up after repeated errors. */
  #onApplyError(progress: LeaseProgress, error: unknown): void {
    const now = this.#ports.clock.monotonic()
    progress.crashes = [...progress.crashes.filter((at) => now - at < CRASHES_WITHIN_MS), now]
    this.#ports.meters.count('actor_crashes_total', { kind: 'ledger' })
    this.#ports.log.error(
      { lease: progress.leaseId, err: error },
      'a frame could not be applied; the worker will resend it',
    )
    if (progress.crashes.length < CRASHES_MAX) return
    progress.isComplete = true
    this.#dropWaiting(progress)
    this.#ports.sendToLease(progress.leaseId, { type: 'frames failed', at: this.#ports.instant() })
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
    this.#ports.log.warn(
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
    await this.#ports.usage.replace(usable.value.key, usable.value.text)
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
        this.#ports.onAckDue(progress.workerId, progress.leaseId)
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
