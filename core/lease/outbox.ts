/**
 * A lease's numbered frames on the worker's side, kept until the host has acknowledged them.
 *
 * In memory are only numbers and sizes; the texts lie in the spool, and for a moment in a small cache. Each number from
 * the acknowledged one up to the last is either kept or inside a gap. Beyond the bounds the oldest frames that may be
 * lost go, a quarter at once, and with a part of an artifact all of its parts, for a torn one is worth nothing. What is
 * not on disk is never sent, so after a crash no number stands for two frames.
 *
 * A gap may name a frame that the host has already: it skips what of a gap is above its mark, and nothing else.
 */
import { WORKER_BUFFER_BYTES_MAX, WORKER_BUFFER_FRAMES_MAX } from '../../protocol/limits.ts'
import { type LostRange, LostRanges } from './lost-ranges.ts'

/** What of a frame is known without reading it. */
export type FrameMetadata =
  /** `end`: the completion, behind which nothing comes. */
  | { readonly as: 'must' | 'may' | 'end' }
  | { readonly as: 'part'; readonly artifact: string; readonly part: number; readonly final: boolean }

/** As the spool holds it, under its number; a gap under the last of its range. */
export type StoredFrame =
  | (FrameMetadata & { readonly text: string })
  | { readonly as: 'gap'; readonly from: number }

/** What may be sent. */
export type Sendable =
  | { readonly is: 'frame'; readonly seq: number; readonly text: string }
  | { readonly is: 'gap'; readonly from: number; readonly seq: number }

export interface OutboxOptions {
  /** The text of a frame that is on disk. */
  readonly read: (seq: number) => string
  readonly framesMax?: number
  readonly bytesMax?: number
  readonly cacheBytesMax?: number
}

/** What changed since the last take, to be written in one commit. */
export interface OutboxChanges {
  readonly frames: readonly (readonly [seq: number, frame: StoredFrame | null])[]
  /** undefined: as it was. */
  readonly acked: number | undefined
  onCommitted(): void
}

const CACHE_BYTES_MAX = 512 * 1024
const LOST_AT_ONCE = 1 / 4

interface KeptFrame {
  readonly bytes: number
  readonly droppable: boolean
  readonly artifact: ArtifactParts | undefined
}

interface ArtifactParts {
  readonly parts: Set<number>
  /** A part of it is lost, so the others are too, those to come as well. */
  isIncomplete: boolean
}

export class Outbox {
  readonly #read: (seq: number) => string
  readonly #framesMax: number
  readonly #bytesMax: number
  readonly #cacheBytesMax: number
  readonly #kept = new Map<number, KeptFrame>()
  readonly #lostRanges = new LostRanges()
  /** Numbers of frames that may be lost, oldest first; some are gone already. */
  #droppable: number[] = []
  #droppableFrom = 0
  #droppables = 0
  /** By name, those of which the last part has not come. */
  readonly #artifacts = new Map<string, ArtifactParts>()
  #bytes = 0
  #lastSeq = 0
  #takenUpTo = 0
  #savedSeq = 0
  #acked = 0
  #takenAck = 0
  #completion: number | undefined
  #changes = new Map<number, StoredFrame | null>()
  /** Taken, and not on disk yet. */
  #committing: ReadonlyMap<number, StoredFrame | null> = new Map()
  #newBytes = 0
  #committingBytes = 0
  readonly #cache = new Map<number, string>()
  #cacheBytes = 0

  constructor(options: OutboxOptions) {
    this.#read = options.read
    this.#framesMax = options.framesMax ?? WORKER_BUFFER_FRAMES_MAX
    this.#bytesMax = options.bytesMax ?? WORKER_BUFFER_BYTES_MAX
    this.#cacheBytesMax = options.cacheBytesMax ?? CACHE_BYTES_MAX
  }

  /** Of what lies in the spool, in order. Looks at one frame at a time. */
  restore(acked: number, frames: Iterable<readonly [seq: number, frame: StoredFrame]>): void {
    this.#acked = acked
    this.#takenAck = acked
    this.#lastSeq = acked
    for (const [seq, frame] of frames) {
      if (seq <= acked) this.#changes.set(seq, null)
      else this.#restoreOne(seq, frame)
    }
    this.#takenUpTo = this.#lastSeq
    this.#savedSeq = this.#lastSeq
  }

