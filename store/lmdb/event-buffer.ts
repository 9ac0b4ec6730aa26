/**
 * The newest events of every run: in the database, until they are in the run's own file.
 *
 * They come with the commits that caused them, as chunks of JSON lines under the run and the index of the first. Of
 * what has left for the file there is one small record a run: how much of the file counts, and which index is next.
 * The chunks leave and the record moves on in one transaction, so one look at both always sees every event once.
 * In memory there is one small head for each run that has a tail, and nothing for those at rest.
 */
import type { Clock } from '../../core/ports.ts'
import { countLines } from '../event-order.ts'
import type { ChunkPut, LogPut, Put } from './encode-writes.ts'
import type { Tables } from './tables.ts'

/** A tail of more is large: it need not become quiet before it leaves. */
export const LARGE_RUN_BYTES = 256 * 1024
/** Below whatever a run id may hold, so no run's chunks lie between those of another. */
const SEPARATOR = '!'
const AFTER_SEPARATOR = '"'
const INDEX_DIGITS = 8

/** How much of a run's file is acknowledged, and the index behind it. */
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
  /** When the oldest of its chunks came, and the newest (monotonic milliseconds). */
  since: number
  touched: number
  /** Moving it failed; not before this instant again. */
  notBefore: number
}

export interface BufferedEvents {
  readonly record: EventFileRecord
  /** In order, beginning where the record ends. */
  readonly chunks: readonly Chunk[]
}

const EMPTY_RECORD: EventFileRecord = { bytes: 0, next: 0 }

export function chunkKey(runId: string, first: number): string {
  return runId + SEPARATOR + first.toString(16).padStart(INDEX_DIGITS, '0')
}

export class EventBuffer {
  /** Those that have waited longest first. */
  readonly runs = new Map<string, BufferedRun>()
  /** Those that became large since they last moved. */
  readonly largeRuns = new Set<string>()
  bytes = 0
  /** Chunks that ever came; tells how busy it is. */
  chunksEver = 0
  readonly #tables: Tables
  readonly #clock: Clock
  #onChunks: () => void = () => undefined

  constructor(tables: Tables, clock: Clock) {
    this.#tables = tables
    this.#clock = clock
    this.#restore()
  }

  /** Called whenever chunks came. */
  onChunks(listener: () => void): void {
    this.#onChunks = listener
  }

  nextIndex(runId: string): number {
    return this.runs.get(runId)?.next ?? this.record(runId).next
  }

  record(runId: string): EventFileRecord {
    const text = this.#tables.eventFiles.get(runId)
    if (text === undefined) return EMPTY_RECORD
    const [bytes, next] = text.split(' ')
    return { bytes: Number(bytes), next: Number(next) }
  }

  /**
   * Record and chunks as of one instant: in one turn of the loop all reads see the same state of the database. Chunks
   * that end at or before `after` are left out, and those that only come after `limit` more events.
   */
  read(runId: string, after: number, limit: number): BufferedEvents {
    const record = this.record(runId)
    const chunks: Chunk[] = []
    let count = 0
    for (const chunk of this.#chunks(runId, record.next)) {
      if (count >= limit) break
      if (chunk.first + chunk.count <= after + 1) continue
      count += chunk.count - Math.max(0, after + 1 - chunk.first)
      chunks.push(chunk)
    }
    return { record, chunks }
  }

  /** What is to move next: whole chunks of about `bytesMax` bytes, only what has landed. */
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

  /** Keys of all that a run has in the tail. */
  keysOf(runId: string): string[] {
    return [...this.#tables.eventChunks.getKeys({ start: runId + SEPARATOR, end: runId + AFTER_SEPARATOR })]
  }

  /** A transaction is on disk. */
  onCommitted(puts: Iterable<Put>): void {
    const before = this.chunksEver
    const now = this.#clock.monotonic()
    for (const put of puts) {
      if (put.to === 'tail' && put.bytes !== null) this.#addChunk(put, now)
      if (put.to === 'log') this.#removeMoved(put, now)
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
    // What is left came while the rest moved, so it stands at the end again.
    run.since = now
    this.runs.set(key, run)
    if (run.bytes > LARGE_RUN_BYTES) this.largeRuns.add(key)
  }

  /** To the end of the line, after a failure. */
  postpone(runId: string, ms: number): void {
    const run = this.runs.get(runId)
    if (run === undefined) return
    run.since = this.#clock.monotonic()
    run.notBefore = run.since + ms
    this.runs.delete(runId)
    this.runs.set(runId, run)
  }

  *#chunks(runId: string, from: number, until?: number): Generator<Chunk> {
    const end = until === undefined ? runId + AFTER_SEPARATOR : chunkKey(runId, until)
    for (const { key, value } of this.#tables.eventChunks.getRange({ start: chunkKey(runId, from), end }))
      yield { key, first: firstOf(key), count: countLines(value), bytes: value }
  }

  /** What the last life of the store left in the tail. */
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
