/**
 * Numbers the frames of executions, stores them with every commit, sends them, and keeps them until acknowledged.
 *
 * Frames become durable in the same commit as the transitions they follow from, and are sent only after it. On a new
 * connection a lease sends nothing before the host has acknowledged a number. A repeated acknowledgement asks to send
 * again what follows it, once. The unsent backlog is limited and shared between the leases in turn, so that an answer
 * the host waits for never queues behind minutes of log.
 */

import type { ExecutionReport } from '../../core/daemon/ports.ts'
import { readOr } from '../../core/damage.ts'
import {
  type FrameMetadata,
  Outbox,
  type OutboxChanges,
  type Sendable,
  type StoredFrame,
} from '../../core/lease/outbox.ts'
import type { Log } from '../../core/ports/log.ts'
import type { KeyList, KeyValues, Write } from '../../core/ports/store.ts'
import { encodeFrame } from '../../protocol/frame-budget.ts'
import {
  checkWorkerFrame,
  type RunOutcome,
  readWorkerFrame,
  type UsageSnapshot,
  type WorkerFrame,
  type WorkerFrameOf,
} from '../../protocol/frames.ts'
import {
  WORKER_BUFFER_BYTES_MAX,
  WORKER_BUFFER_FRAMES_MAX,
  WORKER_FRAME_KEYS_MAX,
} from '../../protocol/limits.ts'
import { parseJson } from '../../protocol/parse.ts'
import type { CommitContribution, CommitParticipant } from '../runtime/commit-loop.ts'
import { timerKind } from '../runtime/timer-kind.ts'
import type { DaemonContext } from './daemon-context.ts'
import type { HostSender } from './host-sender.ts'

export interface FrameOutboxPorts
  extends Pick<DaemonContext, 'storeState' | 'timers' | 'hostSender' | 'requestCommit'> {
  readonly keyValues: KeyValues & KeyList
  readonly log: Log
}

/** The most bytes that may wait unsent in the socket. */
const BACKLOG_BYTES_MAX = 1024 * 1024
/** The most bytes that one lease sends before the next lease's share. */
const SHARE_BYTES = 128 * 1024
/** The most bytes of one flush, so that the process's other work is not delayed. */
const FLUSH_BYTES_MAX = 1024 * 1024
const BACKLOG_POLL_MS = 50
/** The bytes of one lease that are not on disk yet; above this limit readers of a stream wait. */
const UNSAVED_BYTES_MAX = 2 * 1024 * 1024
/** The bytes of one lease that a connected host has not acknowledged; far below where the outbox drops frames. */
const UNACKNOWLEDGED_BYTES_MAX = WORKER_BUFFER_BYTES_MAX / 4
const UNACKNOWLEDGED_FRAMES_MAX = WORKER_BUFFER_FRAMES_MAX / 4
/** A connected host that acknowledges nothing delays an agent at most this long; after that log is dropped instead. */
const CAPACITY_WAIT_MS_MAX = 30_000
/** Frames count as lost only after this time: a repeated acknowledgement may have crossed them. */
const RESEND_MS_MIN = 1_000
const SEQ_DIGITS = 10
const UNKNOWN_ACKED =
  'could not read how far the host has acknowledged the reports of a lease; the host is asked'
/** How the text of every usage frame begins. */
const USAGE_BEGIN = '{"type":"run-usage-snapshot"'

interface LeaseSendState {
  readonly leaseId: string
  readonly outbox: Outbox
  /** The highest number sent on this connection. undefined: the host has not acknowledged a number yet. */
  sentSeq: number | undefined
  /** Since when a frame sent on this connection is unacknowledged (monotonic). */
  unacknowledgedSince: number | undefined
  lastAckSeq: number | undefined
  readonly waiters: (() => void)[]
}