  /** A number that should be there and is not would hold up all behind it: better it is named as lost. */
  #restoreOne(seq: number, frame: StoredFrame): void {
    const range = { from: this.#lastSeq + 1, to: frame.as === 'gap' ? seq : seq - 1 }
    if (range.from <= range.to) this.#lostRanges.append(range)
    const isMissing = range.from < (frame.as === 'gap' ? frame.from : seq)
    if (isMissing) this.#changes.set(range.to, { as: 'gap', from: range.from })
    this.#lastSeq = seq
    if (frame.as !== 'gap') this.#keep(seq, frame, Buffer.byteLength(frame.text))
  }

  // ---- asking ------------------------------------------------------------------------------------------------------

  get lastSeq(): number {
    return this.#lastSeq
  }

  /** Up to here everything is on disk. */
  get savedSeq(): number {
    return this.#savedSeq
  }

  get acked(): number {
    return this.#acked
  }

  /** The completion's number, once there is one. */
  get completion(): number | undefined {
    return this.#completion
  }

  /** Of frames that are not on disk yet. */
  get unsavedBytes(): number {
    return this.#newBytes + this.#committingBytes
  }

  get frames(): number {
    return this.#kept.size
  }

  get bytes(): number {
    return this.#bytes
  }

  get lostRanges(): readonly LostRange[] {
    return this.#lostRanges.all
  }

