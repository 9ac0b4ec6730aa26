/**
 * Holds the newest events of every run in the database until they are in the run's own file.
 *
 * Events arrive with the commits that caused them, as chunks of JSON lines, keyed by run and first index. For the
 * events in the file there is a small record per run: how many bytes are valid, and the next index. Chunks leave and
 * the record advances in one transaction, so a read of both always sees every event once. Memory holds a small entry
 * for each run with buffered events.
 */
import type { Clock } from '../../core/ports.ts'
import { countLines } from '../event-order.ts'
import type { ChunkPut, LogPut, Put } from './encode-writes.ts'
import type { Tables } from './tables.ts'

/** A run with more buffered bytes is flushed without waiting until it is quiet. */
export const LARGE_RUN_BYTES = 256 * 1024
/** Sorts below every character of a run id, so that the chunks of two runs never mix. */
const SEPARATOR = '!'
const AFTER_SEPARATOR = '"'
const INDEX_DIGITS = 8
const NEWLINE = 10

/** The valid bytes of a run's file, and the index of the next event. */
export interface EventFileRecord {
  readonly bytes: number
  readonly next: number
}

export interface Chunk {
  readonly key: string
  readonly first: number
  readonly count: number
  readonly bytes: Uint8Array
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

export interface BufferedEvents {
  readonly record: EventFileRecord
  /** In order, starting at the record's next index. */
  readonly chunks: readonly Chunk[]
}

const EMPTY_RECORD: EventFileRecord = { bytes: 0, next: 0 }

export function chunkKey(runId: string, first: number): string {
  return runId + SEPARATOR + first.toString(16).padStart(INDEX_DIGITS, '0')
}

export class EventBuffer {
  /** Runs with buffered events, the longest waiting first. */
  readonly runs = new Map<string, BufferedRun>()
  /** Runs that became large since their last flush. */
  readonly largeRuns = new Set<string>()
  bytes = 0
  /** Total number of chunks so far, from which the flusher computes the load. */
  chunksEver = 0
  readonly #tables: Tables
  readonly #clock: Clock
  #onChunks: () => void = () => undefined

  constructor(tables: Tables, clock: Clock) {
    this.#tables = tables
    this.#clock = clock
    this.#restore()
  }

  /** Sets the function to call whenever chunks were committed. */
  onChunks(listener: () => void): void {
    this.#onChunks = listener
  }

  nextIndex(runId: string): number {
    return this.runs.get(runId)?.next ?? this.record(runId).next
  }

  /** Returns the bytes of all events of a run, those in its file included. */
  storedBytes(runId: string): number {
    return this.record(runId).bytes + (this.runs.get(runId)?.bytes ?? 0)
  }

  record(runId: string): EventFileRecord {
    const text = this.#tables.eventFiles.get(runId)
    if (text === undefined) return EMPTY_RECORD
    const [bytes, next] = text.split(' ')
    return { bytes: Number(bytes), next: Number(next) }
  }

  /** Returns the JSON of events from this index on, about `bytesMax` bytes but at least one event, if there is any. */
  lines(runId: string, from: number, bytesMax: number): string[] {
    const lines: string[] = []
    let bytes = 0
    for (const chunk of this.#chunks(runId, this.#startOfChunk(runId, from))) {
      for (const line of linesFrom(chunk, from)) {
        lines.push(line.toString('utf8'))
        bytes += line.length
        if (bytes >= bytesMax) return lines
      }
    }
    return lines
  }

  /** Returns whole committed chunks of about `bytesMax` bytes to flush next. */
  nextPortion(runId: string, bytesMax: number): BufferedEvents {
    const record = this.record(runId)
    const chunks: Chunk[] = []
    let bytes = 0
    for (const chunk of this.#chunks(runId, record.next, this.runs.get(runId)?.next)) {
      chunks.push(chunk)
      bytes += chunk.bytes.length
      if (bytes >= bytesMax) break
    }
    return { record, chunks }
  }

  /** Returns the keys of all chunks of a run. */
  keysOf(runId: string): string[] {
    return [...this.#tables.eventChunks.getKeys({ start: runId + SEPARATOR, end: runId + AFTER_SEPARATOR })]
  }

  /** Called when a transaction is on disk. */
  onCommitted(puts: Iterable<Put>): void {
    const before = this.chunksEver
    const now = this.#clock.monotonic()
    for (const put of puts) {
      if (put.to === 'event-chunk' && put.bytes !== null) this.#addChunk(put, now)
      if (put.to === 'event-file') this.#removeMoved(put, now)
    }
    if (this.chunksEver !== before) this.#onChunks()
  }

  #addChunk({ runId, first, count, bytes }: ChunkPut, now: number): void {
    const run = this.runs.get(runId)
    this.chunksEver++
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

  /** Returns the first index of the chunk that contains this index. */
  #startOfChunk(runId: string, index: number): number {
    const range = { start: chunkKey(runId, index), end: runId + SEPARATOR, reverse: true, limit: 1 }
    for (const key of this.#tables.eventChunks.getKeys(range)) return firstOf(key)
    return index
  }

  *#chunks(runId: string, from: number, until?: number): Generator<Chunk> {
    const end = until === undefined ? runId + AFTER_SEPARATOR : chunkKey(runId, until)
    for (const { key, value } of this.#tables.eventChunks.getRange({ start: chunkKey(runId, from), end }))
      yield { key, first: firstOf(key), count: countLines(value), bytes: value }
  }

  /** Restores the entries of runs with events from the previous process. */
  #restore(): void {
    const now = this.#clock.monotonic()
    for (const { key, value } of this.#tables.eventChunks.getRange({})) {
      const runId = key.slice(0, key.indexOf(SEPARATOR))
      const run = this.runs.get(runId) ?? { next: 0, bytes: 0, since: now, touched: now, notBefore: 0 }
      run.next = firstOf(key) + countLines(value)
      run.bytes += value.length
      this.bytes += value.length
      this.runs.set(runId, run)
      if (run.bytes > LARGE_RUN_BYTES) this.largeRuns.add(runId)
    }
  }
}

export const recordText = ({ bytes, next }: EventFileRecord): string => `${bytes} ${next}`

function firstOf(key: string): number {
  return Number.parseInt(key.slice(-INDEX_DIGITS), 16)
}

function* linesFrom({ first, bytes }: Chunk, index: number): Generator<Buffer> {
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  let at = 0
  for (let line = first; at < text.length; line++) {
    const end = text.indexOf(NEWLINE, at)
    if (line >= index) yield text.subarray(at, end)
    at = end + 1
  }
}