/** A frame without its lease id and number, which this class adds. */
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
  /** Deletions for the next commit. */
  readonly #pendingErasures: Write[] = []
  #isFlushScheduled = false
  /** The timer of the longest wait for capacity is running. */
  #isCapacityTimerSet = false

  constructor(ports: FrameOutboxPorts) {
    this.#ports = ports
  }

  // ---- leases ------------------------------------------------------------------------------------------

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
    outbox.restore(this.#readAcked(leaseId), this.#readFrames(leaseId))
    this.#changedLeases.add(lease)
  }

  /** Starts at number 1 for a lease that the host has just dispatched on this connection. */
  startSending(leaseId: string): void {
    const lease = this.#leases.get(leaseId)
    if (lease !== undefined && this.#ports.hostSender.isUp) lease.sentSeq = 0
  }

  /** The host accepts frames of this lease no more, so nothing waits for its acknowledgements. */
  stopSending(leaseId: string): void {
    const lease = this.#leases.get(leaseId)
    if (lease === undefined) return
    lease.sentSeq = undefined
    this.#releaseWaiters(lease)
  }

  /** The lease has ended: its frames are deleted from disk together with its actor. */
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

  /**
   * Deletes the stored frames of leases that have no execution any more.
   * @param damaged leases whose execution cannot be read: what it has reported stays beside it
   */
  eraseUnownedFrames(damaged: readonly string[]): void {
    const owned = new Set([...this.#leases.keys(), ...damaged])
    let after = ''
    for (const leaseId of [...owned].sort()) {
      this.#eraseFrames({ after, until: `${leaseId}/` })
      after = endOfLeaseKeys(leaseId)
    }
    this.#eraseFrames({ after })
    for (const key of this.#ports.keyValues.keys('outbox'))
      if (!owned.has(key))
        this.#pendingErasures.push({ table: 'key-value', collection: 'outbox', key, value: null })
    if (this.#pendingErasures.length > 0) this.#ports.requestCommit()
  }

  #eraseFrames(between: { readonly after: string; readonly until?: string }): void {
    for (const key of this.#ports.keyValues.keys('frame', between))
      this.#pendingErasures.push({ table: 'key-value', collection: 'frame', key, value: null })
  }

  // ---- queries ------------------------------------------------------------------------------------------------------

  /** The highest number of this lease that is on disk. */
  lastSeq(leaseId: string): number {
    return this.#leases.get(leaseId)?.outbox.savedSeq ?? 0
  }

  hasCompletion(leaseId: string): boolean {
    return this.#leases.get(leaseId)?.outbox.completion !== undefined
  }

  /** The usage of a lease's execution that the host has not acknowledged. */
  unacknowledgedUsage(leaseId: string): UsageSnapshot[] {
    const texts = this.#leases.get(leaseId)?.outbox.undroppableTexts() ?? []
    const snapshots: UsageSnapshot[] = []
    for (const text of texts) {
      const read = text.startsWith(USAGE_BEGIN) ? readWorkerFrame(text, true) : undefined
      if (read?.ok === true && read.value.type === 'run-usage-snapshot') snapshots.push(read.value.snapshot)
    }
    return snapshots
  }

  /** Resolves when the lease may add more frames, usually at once. */
  waitForCapacity(leaseId: string): Promise<void> {
    const lease = this.#leases.get(leaseId)
    if (lease === undefined || this.#hasCapacity(lease)) return Promise.resolve()
    // All waiters share a timer: it starts with the first, and releases all of them.
    if (!this.#isCapacityTimerSet)
      this.#ports.timers.in(FRAME_OUTBOX_TIMER.key(), 'capacity', CAPACITY_WAIT_MS_MAX)
    this.#isCapacityTimerSet = true
    return new Promise((resolve) => lease.waiters.push(resolve))
  }

  /** Without a connection a worker continues and keeps what fits. With one it goes no faster than the host. */
  #hasCapacity({ outbox, sentSeq }: LeaseSendState): boolean {
    if (outbox.unsavedBytes > UNSAVED_BYTES_MAX) return false
    if (sentSeq === undefined || !this.#ports.hostSender.isUp) return true
    return outbox.bytes <= UNACKNOWLEDGED_BYTES_MAX && outbox.frames <= UNACKNOWLEDGED_FRAMES_MAX
  }

  #releaseWaiters(lease: LeaseSendState): void {
    if (lease.waiters.length > 0 && this.#hasCapacity(lease))
      for (const resolve of lease.waiters.splice(0)) resolve()
  }

  get leaseCount(): number {
    return this.#leases.size
  }

  // ---- adding frames -----------------------------------------------------------------------------------------------------

  /** Returns whether the report was added. @param remote the repository that memories belong to */
  addReport(leaseId: string, report: ExecutionReport, remote: string): boolean {
    switch (report.is) {
      case 'patch':
        return this.#append(leaseId, { as: 'must' }, { type: 'run-patch', patch: report.patch })
      case 'event':
        return this.#append(leaseId, { as: 'may' }, { type: 'run-event', event: report.event })
      case 'memories':
        return this.#append(
          leaseId,
          { as: 'must' },
          { type: 'run-memories', repo: remote, facts: [...report.facts] },
        )
      case 'usage':
        return this.#append(
          leaseId,
          { as: 'must' },
          { type: 'run-usage-snapshot', snapshot: report.snapshot },
        )
      case 'artifact': {
        const { name, part, final, data } = report
        const note: FrameMetadata = { as: 'part', artifact: name, part, final }
        return this.#append(leaseId, note, { type: 'run-artifact', name, part, final, data })
      }
    }
  }

  /** Adds the completion, after which the lease accepts no more frames. Returns whether it was added. */
  addCompletion(leaseId: string, outcome: RunOutcome): boolean {
    return this.#append(leaseId, { as: 'end' }, { type: 'run-complete', outcome })
  }

  #append(leaseId: string, note: FrameMetadata, report: UnnumberedReport): boolean {
    const lease = this.#leases.get(leaseId)
    if (lease === undefined || lease.outbox.completion !== undefined) return false
    const frame = (seq: number) => ({ ...report, leaseId, seq }) as WorkerFrame
    // The host would close the connection over an invalid frame, and receive it again after every reconnect.
    const text = encodeValid(frame(lease.outbox.lastSeq + 1))
    if (text === undefined) {
      this.#ports.log.error(
        { lease: leaseId, frame: report.type },
        'dropped a report that does not match its schema',
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

  // ---- acknowledgements ---------------------------------------------------------------------------------------------

  applyAcknowledgement(leaseId: string, seq: number): void {
    const lease = this.#leases.get(leaseId)
    if (lease === undefined) return
    const isNew = lease.outbox.acknowledge(seq)
    if (isNew) this.#markChanged(lease)
    const isRepeated = lease.lastAckSeq === seq && this.#isOverdue(lease)
    lease.lastAckSeq = seq
    if (lease.sentSeq === undefined || lease.sentSeq <= seq || isRepeated) {
      lease.sentSeq = seq
      lease.unacknowledgedSince = undefined
    } else if (isNew) lease.unacknowledgedSince = this.#ports.timers.now()
    this.#releaseWaiters(lease)
    this.flush()
  }

  #isOverdue({ unacknowledgedSince }: LeaseSendState): boolean {
    return (
      unacknowledgedSince !== undefined && this.#ports.timers.now() - unacknowledgedSince >= RESEND_MS_MIN
    )
  }

  /** The connection changed: wait for the host's acknowledgement before sending anything. */
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
    const { hostSender } = this.#ports
    let bytesLeft = FLUSH_BYTES_MAX
    for (let hasSent = true; hasSent; ) {
      hasSent = false
      for (const lease of this.#leases.values()) {
        if (bytesLeft <= 0 || hostSender.backlog() >= BACKLOG_BYTES_MAX) {
          this.#scheduleFlush()
          return
        }
        const bytes = this.#sendShare(hostSender, lease, Math.min(SHARE_BYTES, bytesLeft))
        bytesLeft -= bytes
        hasSent ||= bytes > 0
      }
    }
  }

  /** Sends frames of one lease. Returns the number of characters sent. */
  #sendShare(hostSender: HostSender, lease: LeaseSendState, bytesMax: number): number {
    let bytes = 0
    while (bytes < bytesMax && hostSender.isUp && lease.sentSeq !== undefined) {
      const next = this.#nextToSend(lease.outbox, lease.sentSeq)
      if (next === undefined) return bytes
      const { leaseId } = lease
      const text =
        next.is === 'frame'
          ? next.text
          : encodeFrame({
              type: 'lease-gap',
              leaseId,
              from: next.from,
              to: next.seq,
              ...(next.damaged === undefined ? {} : { damaged: true }),
            })
      lease.sentSeq = next.seq
      lease.unacknowledgedSince ??= this.#ports.timers.now()
      bytes += text.length
      hostSender.sendText(text)
    }
    return bytes
  }

  /** Returns undefined when there is nothing to send, or while a store that was full reopens its database. */
  #nextToSend(outbox: Outbox, after: number): Sendable | undefined {
    // A host restored from a backup acknowledges less than before. The frames in between are deleted, so report a gap.
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
    this.#ports.timers.in(FRAME_OUTBOX_TIMER.key(), 'flush', BACKLOG_POLL_MS)
  }

  onTimer(name: 'capacity' | 'flush'): void {
    if (name === 'capacity') {
      this.#isCapacityTimerSet = false
      for (const { waiters } of this.#leases.values()) for (const resolve of waiters.splice(0)) resolve()
      return
    }
    this.#isFlushScheduled = false
    this.flush()
  }

  // ---- commits --------------------------------------------------------------------------------------------------------

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

  // ---- stored frames ---------------------------------------------------------------------------------------------------

  /** Returns undefined for a damaged record: the host says how far it has acknowledged before anything is sent to it. */
  #readAcked(leaseId: string): number | undefined {
    const { keyValues, log } = this.#ports
    // Only this class writes to this collection.
    return readOr(
      () => ((keyValues.get('outbox', leaseId) ?? {}) as { acked?: number }).acked ?? 0,
      ({ message }) => void log.error({ lease: leaseId, problem: message }, UNKNOWN_ACKED),
    )
  }

  /** Frames that are damaged on disk are gaps of their own. The last ones count too, or their numbers would be used again. */
  *#readFrames(leaseId: string): Iterable<readonly [seq: number, frame: StoredFrame]> {
    const { keyValues } = this.#ports
    for (const key of keyValues.keys('frame', { after: `${leaseId}/`, until: endOfLeaseKeys(leaseId) })) {
      const seq = Number(key.slice(-SEQ_DIGITS))
      const frame = readOr(
        () => keyValues.get('frame', key) as StoredFrame | undefined,
        (): StoredFrame => ({ as: 'gap', from: seq, damaged: true }),
      )
      if (frame !== undefined) yield [seq, frame]
    }
  }

  #readText(leaseId: string, seq: number): string {
    const frame = this.#ports.keyValues.get('frame', frameKey(leaseId, seq)) as StoredFrame | undefined
    if (frame === undefined || frame.as === 'gap')
      throw new Error(`frame ${seq} of ${leaseId} is not on disk`)
    return frame.text
  }
}

