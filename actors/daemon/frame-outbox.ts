/**
 * The post office of a worker: what executions tell is numbered here, put on disk, sent, and kept until the host has it.
 *
 * A guest of every cut: frames become durable with the lives that they follow from, and only then are they sent. On a
 * new line nothing of a lease goes out before the host has said how far it is; a number that it repeats asks for what
 * is behind it again, once. No more is laid on the line than it takes, each lease in its turn, so that an answer the
 * host waits for never stands behind minutes of log.
 */

import type { ExecutionReport } from '../../core/daemon/ports.ts'
import {
  type FrameMetadata,
  Outbox,
  type OutboxChanges,
  type Sendable,
  type StoredFrame,
} from '../../core/lease/outbox.ts'
import type { KeyValues, Log, StoreState, Write } from '../../core/ports.ts'
import { frameText } from '../../protocol/frame-budget.ts'
import {
  checkWorkerFrame,
  type RunOutcome,
  readWorkerFrame,
  type WorkerFrame,
  type WorkerFrameOf,
} from '../../protocol/frames.ts'
import { WORKER_BUFFER_BYTES_MAX, WORKER_BUFFER_FRAMES_MAX } from '../../protocol/limits.ts'
import type { CommitContribution, CommitParticipant } from '../runtime/commit-loop.ts'
import type { HostConnection } from './host-connection.ts'
import type { SleepAwareTimers } from './sleep-aware-timers.ts'

export interface FrameOutboxPorts {
  readonly keyValues: KeyValues
  readonly storeState: () => StoreState
  readonly log: Log
  readonly timers: SleepAwareTimers
  readonly hostConnection: () => HostConnection
  readonly requestCommit: () => void
}

/** What may lie on the line unsent. */
const BACKLOG_BYTES_MAX = 1024 * 1024
/** What one lease may say before it is the next one's turn. */
const SHARE_BYTES = 128 * 1024
/** What may be laid on the line in one go: everybody else in this process has to breathe, too. */
const FLUSH_BYTES_MAX = 1024 * 1024
const BACKLOG_POLL_MS = 50
/** Of one lease, not on disk yet: whoever reads a stream waits then. */
const UNSAVED_BYTES_MAX = 2 * 1024 * 1024
/** Of one lease, on disk and not acknowledged by a host that listens: far from where the outbox begins to drop. */
const UNACKNOWLEDGED_BYTES_MAX = WORKER_BUFFER_BYTES_MAX / 4
const UNACKNOWLEDGED_FRAMES_MAX = WORKER_BUFFER_FRAMES_MAX / 4
/** For a host that listens and acknowledges nothing: then rather lose log than keep an agent waiting for ever. */
const CAPACITY_WAIT_MS_MAX = 30_000
/** What was sent a moment ago is not lost because the host has not said yet that it has it. */
const RESEND_MS_MIN = 1_000
const SEQ_DIGITS = 10

interface LeaseSendState {
  readonly leaseId: string
  readonly outbox: Outbox
  /** The highest number sent on this line. undefined: the host has not said yet how far it is. */
  sentSeq: number | undefined
  /** Since when something that was sent on this line has not been acknowledged. */
  unacknowledgedSince: number | undefined
  lastAckSeq: number | undefined
  readonly waiters: (() => void)[]
}

/** A frame without its lease and number, which it gets here. */
type WithoutNumber<F> = F extends WorkerFrame ? Omit<F, 'leaseId' | 'seq'> : never
type UnnumberedReport = WithoutNumber<
  WorkerFrameOf<
    'run-patch' | 'run-event' | 'run-artifact' | 'run-memories' | 'run-usage-snapshot' | 'run-complete'
  >
>

export class FrameOutbox implements CommitParticipant {
  readonly #ports: FrameOutboxPorts
  readonly #leases = new Map<string, LeaseSendState>()
  readonly #changedLeases = new Set<LeaseSendState>()
  /** What is to be taken off the disk with the next cut. */
  readonly #pendingErasures: Write[] = []
  #isFlushScheduled = false
  /** The time of the one who waits for room since longest is running. */
  #isCapacityTimerSet = false

  constructor(ports: FrameOutboxPorts) {
    this.#ports = ports
  }

  // ---- leases come and go ------------------------------------------------------------------------------------------

