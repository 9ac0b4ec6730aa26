/**
 * ReferenceOutbox keeps a worker's numbered frames of one lease as the specification demands: in order, until
 * acknowledged, within a bound.
 *
 * When the bound is exceeded, the oldest droppable frames are replaced by the range that was lost. The code follows
 * the specification alone and is not optimised.
 */
import type { WorkerFrame, WorkerFrameOf } from '../../protocol/frames.ts'

/** Frames that carry a number in their lease. */
export type NumberedType =
  | 'run-patch'
  | 'run-event'
  | 'run-artifact'
  | 'run-memories'
  | 'run-usage-snapshot'
  | 'run-complete'
export type NumberedFrame = WorkerFrameOf<NumberedType>

export const isDroppable = (type: string): boolean => type === 'run-event' || type === 'run-artifact'

interface OutboxEntry {
  readonly seq: number
  readonly frame: NumberedFrame
}
interface DroppedRange {
  readonly from: number
  to: number
}

export class ReferenceOutbox {
  readonly leaseId: string
  readonly #max: number
  lastSeq = 0
  /** Highest number that the host has acknowledged. */
  acknowledgedSeq = 0
  /** Highest number on the worker's own disk: only frames up to it are sent. */
  savedSeq = 0
  #entries: OutboxEntry[] = []
  #lostRanges: DroppedRange[] = []

  constructor(leaseId: string, max: number) {
    this.leaseId = leaseId
    this.#max = max
  }

  append(make: (seq: number) => NumberedFrame): NumberedFrame {
    this.lastSeq += 1
    const frame = make(this.lastSeq)
    this.#entries.push({ seq: this.lastSeq, frame })
    if (this.#entries.length > this.#max) this.#dropOldest()
    return frame
  }

  save(): void {
    this.savedSeq = this.lastSeq
  }

  /** A crash discards the unsaved frames, which were never sent. */
  crash(): void {
    this.#entries = this.#entries.filter(({ seq }) => seq <= this.savedSeq)
    this.#lostRanges = this.#lostRanges.flatMap(({ from, to }) =>
      from > this.savedSeq ? [] : [{ from, to: Math.min(to, this.savedSeq) }],
    )
    this.lastSeq = this.savedSeq
  }

  trim(upTo: number): void {
    if (upTo <= this.acknowledgedSeq) return
    this.acknowledgedSeq = upTo
    this.#entries = this.#entries.filter(({ seq }) => seq > upTo)
    this.#lostRanges = this.#lostRanges.filter(({ to }) => to > upTo)
  }

  /** The saved frames with numbers above `after`, in order. */
  framesAfter(after: number): { readonly seq: number; readonly frame: WorkerFrame }[] {
    const frames = this.#entries.filter(({ seq }) => seq > after && seq <= this.savedSeq)
    const gaps = this.#lostRanges
      .filter(({ to }) => to > after && to <= this.savedSeq)
      .map(({ from, to }) => ({
        seq: to,
        frame: { type: 'lease-gap', leaseId: this.leaseId, from, to } as const,
      }))
    if (gaps.length === 0) return frames
    return [...frames, ...gaps].sort((a, b) => a.seq - b.seq)
  }

  get completion(): NumberedFrame | undefined {
    return this.#entries.find(({ frame, seq }) => frame.type === 'run-complete' && seq <= this.savedSeq)
      ?.frame
  }

  get isEmpty(): boolean {
    return this.#entries.length === 0 && this.#lostRanges.length === 0
  }

  /** Drops a quarter at once, because otherwise every further frame would add a range. */
  #dropOldest(): void {
    const droppable = this.#entries.filter(({ frame }) => isDroppable(frame.type))
    const dropped = new Set(droppable.slice(0, Math.ceil(this.#max / 4)).map(({ seq }) => seq))
    this.#entries = this.#entries.filter(({ seq }) => !dropped.has(seq))
    const ranges = [...this.#lostRanges, ...[...dropped].map((seq) => ({ from: seq, to: seq }))]
    ranges.sort((a, b) => a.from - b.from)
    this.#lostRanges = []
    for (const gap of ranges) {
      const last = this.#lostRanges.at(-1)
      if (last !== undefined && last.to + 1 === gap.from) last.to = gap.to
      else this.#lostRanges.push({ ...gap })
    }
  }
}