  /** The next thing above `after` that may be sent. */
  next(after: number): Sendable | undefined {
    const seq = Math.max(after, this.#acked) + 1
    if (seq > this.#savedSeq) return undefined
    if (this.#kept.has(seq)) return { is: 'frame', seq, text: this.#cache.get(seq) ?? this.#read(seq) }
    const gap = this.#lostRanges.find(seq)
    if (gap === undefined) throw new Error(`frame ${seq} is neither kept nor lost`)
    if (this.#isUnsaved(gap)) return undefined
    return { is: 'gap', from: Math.max(gap.from, this.#acked + 1), seq: gap.to }
  }

  /** As wide as it is by now. */
  #isUnsaved({ to }: LostRange): boolean {
    return (this.#changes.get(to) ?? this.#committing.get(to))?.as === 'gap'
  }

  // ---- coming and going --------------------------------------------------------------------------------------------

  /** Gives a frame its number. undefined: the completion has been told, nothing counts behind it. */
  append(metadata: FrameMetadata, textOf: (seq: number) => string): number | undefined {
    if (this.#completion !== undefined) return undefined
    const seq = ++this.#lastSeq
    if (metadata.as === 'part' && this.#artifactOf(metadata).isIncomplete) {
      if (metadata.final) this.#artifacts.delete(metadata.artifact)
      this.#lose([seq])
      return seq
    }
    const text = textOf(seq)
    const bytes = Buffer.byteLength(text)
    this.#changes.set(seq, { ...metadata, text })
    this.#newBytes += bytes
    this.#cacheText(seq, text, bytes)
    this.#keep(seq, metadata, bytes)
    while (this.#isFull() && this.#droppables > 0) this.#dropOldest()
    return seq
  }

  /** The host has everything up to `seq`. Answers whether that is news. */
  acknowledge(seq: number): boolean {
    if (seq <= this.#acked) return false
    for (let one = this.#acked + 1; one <= Math.min(seq, this.#lastSeq); one++) this.#release(one)
    // It has more than this disk remembers: numbering goes on behind what it has, and the completion comes again.
    if (seq > this.#lastSeq) {
      this.#completion = undefined
      this.#lastSeq = seq
      this.#savedSeq = seq
      this.#takenUpTo = seq
    }
    this.#acked = seq
    for (const to of this.#lostRanges.removeUpTo(seq)) this.#erase(to)
    this.#forgetDroppables()
    return true
  }

  /** What has to be written; undefined when nothing has. One at a time: the next only after this one has landed. */
  takeChanges(): OutboxChanges | undefined {
    if (this.#changes.size === 0 && this.#takenAck === this.#acked) return undefined
    const frames = [...this.#changes]
    this.#committing = this.#changes
    const acked = this.#takenAck === this.#acked ? undefined : this.#acked
    const upTo = this.#lastSeq
    this.#changes = new Map()
    this.#committingBytes = this.#newBytes
    this.#newBytes = 0
    this.#takenUpTo = upTo
    this.#takenAck = this.#acked
    return {
      frames,
      acked,
      onCommitted: () => {
        this.#committing = new Map()
        this.#committingBytes = 0
        this.#savedSeq = Math.max(this.#savedSeq, upTo)
      },
    }
  }

  /** Everything that may be in the spool, for whoever clears it. */
  storedNumbers(): number[] {
    return [...this.#kept.keys(), ...this.#lostRanges.all.map(({ to }) => to), ...this.#changes.keys()]
  }

  // ---- keeping -----------------------------------------------------------------------------------------------------

  #keep(seq: number, metadata: FrameMetadata, bytes: number): void {
    const droppable = metadata.as === 'may' || metadata.as === 'part'
    const artifact = metadata.as === 'part' ? this.#artifactOf(metadata) : undefined
    artifact?.parts.add(seq)
    if (metadata.as === 'part' && metadata.final) this.#artifacts.delete(metadata.artifact)
    if (metadata.as === 'end') this.#completion = seq
    if (droppable) {
      this.#droppable.push(seq)
      this.#droppables += 1
    }
    this.#bytes += bytes
    this.#kept.set(seq, { bytes, droppable, artifact })
  }

  /** Part 0 begins another artifact, of whatever name. */
  #artifactOf({ artifact: name, part }: { readonly artifact: string; readonly part: number }): ArtifactParts {
    const known = part === 0 ? undefined : this.#artifacts.get(name)
    if (known !== undefined) return known
    const begun: ArtifactParts = { parts: new Set(), isIncomplete: false }
    this.#artifacts.set(name, begun)
    return begun
  }

  #cacheText(seq: number, text: string, bytes: number): void {
    if (bytes > this.#cacheBytesMax) return
    this.#cache.set(seq, text)
    this.#cacheBytes += bytes
    for (const oldest of this.#cache.keys()) {
      if (this.#cacheBytes <= this.#cacheBytesMax) return
      this.#uncache(oldest)
    }
  }

  #uncache(seq: number): void {
    const text = this.#cache.get(seq)
    if (text === undefined) return
    this.#cache.delete(seq)
    this.#cacheBytes -= Buffer.byteLength(text)
  }

  /** Out of memory, and out of the spool with the next commit. */
  #release(seq: number): boolean {
    const kept = this.#kept.get(seq)
    if (kept === undefined) return false
    this.#kept.delete(seq)
    this.#bytes -= kept.bytes
    this.#uncache(seq)
    kept.artifact?.parts.delete(seq)
    if (kept.droppable) this.#droppables -= 1
    this.#erase(seq)
    return true
  }

  #erase(seq: number): void {
    if (seq > this.#takenUpTo) this.#changes.delete(seq)
    else this.#changes.set(seq, null)
  }

  // ---- losing ------------------------------------------------------------------------------------------------------

  #isFull(): boolean {
    return this.#kept.size > this.#framesMax || this.#bytes > this.#bytesMax
  }

  /** A quarter of the bound at once, or each frame beyond it would make a gap of its own. */
  #dropOldest(): void {
    const enough = Math.ceil(this.#droppables * LOST_AT_ONCE)
    const gone: number[] = []
    while (gone.length < enough) {
      const seq = this.#droppable[this.#droppableFrom++]
      if (seq === undefined) break
      for (const one of this.#inseparable(seq)) if (this.#release(one)) gone.push(one)
    }
    this.#compact()
    this.#lose(gone.sort((a, b) => a - b))
  }

  /** Those that are of no use without this one. */
  #inseparable(seq: number): readonly number[] {
    const artifact = this.#kept.get(seq)?.artifact
    if (artifact === undefined) return [seq]
    artifact.isIncomplete = true
    return [...artifact.parts]
  }

  /** @param seqs ascending, none of them kept */
  #lose(seqs: readonly number[]): void {
    const { widened, outdated } = this.#lostRanges.add(seqs)
    for (const to of outdated) this.#erase(to)
    for (const { from, to } of widened) this.#changes.set(to, { as: 'gap', from })
  }

  #forgetDroppables(): void {
    while ((this.#droppable[this.#droppableFrom] ?? Number.POSITIVE_INFINITY) <= this.#acked)
      this.#droppableFrom += 1
    this.#compact()
  }

  /** Looks at the rest only when at least as many were passed. */
  #compact(): void {
    if (this.#droppableFrom * 2 < this.#droppable.length) return
    this.#droppable = this.#droppable.slice(this.#droppableFrom)
    this.#droppableFrom = 0
  }
}
