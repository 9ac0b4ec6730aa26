/**
 * A worker's numbered frames of one lease, as the specification wants them kept: until the host has acknowledged
 * them, in order, within a bound. Beyond the bound the oldest that may be dropped go, and in their place stands the
 * range that was lost. Written from the specification alone, and not for speed.
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

interface Kept {
  readonly seq: number
  readonly frame: NumberedFrame
}
interface Gap {
  readonly from: number
  to: number
}

export class Outbox {
  readonly leaseId: string
  readonly #max: number
  lastSeq = 0
  /** What the host has acknowledged. */
  acked = 0
  /** On the worker's own disk: only those frames are ever sent. */
  savedSeq = 0
  #kept: Kept[] = []
  #gaps: Gap[] = []

  constructor(leaseId: string, max: number) {
    this.leaseId = leaseId
    this.#max = max
  }

  stamp(make: (seq: number) => NumberedFrame): NumberedFrame {
    this.lastSeq += 1
    const frame = make(this.lastSeq)
    this.#kept.push({ seq: this.lastSeq, frame })
    if (this.#kept.length > this.#max) this.#drop()
    return frame
  }

  save(): void {
    this.savedSeq = this.lastSeq
  }

  /** The daemon died: what was not saved never was, and was never sent. */
  crash(): void {
    this.#kept = this.#kept.filter(({ seq }) => seq <= this.savedSeq)
    this.#gaps = this.#gaps.flatMap(({ from, to }) =>
      from > this.savedSeq ? [] : [{ from, to: Math.min(to, this.savedSeq) }],
    )
    this.lastSeq = this.savedSeq
  }

  trim(upTo: number): void {
    if (upTo <= this.acked) return
    this.acked = upTo
    this.#kept = this.#kept.filter(({ seq }) => seq > upTo)
    this.#gaps = this.#gaps.filter(({ to }) => to > upTo)
  }

  /** What is saved and above `after`, in order. */
  above(after: number): { readonly seq: number; readonly frame: WorkerFrame }[] {
    const frames = this.#kept.filter(({ seq }) => seq > after && seq <= this.savedSeq)
    const gaps = this.#gaps
      .filter(({ to }) => to > after && to <= this.savedSeq)
      .map(({ from, to }) => ({
        seq: to,
        frame: { type: 'lease-gap', leaseId: this.leaseId, from, to } as const,
      }))
    if (gaps.length === 0) return frames
    return [...frames, ...gaps].sort((a, b) => a.seq - b.seq)
  }

  get completion(): NumberedFrame | undefined {
    return this.#kept.find(({ frame, seq }) => frame.type === 'run-complete' && seq <= this.savedSeq)?.frame
  }

  get isEmpty(): boolean {
    return this.#kept.length === 0 && this.#gaps.length === 0
  }

  /** A quarter at once, or each frame beyond the bound would make a gap of its own. */
  #drop(): void {
    const droppable = this.#kept.filter(({ frame }) => isDroppable(frame.type))
    const gone = new Set(droppable.slice(0, Math.ceil(this.#max / 4)).map(({ seq }) => seq))
    this.#kept = this.#kept.filter(({ seq }) => !gone.has(seq))
    const lost = [...this.#gaps, ...[...gone].map((seq) => ({ from: seq, to: seq }))]
    lost.sort((a, b) => a.from - b.from)
    this.#gaps = []
    for (const gap of lost) {
      const last = this.#gaps.at(-1)
      if (last !== undefined && last.to + 1 === gap.from) last.to = gap.to
      else this.#gaps.push({ ...gap })
    }
  }
}