/** The timer key of this class. */
export const FRAME_OUTBOX_TIMER = timerKind<'capacity' | 'flush'>('outbox')

const frameKey = (leaseId: string, seq: number): string =>
  `${leaseId}/${String(seq).padStart(SEQ_DIGITS, '0')}`

/** Greater than every frame key of the lease, because `0` follows `/`. */
const endOfLeaseKeys = (leaseId: string): string => `${leaseId}0`

function addWrites(leaseId: string, { frames, acked }: OutboxChanges, writes: Write[]): void {
  for (const [seq, value] of frames)
    writes.push({ table: 'key-value', collection: 'frame', key: frameKey(leaseId, seq), value })
  if (acked !== undefined)
    writes.push({ table: 'key-value', collection: 'outbox', key: leaseId, value: { acked } })
}

/** The text of a frame, shortened until its schema accepts it; undefined when that is not possible. */
function encodeValid(frame: WorkerFrame): string | undefined {
  const text = encodeFrame(frame)
  return checkWorkerFrame(frame).ok || isWritable(text) ? text : undefined
}

/** A shortened frame is checked as written: a key that its schema does not know must not be sent. */
function isWritable(text: string): boolean {
  const parsed = parseJson(text, WORKER_FRAME_KEYS_MAX)
  return parsed.ok && checkWorkerFrame(parsed.value).ok
}
