/**
 * The post office of a worker: what executions tell is numbered here, put on disk, sent, and kept until the host has it.
 *
 * A guest of every cut: frames become durable with the lives that they follow from, and only then are they sent. On a
 * new line nothing of a lease goes out before the host has said how far it is; a number that it repeats asks for what
 * is behind it again, once. No more is laid on the line than it takes, each lease in its turn, so that an answer the
 * host waits for never stands behind minutes of log.
 */

import type { Told } from '../../core/daemon/ports.ts'
import {
  type FrameNote,
  Outbox,
  type Sendable,
  type SpooledFrame,
  type Taken,
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
import type { Line } from './host-connection.ts'
import type { Timers } from './timers.ts'

export interface PostPorts {
  readonly facts: KeyValues
  readonly store: () => StoreState
  readonly log: Log
  readonly timers: Timers
  readonly line: () => Line
  readonly requestCommit: () => void
}

/** What may lie on the line unsent. */
const BACKLOG_BYTES_MAX = 1024 * 1024
/** What one lease may say before it is the next one's turn. */
const TURN_BYTES = 128 * 1024
/** What may be laid on the line in one go: everybody else in this process has to breathe, too. */
const GO_BYTES = 1024 * 1024
const BACKLOG_LOOK_MS = 50
/** Of one lease, not on disk yet: whoever reads a stream waits then. */
const UNSAVED_BYTES_MAX = 2 * 1024 * 1024
/** Of one lease, on disk and not acknowledged by a host that listens: far from where the outbox begins to drop. */
const AHEAD_BYTES_MAX = WORKER_BUFFER_BYTES_MAX / 4
const AHEAD_FRAMES_MAX = WORKER_BUFFER_FRAMES_MAX / 4
/** For a host that listens and acknowledges nothing: then rather lose log than keep an agent waiting for ever. */
const ROOM_WAIT_MS_MAX = 30_000
/** What was sent a moment ago is not lost because the host has not said yet that it has it. */
const UNDER_WAY_MS = 1_000
const SEQ_DIGITS = 10

interface Box {
  readonly leaseId: string
  readonly outbox: Outbox
  /** The highest number sent on this line. undefined: the host has not said yet how far it is. */
  sent: number | undefined
  /** Since when something that was sent on this line has not been acknowledged. */
  waitingSince: number | undefined
  lastAck: number | undefined
  readonly waiting: (() => void)[]
}

/** A frame without its lease and number, which it gets here. */
type Unnumbered<F> = F extends WorkerFrame ? Omit<F, 'leaseId' | 'seq'> : never
type Report = Unnumbered<
  WorkerFrameOf<
    'run-patch' | 'run-event' | 'run-artifact' | 'run-memories' | 'run-usage-snapshot' | 'run-complete'
  >
>

export class Post implements CommitParticipant {
  readonly #ports: PostPorts
  readonly #boxes = new Map<string, Box>()
  readonly #changed = new Set<Box>()
  /** What is to be taken off the disk with the next cut. */
  readonly #erasures: Write[] = []
  #looking = false
  /** The time of the one who waits for room since longest is running. */
  #anyoneWaits = false

  constructor(ports: PostPorts) {
    this.#ports = ports
  }

  // ---- leases come and go ------------------------------------------------------------------------------------------

  open(leaseId: string, restored: boolean): void {
    if (this.#boxes.has(leaseId)) return
    const read = (seq: number) => this.#textOf(leaseId, seq)
    const outbox = new Outbox({ read })
    const box: Box = {
      leaseId,
      outbox,
      sent: undefined,
      waitingSince: undefined,
      lastAck: undefined,
      waiting: [],
    }
    this.#boxes.set(leaseId, box)
    if (!restored) return
    // Only this class writes to these shelves.
    const { acked = 0 } = (this.#ports.facts.get('outbox', leaseId) ?? {}) as { acked?: number }
    outbox.restore(acked, this.#framesOf(leaseId))
    this.#changed.add(box)
  }

  /** A lease that the host has just given on this line: it knows nothing of it yet. */
  begins(leaseId: string): void {
    const box = this.#boxes.get(leaseId)
    if (box !== undefined && this.#ports.line().isUp) box.sent = 0
  }

  /** The lease is over: its buffer leaves the disk together with it. */
  close(leaseId: string): void {
    const box = this.#boxes.get(leaseId)
    if (box === undefined) return
    this.#boxes.delete(leaseId)
    this.#changed.delete(box)
    for (const seq of new Set(box.outbox.spooled()))
      this.#erasures.push({ table: 'key-value', collection: 'frame', key: keyOf(leaseId, seq), value: null })
    this.#erasures.push({ table: 'key-value', collection: 'outbox', key: leaseId, value: null })
    for (const resolve of box.waiting.splice(0)) resolve()
    this.#ports.requestCommit()
  }

  /** What no execution answers for: of leases whose record is gone. */
  sweep(): void {
    let after = ''
    for (const leaseId of [...this.#boxes.keys()].sort()) {
      this.#eraseFrames({ after, until: `${leaseId}/` })
      after = behind(leaseId)
    }
    this.#eraseFrames({ after })
    for (const [key] of this.#ports.facts.all('outbox'))
      if (!this.#boxes.has(key))
        this.#erasures.push({ table: 'key-value', collection: 'outbox', key, value: null })
    if (this.#erasures.length > 0) this.#ports.requestCommit()
  }

  #eraseFrames(between: { readonly after: string; readonly until?: string }): void {
    for (const [key] of this.#ports.facts.all('frame', between))
      this.#erasures.push({ table: 'key-value', collection: 'frame', key, value: null })
  }

  // ---- asking ------------------------------------------------------------------------------------------------------

  /** The highest number of this lease that is on disk. */
  lastSeq(leaseId: string): number {
    return this.#boxes.get(leaseId)?.outbox.savedSeq ?? 0
  }

  hasCompletion(leaseId: string): boolean {
    return this.#boxes.get(leaseId)?.outbox.completion !== undefined
  }

  /** Resolves when the lease has room for more: at once, mostly. */
  room(leaseId: string): Promise<void> {
    const box = this.#boxes.get(leaseId)
    if (box === undefined || this.#hasRoom(box)) return Promise.resolve()
    // Whoever has waited longest is let in first, and the others with him.
    if (!this.#anyoneWaits) this.#ports.timers.in(POST, 'room', ROOM_WAIT_MS_MAX)
    this.#anyoneWaits = true
    return new Promise((resolve) => box.waiting.push(resolve))
  }

  /** A worker without a line goes on and keeps what it can; with one it goes no faster than the host does. */
  #hasRoom({ outbox, sent }: Box): boolean {
    if (outbox.unsavedBytes > UNSAVED_BYTES_MAX) return false
    if (sent === undefined || !this.#ports.line().isUp) return true
    return outbox.bytes <= AHEAD_BYTES_MAX && outbox.frames <= AHEAD_FRAMES_MAX
  }

  #letIn(box: Box): void {
    if (box.waiting.length > 0 && this.#hasRoom(box)) for (const resolve of box.waiting.splice(0)) resolve()
  }

  get size(): number {
    return this.#boxes.size
  }

  // ---- telling -----------------------------------------------------------------------------------------------------

  /** `remote`: the repository that memories belong to. Answers whether it was taken. */
  tell(leaseId: string, told: Told, remote: string): boolean {
    switch (told.is) {
      case 'patch':
        return this.#stamp(leaseId, { as: 'must' }, { type: 'run-patch', patch: told.patch })
      case 'event':
        return this.#stamp(leaseId, { as: 'may' }, { type: 'run-event', event: told.event })
      case 'memories':
        return this.#stamp(
          leaseId,
          { as: 'must' },
          { type: 'run-memories', repo: remote, facts: [...told.facts] },
        )
      case 'usage':
        return this.#stamp(leaseId, { as: 'must' }, { type: 'run-usage-snapshot', snapshot: told.snapshot })
      case 'artifact': {
        const { name, part, final, data } = told
        const note: FrameNote = { as: 'part', artifact: name, part, final }
        return this.#stamp(leaseId, note, { type: 'run-artifact', name, part, final, data })
      }
    }
  }

  /** Once a lease: what was told already is not told again. */
  complete(leaseId: string, outcome: RunOutcome): boolean {
    return this.#stamp(leaseId, { as: 'end' }, { type: 'run-complete', outcome })
  }

  #stamp(leaseId: string, note: FrameNote, report: Report): boolean {
    const box = this.#boxes.get(leaseId)
    if (box === undefined || box.outbox.completion !== undefined) return false
    const frame = (seq: number) => ({ ...report, leaseId, seq }) as WorkerFrame
    // A frame that the host refuses costs the line, and comes again with every new one.
    const text = acceptable(frame(box.outbox.lastSeq + 1))
    if (text === undefined) {
      this.#ports.log.error(
        { lease: leaseId, frame: report.type },
        'a report was not of its form; it is not sent',
      )
      return false
    }
    box.outbox.stamp(note, () => text)
    this.#change(box)
    return true
  }

  #change(box: Box): void {
    this.#changed.add(box)
    this.#ports.requestCommit()
  }

  // ---- the host's word ---------------------------------------------------------------------------------------------

  acknowledged(leaseId: string, seq: number): void {
    const box = this.#boxes.get(leaseId)
    if (box === undefined) return
    const isNews = box.outbox.acknowledge(seq)
    if (isNews) this.#change(box)
    const isRepeated = box.lastAck === seq && this.#isOverdue(box)
    box.lastAck = seq
    if (box.sent === undefined || box.sent <= seq || isRepeated) {
      box.sent = seq
      box.waitingSince = undefined
    } else if (isNews) box.waitingSince = this.#ports.timers.now()
    this.#letIn(box)
    this.flush()
  }

  #isOverdue({ waitingSince }: Box): boolean {
    return waitingSince !== undefined && this.#ports.timers.now() - waitingSince >= UNDER_WAY_MS
  }

  /** Another line, or none: what the host has is to be learnt anew. */
  lineChanged(): void {
    for (const box of this.#boxes.values()) {
      box.sent = undefined
      box.lastAck = undefined
      box.waitingSince = undefined
      this.#letIn(box)
    }
  }

  // ---- sending -----------------------------------------------------------------------------------------------------

  flush(): void {
    const line = this.#ports.line()
    let left = GO_BYTES
    for (let said = true; said; ) {
      said = false
      for (const box of this.#boxes.values()) {
        if (left <= 0 || line.backlog() >= BACKLOG_BYTES_MAX) {
          this.#lookAgain()
          return
        }
        const bytes = this.#turn(line, box, Math.min(TURN_BYTES, left))
        left -= bytes
        said ||= bytes > 0
      }
    }
  }

  /** Answers how much it said. */
  #turn(line: Line, box: Box, bytesMax: number): number {
    let bytes = 0
    while (bytes < bytesMax && line.isUp && box.sent !== undefined) {
      const next = this.#next(box.outbox, box.sent)
      if (next === undefined) return bytes
      const { leaseId } = box
      const text =
        next.is === 'frame'
          ? next.text
          : frameText({ type: 'lease-gap', leaseId, from: next.from, to: next.seq })
      box.sent = next.seq
      box.waitingSince ??= this.#ports.timers.now()
      bytes += text.length
      line.sendText(text)
    }
    return bytes
  }

  /** A store that met a full disk can't be read while it opens its database again. */
  #next(outbox: Outbox, after: number): Sendable | undefined {
    // A host that was restored from a backup is behind its own word, and what it had is nowhere any more.
    if (after < outbox.acked) return { is: 'gap', from: after + 1, seq: outbox.acked }
    try {
      return outbox.next(after)
    } catch (error) {
      if (this.#ports.store().is === 'ready') throw error
      this.#lookAgain()
      return undefined
    }
  }

  #lookAgain(): void {
    if (this.#looking) return
    this.#looking = true
    this.#ports.timers.in(POST, 'look', BACKLOG_LOOK_MS)
  }

  rang(name: string): void {
    if (name === 'room') {
      this.#anyoneWaits = false
      for (const { waiting } of this.#boxes.values()) for (const resolve of waiting.splice(0)) resolve()
      return
    }
    this.#looking = false
    this.flush()
  }

  // ---- cuts --------------------------------------------------------------------------------------------------------

  contribute(): CommitContribution | undefined {
    const writes = this.#erasures.splice(0)
    const taken: { readonly box: Box; readonly share: Taken }[] = []
    for (const box of this.#changed) {
      const share = box.outbox.take()
      if (share === undefined) continue
      taken.push({ box, share })
      writesOf(box.leaseId, share, writes)
    }
    this.#changed.clear()
    if (writes.length === 0) return undefined
    return { writes, onCommitted: () => this.#landed(taken) }
  }

  #landed(taken: readonly { readonly box: Box; readonly share: Taken }[]): void {
    for (const { box, share } of taken) {
      share.landed()
      this.#letIn(box)
    }
    this.flush()
  }

  // ---- the spool ---------------------------------------------------------------------------------------------------

  *#framesOf(leaseId: string): Iterable<readonly [seq: number, frame: SpooledFrame]> {
    const between = { after: `${leaseId}/`, until: behind(leaseId) }
    for (const [key, value] of this.#ports.facts.all('frame', between))
      yield [Number(key.slice(-SEQ_DIGITS)), value as SpooledFrame]
  }

  #textOf(leaseId: string, seq: number): string {
    const frame = this.#ports.facts.get('frame', keyOf(leaseId, seq)) as SpooledFrame | undefined
    if (frame === undefined || frame.as === 'gap')
      throw new Error(`frame ${seq} of ${leaseId} is not in the spool`)
    return frame.text
  }
}

/** The key of this room's timers. */
export const POST = 'post'

const keyOf = (leaseId: string, seq: number): string => `${leaseId}/${String(seq).padStart(SEQ_DIGITS, '0')}`

/** Above all keys of the lease: `0` follows `/`. */
const behind = (leaseId: string): string => `${leaseId}0`

function writesOf(leaseId: string, { frames, acked }: Taken, writes: Write[]): void {
  for (const [seq, value] of frames)
    writes.push({ table: 'key-value', collection: 'frame', key: keyOf(leaseId, seq), value })
  if (acked !== undefined)
    writes.push({ table: 'key-value', collection: 'outbox', key: leaseId, value: { acked } })
}

/** The text of a frame, as its reader accepts it; undefined when no cutting makes it so. */
function acceptable(frame: WorkerFrame): string | undefined {
  const text = frameText(frame)
  return checkWorkerFrame(frame).ok || readWorkerFrame(text, true).ok ? text : undefined
}
