/**
 * Holds the newest events of large logs in the database until they are in the run's own file.
 *
 * Events arrive with the commits that caused them, as chunks of JSON lines. For the events in the file there is a small
 * record per run: how many bytes are valid, and the next index. Chunks leave and the record advances in one
 * transaction, so a read of both always sees every event once. Memory holds a small entry for each run with buffered
 * events. A log that has neither a record nor buffered events is a small log.
 */
import { DamagedRecord, readOr } from '../../core/damage.ts'
import type { Clock } from '../../core/ports/clock.ts'
import { lossLine } from '../event-order.ts'
import type { ChunkPut, LogPut, Put } from './encode-writes.ts'
import {
  type Chunk,
  chunkKeysOf,
  chunksFrom,
  chunksOf,
  linesFrom,
  runOfChunk,
  type SmallLog,
  SmallLogs,
  toChunk,
} from './event-chunks.ts'
import { FileSums } from './file-sums.ts'
import type { Tables } from './tables.ts'

/** A run with more buffered bytes is flushed without waiting until it is quiet. */
export const LARGE_RUN_BYTES = 256 * 1024

/** The valid bytes of a run's file, and the index of the next event. */
export interface EventFileRecord {
  readonly bytes: number
  readonly next: number
}

export interface BufferedRun {
  next: number
  bytes: number
  /** When the oldest and the newest chunk arrived (monotonic milliseconds). */
  since: number
  touched: number
  /** After a failed flush, the run is not tried again before this instant. */
  notBefore: number
}

/** Whole chunks that go to the file of a run next. */
export interface FilePortion {
  readonly record: EventFileRecord
  /** The chunks of a small log that has become too large; empty once the run has a file. */
  readonly small: readonly Chunk[]
  /** Buffered chunks, in order; the first follows the small log, or the record. */
  readonly buffered: readonly Chunk[]
}

/** Ends of the sentence that stands in the place of lost events. */
export const DAMAGED = 'damaged'
export const MISSING = 'missing'
/** Rows that a slow walk reads at once. */
const PAGE_ROWS = 100
const EMPTY_RECORD: EventFileRecord = { bytes: 0, next: 0 }

export class EventBuffer {
  /** Runs with buffered events, the longest waiting first. */
  readonly runs = new Map<string, BufferedRun>()
  /** Runs that became large since their last flush. */
  readonly largeRuns = new Set<string>()
  readonly small: SmallLogs
  readonly sums: FileSums
  bytes = 0
  /** Total number of chunks so far, those of small logs included, from which the flusher computes the load. */
  chunksEver = 0
  readonly #tables: Tables
  readonly #clock: Clock
  #onChunks: () => void = () => undefined

  constructor(tables: Tables, clock: Clock) {
    this.#tables = tables
    this.#clock = clock
    this.small = new SmallLogs(tables)
    this.sums = new FileSums(tables)
    this.#restore()
  }

  /** Sets the function to call whenever chunks were committed, and some wait for their file. */
  onChunks(listener: () => void): void {
    this.#onChunks = listener
  }

