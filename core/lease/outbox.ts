/**
 * Keeps a lease's numbered frames on the worker until the host has acknowledged them.
 *
 * Memory holds only numbers and sizes; the texts are on disk, the newest also in a small cache. Each number above the
 * acknowledged one is either kept or in a lost range. Above the limits the oldest droppable frames go, a quarter at a
 * time, and a part of an artifact goes with all of its parts. A frame is sent only once it is on disk, and the row of the
 * newest one stays until there is a newer one, so no number is used twice after a crash. A lost range may include frames
 * that the host already has: it skips these.
 */
import { WORKER_BUFFER_BYTES_MAX, WORKER_BUFFER_FRAMES_MAX } from '../../protocol/limits.ts'
import { type LostRange, LostRanges } from './lost-ranges.ts'

/** The facts about a frame that are known without reading it. */
export type FrameMetadata =
  /** `end`: the completion, the last frame of a lease. */
  | { readonly as: 'must' | 'may' | 'end' }
  | { readonly as: 'part'; readonly artifact: string; readonly part: number; readonly final: boolean }

/** A frame as stored under its number; a lost range is stored under its last number. */
export type StoredFrame =
  | (FrameMetadata & { readonly text: string })
  | { readonly as: 'gap'; readonly from: number; readonly damaged?: true }

/** The next item to send. */
export type Sendable =
  | { readonly is: 'frame'; readonly seq: number; readonly text: string }
  | { readonly is: 'gap'; readonly from: number; readonly seq: number; readonly damaged?: true }

export interface OutboxOptions {
  /** Reads the text of a frame from disk. */
  readonly read: (seq: number) => string
  readonly framesMax?: number
  readonly bytesMax?: number
  readonly cacheBytesMax?: number
}

/** The changes since the last call of `takeChanges`, to be written in one commit. */
export interface OutboxChanges {
  readonly frames: readonly (readonly [seq: number, frame: StoredFrame | null])[]
  /** The highest acknowledged frame; undefined when unchanged. */
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
  /** A part is lost, so all earlier and later parts are dropped too. */
  isIncomplete: boolean
}

export class Outbox {
  readonly #read: (seq: number) => string
  readonly #framesMax: number
  readonly #bytesMax: number
  readonly #cacheBytesMax: number
  readonly #kept = new Map<number, KeptFrame>()
  readonly #lostRanges = new LostRanges()
  /** Numbers of droppable frames, oldest first; some of them are already removed. */
  #droppable: number[] = []
  #droppableFrom = 0
  #droppables = 0
  /** Artifacts whose last part has not been added yet, by name. */
  readonly #artifacts = new Map<string, ArtifactParts>()
  #bytes = 0
  #lastSeq = 0
  #takenUpTo = 0
  #savedSeq = 0
  #acked = 0
  #takenAck = 0
  #completion: number | undefined
  /** The newest row, which the host has: it says what the next number is where the record of acknowledgements is damaged. */
  #newestRow: number | undefined
  #changes = new Map<number, StoredFrame | null>()
  /** Changes that were taken and are not on disk yet. */
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