  openLease(leaseId: string, restored: boolean): void {
    if (this.#leases.has(leaseId)) return
    const read = (seq: number) => this.#readText(leaseId, seq)
    const outbox = new Outbox({ read })
    const lease: LeaseSendState = {
      leaseId,
      outbox,
      sentSeq: undefined,
      unacknowledgedSince: undefined,
      lastAckSeq: undefined,
      waiters: [],
    }
    this.#leases.set(leaseId, lease)
    if (!restored) return
    // Only this class writes to these shelves.
    const { acked = 0 } = (this.#ports.keyValues.get('outbox', leaseId) ?? {}) as { acked?: number }
    outbox.restore(acked, this.#readFrames(leaseId))
    this.#changedLeases.add(lease)
  }

  /** A lease that the host has just given on this line: it knows nothing of it yet. */
  startSending(leaseId: string): void {
    const lease = this.#leases.get(leaseId)
    if (lease !== undefined && this.#ports.hostConnection().isUp) lease.sentSeq = 0
  }

  /** The lease is over: its buffer leaves the disk together with it. */
  closeLease(leaseId: string): void {
    const lease = this.#leases.get(leaseId)
    if (lease === undefined) return
    this.#leases.delete(leaseId)
    this.#changedLeases.delete(lease)
    for (const seq of new Set(lease.outbox.storedNumbers()))
      this.#pendingErasures.push({
        table: 'key-value',
        collection: 'frame',
        key: frameKey(leaseId, seq),
        value: null,
      })
    this.#pendingErasures.push({ table: 'key-value', collection: 'outbox', key: leaseId, value: null })
    for (const resolve of lease.waiters.splice(0)) resolve()
    this.#ports.requestCommit()
  }

  /** What no execution answers for: of leases whose record is gone. */
  eraseUnownedFrames(): void {
    let after = ''
    for (const leaseId of [...this.#leases.keys()].sort()) {
      this.#eraseFrames({ after, until: `${leaseId}/` })
      after = endOfLeaseKeys(leaseId)
    }
    this.#eraseFrames({ after })
    for (const [key] of this.#ports.keyValues.all('outbox'))
      if (!this.#leases.has(key))
        this.#pendingErasures.push({ table: 'key-value', collection: 'outbox', key, value: null })
    if (this.#pendingErasures.length > 0) this.#ports.requestCommit()
  }

  #eraseFrames(between: { readonly after: string; readonly until?: string }): void {
    for (const [key] of this.#ports.keyValues.all('frame', between))
      this.#pendingErasures.push({ table: 'key-value', collection: 'frame', key, value: null })
  }

  // ---- asking ------------------------------------------------------------------------------------------------------

  /** The highest number of this lease that is on disk. */
  lastSeq(leaseId: string): number {
    return this.#leases.get(leaseId)?.outbox.savedSeq ?? 0
  }

  hasCompletion(leaseId: string): boolean {
    return this.#leases.get(leaseId)?.outbox.completion !== undefined
  }

  /** Resolves when the lease has room for more: at once, mostly. */
  waitForCapacity(leaseId: string): Promise<void> {
    const lease = this.#leases.get(leaseId)
    if (lease === undefined || this.#hasCapacity(lease)) return Promise.resolve()
    // Whoever has waited longest is let in first, and the others with him.
    if (!this.#isCapacityTimerSet) this.#ports.timers.in(FRAME_OUTBOX_TIMER, 'room', CAPACITY_WAIT_MS_MAX)
    this.#isCapacityTimerSet = true
    return new Promise((resolve) => lease.waiters.push(resolve))
  }

  /** A worker without a line goes on and keeps what it can; with one it goes no faster than the host does. */
  #hasCapacity({ outbox, sentSeq }: LeaseSendState): boolean {
    if (outbox.unsavedBytes > UNSAVED_BYTES_MAX) return false
    if (sentSeq === undefined || !this.#ports.hostConnection().isUp) return true
    return outbox.bytes <= UNACKNOWLEDGED_BYTES_MAX && outbox.frames <= UNACKNOWLEDGED_FRAMES_MAX
  }

  #releaseWaiters(lease: LeaseSendState): void {
    if (lease.waiters.length > 0 && this.#hasCapacity(lease))
      for (const resolve of lease.waiters.splice(0)) resolve()
  }

  get leaseCount(): number {
    return this.#leases.size
  }

  // ---- telling -----------------------------------------------------------------------------------------------------

  /** `remote`: the repository that memories belong to. Answers whether it was taken. */
  addReport(leaseId: string, told: ExecutionReport, remote: string): boolean {
    switch (told.is) {
      case 'patch':
        return this.#append(leaseId, { as: 'must' }, { type: 'run-patch', patch: told.patch })
      case 'event':
        return this.#append(leaseId, { as: 'may' }, { type: 'run-event', event: told.event })
      case 'memories':
        return this.#append(
          leaseId,
          { as: 'must' },
          { type: 'run-memories', repo: remote, facts: [...told.facts] },
        )
      case 'usage':
        return this.#append(leaseId, { as: 'must' }, { type: 'run-usage-snapshot', snapshot: told.snapshot })
      case 'artifact': {
        const { name, part, final, data } = told
        const note: FrameMetadata = { as: 'part', artifact: name, part, final }
        return this.#append(leaseId, note, { type: 'run-artifact', name, part, final, data })
      }
    }
  }

  /** Once a lease: what was told already is not told again. */
  addCompletion(leaseId: string, outcome: RunOutcome): boolean {
    return this.#append(leaseId, { as: 'end' }, { type: 'run-complete', outcome })
  }

  #append(leaseId: string, note: FrameMetadata, report: UnnumberedReport): boolean {
    const lease = this.#leases.get(leaseId)
    if (lease === undefined || lease.outbox.completion !== undefined) return false
    const frame = (seq: number) => ({ ...report, leaseId, seq }) as WorkerFrame
    // A frame that the host refuses costs the line, and comes again with every new one.
    const text = encodeValid(frame(lease.outbox.lastSeq + 1))
    if (text === undefined) {
      this.#ports.log.error(
        { lease: leaseId, frame: report.type },
        'a report was not of its form; it is not sent',
      )
      return false
    }
    lease.outbox.append(note, () => text)
    this.#markChanged(lease)
    return true
  }

  #markChanged(lease: LeaseSendState): void {
    this.#changedLeases.add(lease)
    this.#ports.requestCommit()
  }

  // ---- the host's word ---------------------------------------------------------------------------------------------

  applyAcknowledgement(leaseId: string, seq: number): void {
    const lease = this.#leases.get(leaseId)
    if (lease === undefined) return
    const isNews = lease.outbox.acknowledge(seq)
    if (isNews) this.#markChanged(lease)
    const isRepeated = lease.lastAckSeq === seq && this.#isOverdue(lease)
    lease.lastAckSeq = seq
    if (lease.sentSeq === undefined || lease.sentSeq <= seq || isRepeated) {
      lease.sentSeq = seq
      lease.unacknowledgedSince = undefined
    } else if (isNews) lease.unacknowledgedSince = this.#ports.timers.now()
    this.#releaseWaiters(lease)
    this.flush()
  }

  #isOverdue({ unacknowledgedSince }: LeaseSendState): boolean {
    return (
      unacknowledgedSince !== undefined && this.#ports.timers.now() - unacknowledgedSince >= RESEND_MS_MIN
    )
  }

  /** Another line, or none: what the host has is to be learnt anew. */
  onConnectionChange(): void {
    for (const lease of this.#leases.values()) {
      lease.sentSeq = undefined
      lease.lastAckSeq = undefined
      lease.unacknowledgedSince = undefined
      this.#releaseWaiters(lease)
    }
  }

  // ---- sending -----------------------------------------------------------------------------------------------------

  flush(): void {
    const hostConnection = this.#ports.hostConnection()
    let bytesLeft = FLUSH_BYTES_MAX
    for (let hasSent = true; hasSent; ) {
      hasSent = false
      for (const lease of this.#leases.values()) {
        if (bytesLeft <= 0 || hostConnection.backlog() >= BACKLOG_BYTES_MAX) {
          this.#scheduleFlush()
          return
        }
        const bytes = this.#sendShare(hostConnection, lease, Math.min(SHARE_BYTES, bytesLeft))
        bytesLeft -= bytes
        hasSent ||= bytes > 0
      }
    }
  }

  /** Answers how much it said. */
  #sendShare(hostConnection: HostConnection, lease: LeaseSendState, bytesMax: number): number {
    let bytes = 0
    while (bytes < bytesMax && hostConnection.isUp && lease.sentSeq !== undefined) {
      const next = this.#nextToSend(lease.outbox, lease.sentSeq)
      if (next === undefined) return bytes
      const { leaseId } = lease
      const text =
        next.is === 'frame'
          ? next.text
          : frameText({ type: 'lease-gap', leaseId, from: next.from, to: next.seq })
      lease.sentSeq = next.seq
      lease.unacknowledgedSince ??= this.#ports.timers.now()
      bytes += text.length
      hostConnection.sendText(text)
    }
    return bytes
  }

  /** A store that met a full disk can't be read while it opens its database again. */
  #nextToSend(outbox: Outbox, after: number): Sendable | undefined {
    // A host that was restored from a backup is behind its own word, and what it had is nowhere any more.
    if (after < outbox.acked) return { is: 'gap', from: after + 1, seq: outbox.acked }
    try {
      return outbox.next(after)
    } catch (error) {
      if (this.#ports.storeState().is === 'ready') throw error
      this.#scheduleFlush()
      return undefined
    }
  }

  #scheduleFlush(): void {
    if (this.#isFlushScheduled) return
    this.#isFlushScheduled = true
    this.#ports.timers.in(FRAME_OUTBOX_TIMER, 'look', BACKLOG_POLL_MS)
  }

  onTimer(name: string): void {
    if (name === 'room') {
      this.#isCapacityTimerSet = false
      for (const { waiters } of this.#leases.values()) for (const resolve of waiters.splice(0)) resolve()
      return
    }
    this.#isFlushScheduled = false
    this.flush()
  }

  // ---- cuts --------------------------------------------------------------------------------------------------------

  contribute(): CommitContribution | undefined {
    const writes = this.#pendingErasures.splice(0)
    const taken: { readonly lease: LeaseSendState; readonly share: OutboxChanges }[] = []
    for (const lease of this.#changedLeases) {
      const share = lease.outbox.takeChanges()
      if (share === undefined) continue
      taken.push({ lease, share })
      addWrites(lease.leaseId, share, writes)
    }
    this.#changedLeases.clear()
    if (writes.length === 0) return undefined
    return { writes, onCommitted: () => this.#onCommitted(taken) }
  }

  #onCommitted(taken: readonly { readonly lease: LeaseSendState; readonly share: OutboxChanges }[]): void {
    for (const { lease, share } of taken) {
      share.onCommitted()
      this.#releaseWaiters(lease)
    }
    this.flush()
  }

  // ---- the spool ---------------------------------------------------------------------------------------------------

  *#readFrames(leaseId: string): Iterable<readonly [seq: number, frame: StoredFrame]> {
    const between = { after: `${leaseId}/`, until: endOfLeaseKeys(leaseId) }
    for (const [key, value] of this.#ports.keyValues.all('frame', between))
      yield [Number(key.slice(-SEQ_DIGITS)), value as StoredFrame]
  }

  #readText(leaseId: string, seq: number): string {
    const frame = this.#ports.keyValues.get('frame', frameKey(leaseId, seq)) as StoredFrame | undefined
    if (frame === undefined || frame.as === 'gap')
      throw new Error(`frame ${seq} of ${leaseId} is not in the spool`)
    return frame.text
  }
}

/** The key of this room's timers. */
export const FRAME_OUTBOX_TIMER = 'post'

const frameKey = (leaseId: string, seq: number): string =>
  `${leaseId}/${String(seq).padStart(SEQ_DIGITS, '0')}`

/** Above all keys of the lease: `0` follows `/`. */
const endOfLeaseKeys = (leaseId: string): string => `${leaseId}0`

function addWrites(leaseId: string, { frames, acked }: OutboxChanges, writes: Write[]): void {
  for (const [seq, value] of frames)
    writes.push({ table: 'key-value', collection: 'frame', key: frameKey(leaseId, seq), value })
  if (acked !== undefined)
    writes.push({ table: 'key-value', collection: 'outbox', key: leaseId, value: { acked } })
}

/** The text of a frame, as its reader accepts it; undefined when no cutting makes it so. */
function encodeValid(frame: WorkerFrame): string | undefined {
  const text = frameText(frame)
  return checkWorkerFrame(frame).ok || readWorkerFrame(text, true).ok ? text : undefined
}
