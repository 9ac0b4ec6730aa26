/**
 * The newest events of every run: in the database, until they are in the run's own file.
 *
 * They come with the commits that caused them, as chunks of JSON lines under the run and the index of the first. Of
 * what has left for the file there is one small record a run: how much of the file counts, and which index is next.
 * The chunks leave and the record moves on in one transaction, so one look at both always sees every event once.
 * In memory there is one small head for each run that has a tail, and nothing for those at rest.
 */
import type { Clock } from '../../core/ports.ts'
import { linesIn } from '../event-order.ts'
import type { ChunkPut, LogPut, Put } from './encode-writes.ts'
import type { Tables } from './tables.ts'

/** A tail of more is large: it need not become quiet before it leaves. */
export const TAIL_BYTES_LARGE = 256 * 1024
/** Below whatever a run id may hold, so no run's chunks lie between those of another. */
const SEPARATOR = '!'
const AFTER_SEPARATOR = '"'
const INDEX_DIGITS = 8

/** How much of a run's file is acknowledged, and the index behind it. */
export interface LogRecord {
  readonly bytes: number
  readonly next: number
}

export interface Chunk {
  readonly key: string
  readonly first: number
  readonly count: number
  readonly bytes: Uint8Array
}

export interface TailHead {
  next: number
  bytes: number
  /** When the oldest of its chunks came, and the newest (monotonic milliseconds). */
  since: number
  touched: number
  /** Moving it failed; not before this instant again. */
  notBefore: number
}

export interface Snapshot {
  readonly record: LogRecord
  /** In order, beginning where the record ends. */
  readonly chunks: readonly Chunk[]
}

const NOTHING: LogRecord = { bytes: 0, next: 0 }

export function tailKey(runId: string, first: number): string {
  return runId + SEPARATOR + first.toString(16).padStart(INDEX_DIGITS, '0')
}

export class Tail {
  /** Those that have waited longest first. */
  readonly heads = new Map<string, TailHead>()
  /** Those that became large since they last moved. */
  readonly large = new Set<string>()
  bytes = 0
  /** Chunks that ever came; tells how busy it is. */
  chunks = 0
  readonly #tables: Tables
  readonly #clock: Clock
  #onGrown: () => void = () => undefined

  constructor(tables: Tables, clock: Clock) {
    this.#tables = tables
    this.#clock = clock
    this.#find()
  }

  /** Called whenever chunks came. */
  onGrown(listener: () => void): void {
    this.#onGrown = listener
  }

  next(runId: string): number {
    return this.heads.get(runId)?.next ?? this.record(runId).next
  }

  record(runId: string): LogRecord {
    const text = this.#tables.log.get(runId)
    if (text === undefined) return NOTHING
    const [bytes, next] = text.split(' ')
    return { bytes: Number(bytes), next: Number(next) }
  }

  /**
   * Record and chunks as of one instant: in one turn of the loop all reads see the same state of the database. Chunks
   * that end at or before `after` are left out, and those that only come after `limit` more events.
   */
  snapshot(runId: string, after: number, limit: number): Snapshot {
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
  portion(runId: string, bytesMax: number): Snapshot {
    const record = this.record(runId)
    const chunks: Chunk[] = []
    let bytes = 0
    for (const chunk of this.#chunks(runId, record.next, this.heads.get(runId)?.next)) {
      chunks.push(chunk)
      bytes += chunk.bytes.length
      if (bytes >= bytesMax) break
    }
    return { record, chunks }
  }

  /** Keys of all that a run has in the tail. */
  keysOf(runId: string): string[] {
    return [...this.#tables.tail.getKeys({ start: runId + SEPARATOR, end: runId + AFTER_SEPARATOR })]
  }

  /** A transaction is on disk. */
  landed(puts: Iterable<Put>): void {
    const before = this.chunks
    const now = this.#clock.monotonic()
    for (const put of puts) {
      if (put.to === 'tail' && put.bytes !== null) this.#came(put, now)
      if (put.to === 'log') this.#left(put, now)
    }
    if (this.chunks !== before) this.#onGrown()
  }

  #came({ runId, first, count, bytes }: ChunkPut, now: number): void {
    const head = this.heads.get(runId)
    this.chunks++
    this.bytes += bytes.length
    if (head === undefined) {
      this.heads.set(runId, {
        next: first + count,
        bytes: bytes.length,
        since: now,
        touched: now,
        notBefore: 0,
      })
    } else {
      head.next = Math.max(head.next, first + count)
      head.bytes += bytes.length
      head.touched = now
    }
    if ((head?.bytes ?? bytes.length) > TAIL_BYTES_LARGE) this.large.add(runId)
  }

  #left({ key, record, moved }: LogPut, now: number): void {
    const head = this.heads.get(key)
    if (head === undefined) return
    const isEmpty = record === null || record.next >= head.next
    const bytes = isEmpty ? head.bytes : moved
    this.bytes -= bytes
    head.bytes -= bytes
    this.large.delete(key)
    this.heads.delete(key)
    if (isEmpty) return
    // What is left came while the rest moved, so it stands at the end again.
    head.since = now
    this.heads.set(key, head)
    if (head.bytes > TAIL_BYTES_LARGE) this.large.add(key)
  }

  /** To the end of the line, after a failure. */
  putOff(runId: string, ms: number): void {
    const head = this.heads.get(runId)
    if (head === undefined) return
    head.since = this.#clock.monotonic()
    head.notBefore = head.since + ms
    this.heads.delete(runId)
    this.heads.set(runId, head)
  }

  *#chunks(runId: string, from: number, until?: number): Generator<Chunk> {
    const end = until === undefined ? runId + AFTER_SEPARATOR : tailKey(runId, until)
    for (const { key, value } of this.#tables.tail.getRange({ start: tailKey(runId, from), end }))
      yield { key, first: firstOf(key), count: linesIn(value), bytes: value }
  }

  /** What the last life of the store left in the tail. */
  #find(): void {
    const now = this.#clock.monotonic()
    for (const { key, value } of this.#tables.tail.getRange({})) {
      const runId = key.slice(0, key.indexOf(SEPARATOR))
      const head = this.heads.get(runId) ?? { next: 0, bytes: 0, since: now, touched: now, notBefore: 0 }
      head.next = firstOf(key) + linesIn(value)
      head.bytes += value.length
      this.bytes += value.length
      this.heads.set(runId, head)
      if (head.bytes > TAIL_BYTES_LARGE) this.large.add(runId)
    }
  }
}

export const recordText = ({ bytes, next }: LogRecord): string => `${bytes} ${next}`

function firstOf(key: string): number {
  return Number.parseInt(key.slice(-INDEX_DIGITS), 16)
}