  /**
   * Restores the outbox from the stored frames, in order, one frame at a time.
   * @param acked undefined: its record is damaged, and says no more than the first frame
   */
  restore(acked: number | undefined, frames: Iterable<readonly [seq: number, frame: StoredFrame]>): void {
    this.#restoreAcked(acked ?? 0)
    for (const [seq, frame] of frames) {
      if (acked === undefined && this.#lastSeq === 0) this.#restoreAcked(beforeFirst(seq, frame))
      if (seq === this.#acked) this.#newestRow = seq
      else if (seq < this.#acked) this.#changes.set(seq, null)
      else this.#restoreOne(seq, frame)
    }
    if (this.#lastSeq > this.#acked) this.#eraseNewestRow()
    this.#takenUpTo = this.#lastSeq
    this.#savedSeq = this.#lastSeq
  }

  #restoreAcked(acked: number): void {
    this.#acked = this.#takenAck = this.#lastSeq = acked
  }

  /** A missing number would block all frames after it, so it is reported as lost. */
  #restoreOne(seq: number, frame: StoredFrame): void {
    if (frame.as === 'gap' && frame.damaged === true) {
      this.#restoreDamaged(seq, frame)
      return
    }
    const range = { from: this.#lastSeq + 1, to: frame.as === 'gap' ? seq : seq - 1 }
    if (range.from <= range.to) this.#lostRanges.append(range)
    const isMissing = range.from < (frame.as === 'gap' ? frame.from : seq)
    if (isMissing) this.#changes.set(range.to, { as: 'gap', from: range.from })
    this.#lastSeq = seq
    if (frame.as !== 'gap') this.#keep(seq, frame, Buffer.byteLength(frame.text))
  }

  /** The range takes the place of the damaged row, and is sent when it is on disk. */
  #restoreDamaged(seq: number, gap: Extract<StoredFrame, { as: 'gap' }>): void {
    const from = this.#lastSeq + 1
    this.#lostRanges.append({ from, to: seq, damaged: true })
    this.#changes.set(seq, { ...gap, from })
    this.#lastSeq = seq
  }

  // ---- queries -----------------------------------------------------------------------------------------------------

  get lastSeq(): number {
    return this.#lastSeq
  }

  /** All frames up to this number are on disk. */
  get savedSeq(): number {
    return this.#savedSeq
  }

  get acked(): number {
    return this.#acked
  }

  /** The number of the completion, once it was added. */
  get completion(): number | undefined {
    return this.#completion
  }

  /** Bytes of frames that are not on disk yet. */
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

  /** Returns the next item above `after` that may be sent. */
  next(after: number): Sendable | undefined {
    const seq = Math.max(after, this.#acked) + 1
    if (seq > this.#savedSeq) return undefined
    if (this.#kept.has(seq)) return { is: 'frame', seq, text: this.#textOf(seq) }
    const gap = this.#lostRanges.find(seq)
    if (gap === undefined) throw new Error(`frame ${seq} is neither kept nor lost`)
    if (this.#isUnsaved(gap)) return undefined
    const { to, damaged } = gap
    const from = Math.max(gap.from, this.#acked + 1)
    return { is: 'gap', from, seq: to, ...(damaged === undefined ? {} : { damaged }) }
  }

  /** Whether the current extent of this range is not on disk yet. */
  #isUnsaved({ to }: LostRange): boolean {
    return (this.#changes.get(to) ?? this.#committing.get(to))?.as === 'gap'
  }

  // ---- adding and acknowledging ------------------------------------------------------------------------------------

  /** Adds a frame and returns its number; undefined after the completion, which is the last frame. */
  append(metadata: FrameMetadata, textOf: (seq: number) => string): number | undefined {
    if (this.#completion !== undefined) return undefined
    this.#eraseNewestRow()
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

  /** Records that the host has all frames up to `seq`. Returns whether that is new. */
  acknowledge(seq: number): boolean {
    if (seq <= this.#acked) return false
    for (let acked = this.#acked + 1; acked <= Math.min(seq, this.#lastSeq); acked++) this.#release(acked)
    // The host has more frames than this disk. Continue numbering after the host's number; the completion must be
    // sent again.
    if (seq > this.#lastSeq) {
      this.#eraseNewestRow()
      this.#completion = undefined
      this.#lastSeq = seq
      this.#savedSeq = seq
      this.#takenUpTo = seq
    }
    this.#acked = seq
    for (const to of this.#lostRanges.removeUpTo(seq)) this.#erase(to)
    this.#keepNewestRow()
    this.#forgetDroppables()
    return true
  }

  /** Returns the changes to write; undefined when there are none. Call it again only after `onCommitted`. */
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

  /** Returns the numbers of all entries that may be stored, so that the caller can delete them. */
  storedNumbers(): number[] {
    const lost = this.#lostRanges.all.map(({ to }) => to)
    return [...this.#kept.keys(), ...lost, ...this.#changes.keys()].concat(this.#newestRow ?? [])
  }

  /** Yields the texts of the unacknowledged frames that are never dropped. */
  *undroppableTexts(): Iterable<string> {
    for (const [seq, { droppable }] of this.#kept) {
      const unsaved = this.#changes.get(seq) ?? this.#committing.get(seq) ?? undefined
      if (!droppable) yield unsaved !== undefined && 'text' in unsaved ? unsaved.text : this.#textOf(seq)
    }
  }

  #textOf(seq: number): string {
    return this.#cache.get(seq) ?? this.#read(seq)
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

  /** Part 0 starts a new artifact, even under a known name. */
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

  /** Removes a frame from memory now, and from disk with the next commit. */
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

  #keepNewestRow(): void {
    if (this.#acked !== this.#lastSeq || this.#changes.get(this.#acked) !== null) return
    this.#changes.delete(this.#acked)
    this.#newestRow = this.#acked
  }

  #eraseNewestRow(): void {
    if (this.#newestRow !== undefined) this.#changes.set(this.#newestRow, null)
    this.#newestRow = undefined
  }

  // ---- dropping ----------------------------------------------------------------------------------------------------

  #isFull(): boolean {
    return this.#kept.size > this.#framesMax || this.#bytes > this.#bytesMax
  }

  /** Drops a quarter of the limit at once; otherwise each further frame would create its own lost range. */
  #dropOldest(): void {
    const enough = Math.ceil(this.#droppables * LOST_AT_ONCE)
    const gone: number[] = []
    while (gone.length < enough) {
      const seq = this.#droppable[this.#droppableFrom++]
      if (seq === undefined) break
      for (const dropped of this.#inseparable(seq)) if (this.#release(dropped)) gone.push(dropped)
    }
    this.#compact()
    this.#lose(gone.sort((a, b) => a - b))
  }

  /** Returns the frames that are useless without this one. */
  #inseparable(seq: number): readonly number[] {
    const artifact = this.#kept.get(seq)?.artifact
    if (artifact === undefined) return [seq]
    artifact.isIncomplete = true
    return [...artifact.parts]
  }

  /** @param seqs ascending numbers of frames that are not kept */
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

  /** Copies the array only when at least half of it has been passed. */
  #compact(): void {
    if (this.#droppableFrom * 2 < this.#droppable.length) return
    this.#droppable = this.#droppable.slice(this.#droppableFrom)
    this.#droppableFrom = 0
  }
}

/** Every number above the acknowledged one is stored. Where a damaged range began, nobody knows. */
const beforeFirst = (seq: number, frame: StoredFrame): number =>
  frame.as !== 'gap' ? seq - 1 : frame.damaged === true ? 0 : frame.from - 1