  /** Yields the runs that have a file, in pages, so that no slow caller holds a transaction open. */
  *filedRuns(): Generator<string> {
    for (let after = ''; ; ) {
      const page = [...this.#tables.eventFiles.getKeys(pageAfter(after))]
      yield* page
      if (page.length < PAGE_ROWS) return
      after = page.at(-1) ?? ''
    }
  }

  /** Reads all small logs, so that damaged ones are noted. Yields after each page. */
  *checkSmallLogs(): Generator<void> {
    for (let after = ''; ; ) {
      const page = [...this.#tables.smallLogs.getRange(pageAfter(after))]
      yield
      if (page.length < PAGE_ROWS) return
      after = page.at(-1)?.key ?? ''
    }
  }

  nextIndex(runId: string): number {
    return (this.runs.get(runId) ?? this.#smallLogOf(runId) ?? this.record(runId)).next
  }

  /** Returns the bytes of all events of a run, those in its file included. */
  storedBytes(runId: string): number {
    return (this.#smallLogOf(runId) ?? this.record(runId)).bytes + (this.runs.get(runId)?.bytes ?? 0)
  }

  /** Returns the bytes of a run's small log; undefined when the run has a file, or events that wait for it. */
  smallLogBytes(runId: string): number | undefined {
    return this.runs.has(runId) ? undefined : this.#smallLogOf(runId)?.bytes
  }

  /** Returns the end of a run's small log, which may be empty; undefined when the run has a file. */
  #smallLogOf(runId: string): SmallLog | undefined {
    const known = this.small.remembered(runId)
    if (known !== undefined) return known
    return this.record(runId) === EMPTY_RECORD ? this.small.endOf(runId) : undefined
  }

  /** Throws DamagedRecord when it is damaged and no checksum of the file says the same. */
  record(runId: string): EventFileRecord {
    const text = readOr(
      () => this.#tables.eventFiles.getText(runId),
      (damage) => {
        // The checksums of the file name the same end.
        const last = this.sums.last(runId)
        if (last === undefined) throw new DamagedRecord(damage)
        return recordText({ bytes: last.offset + last.bytes, next: last.next })
      },
    )
    return text === undefined ? EMPTY_RECORD : parseRecord(text)
  }

  /**
   * Returns the JSON of events from this index on, about `bytesMax` bytes but at least one event, if there is any, and
   * the index after them. One line stands in the place of events that are damaged or missing.
   */
  lines(runId: string, from: number, bytesMax: number) {
    const lines: string[] = []
    let [next, bytes] = [from, 0]
    const skipTo = (index: number, why: string) => {
      if (index <= next) return
      lines.push(lossLine({ runId, from: next, to: index - 1 }, this.#clock.now(), why))
      next = index
    }
    for (const table of [this.#tables.smallLogs, this.#tables.eventChunks]) {
      for (const chunk of chunksFrom(table, runId, from)) {
        skipTo(chunk.first, MISSING)
        if (chunk.isDamaged) skipTo(chunk.first + chunk.count, DAMAGED)
        for (const line of chunk.isDamaged ? [] : linesFrom(chunk, next)) {
          lines.push(line.toString('utf8'))
          next++
          bytes += line.length
          if (bytes >= bytesMax) return { lines, next }
        }
      }
    }
    skipTo(this.nextIndex(runId), MISSING)
    return { lines, next }
  }

  /** Returns whole committed chunks of about `bytesMax` bytes, after the small log, to flush next. */
  nextPortion(runId: string, bytesMax: number): FilePortion {
    const record = this.record(runId)
    const small = record === EMPTY_RECORD ? [...this.small.chunks(runId)] : []
    const buffered: Chunk[] = []
    let bytes = 0
    for (const chunk of chunksOf(this.#tables.eventChunks, runId, record.next, this.runs.get(runId)?.next)) {
      buffered.push(chunk)
      bytes += chunk.bytes.length
      if (bytes >= bytesMax) break
    }
    return { record, small, buffered }
  }

  /** Returns the keys of all buffered chunks of a run. */
  keysOf(runId: string): string[] {
    return chunkKeysOf(this.#tables.eventChunks, runId)
  }

  /** Called when a transaction is on disk. */
  onCommitted(puts: Iterable<Put>, smallLogChunks: ReadonlySet<Put>): void {
    const before = this.chunksEver
    const now = this.#clock.monotonic()
    for (const put of puts) {
      if (put.to === 'event-chunk' && put.bytes !== null) {
        this.chunksEver++
        if (smallLogChunks.has(put)) this.small.onChunk(put.runId, put.first, put.count, put.bytes.length)
        else this.#addChunk(put, now)
      }
      if (put.to === 'event-file') {
        this.small.forget(put.key)
        this.#removeMoved(put, now)
      }
    }
    if (this.chunksEver !== before && this.runs.size > 0) this.#onChunks()
  }

  #addChunk({ runId, first, count, bytes }: ChunkPut, now: number): void {
    const run = this.runs.get(runId)
    this.bytes += bytes.length
    if (run === undefined) {
      this.runs.set(runId, {
        next: first + count,
        bytes: bytes.length,
        since: now,
        touched: now,
        notBefore: 0,
      })
    } else {
      run.next = Math.max(run.next, first + count)
      run.bytes += bytes.length
      run.touched = now
    }
    if ((run?.bytes ?? bytes.length) > LARGE_RUN_BYTES) this.largeRuns.add(runId)
  }

  #removeMoved({ key, record, moved }: LogPut, now: number): void {
    const run = this.runs.get(key)
    if (run === undefined) return
    const isEmpty = record === null || record.next >= run.next
    const bytes = isEmpty ? run.bytes : moved
    this.bytes -= bytes
    run.bytes -= bytes
    this.largeRuns.delete(key)
    this.runs.delete(key)
    if (isEmpty) return
    // The remaining chunks arrived during the flush, so the run goes to the end of the order.
    run.since = now
    this.runs.set(key, run)
    if (run.bytes > LARGE_RUN_BYTES) this.largeRuns.add(key)
  }

  /** Moves a run to the end of the order after a failure. */
  postpone(runId: string, ms: number): void {
    const run = this.runs.get(runId)
    if (run === undefined) return
    run.since = this.#clock.monotonic()
    run.notBefore = run.since + ms
    this.runs.delete(runId)
    this.runs.set(runId, run)
  }

  /** Restores the entries of runs with events from the previous process. */
  #restore(): void {
    const now = this.#clock.monotonic()
    for (const row of this.#tables.eventChunks.getRange()) {
      const { first, count, bytes } = toChunk(row)
      const runId = runOfChunk(row.key)
      const run = this.runs.get(runId) ?? { next: 0, bytes: 0, since: now, touched: now, notBefore: 0 }
      run.next = first + count
      run.bytes += bytes.length
      this.bytes += bytes.length
      this.runs.set(runId, run)
      if (run.bytes > LARGE_RUN_BYTES) this.largeRuns.add(runId)
    }
  }
}

const pageAfter = (key: string) =>
  key === '' ? { limit: PAGE_ROWS } : { start: key, exclusiveStart: true, limit: PAGE_ROWS }

export const recordText = ({ bytes, next }: EventFileRecord): string => `${bytes} ${next}`

export function parseRecord(text: string): EventFileRecord {
  const [bytes, next] = text.split(' ')
  return { bytes: Number(bytes), next: Number(next) }
}
