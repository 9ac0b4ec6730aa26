/** Chunks of JSON lines in a table, keyed by run and index of the first event. */
import { countLines } from '../event-order.ts'
import type { Table, TableRow } from './table.ts'
import type { Tables } from './tables.ts'

/** Sorts below every character of a run id, so that the chunks of two runs never mix. */
const SEPARATOR = '!'
const AFTER_SEPARATOR = '"'
const INDEX_DIGITS = 8
const NEWLINE = 10

export interface Chunk {
  readonly key: string
  readonly first: number
  readonly count: number
  readonly bytes: Uint8Array
  /** The bytes are as they are stored, and none of its events can be read. The count is a guess. */
  readonly isDamaged: boolean
}

export function chunkKey(runId: string, first: number): string {
  return runId + SEPARATOR + first.toString(16).padStart(INDEX_DIGITS, '0')
}

export const runOfChunk = (key: string): string => key.slice(0, key.indexOf(SEPARATOR))

export function firstOfChunk(key: string): number {
  return Number.parseInt(key.slice(-INDEX_DIGITS), 16)
}

/** Yields the chunks of a run that begin at these indexes, in order. */
export function* chunksOf(table: Table, runId: string, from = 0, until?: number): Generator<Chunk> {
  const end = until === undefined ? runId + AFTER_SEPARATOR : chunkKey(runId, until)
  for (const row of table.getRange({ start: chunkKey(runId, from), end })) yield toChunk(row)
}

export function toChunk({ key, value, stored }: TableRow): Chunk {
  const bytes = value ?? stored
  const isDamaged = value === undefined
  const count = isDamaged ? Math.max(1, countLines(bytes)) : countLines(bytes)
  return { key, first: firstOfChunk(key), count, bytes, isDamaged }
}

/** Yields the chunk that contains the event with this index, and all chunks of the run after it. */
export function* chunksFrom(table: Table, runId: string, index: number): Generator<Chunk> {
  for (const row of rowsFrom(table, runId, index)) yield toChunk(row)
}

/** Yields the last row of a run that begins at an index up to this one, and all rows of the run after it. */
export function rowsFrom(table: Table, runId: string, index: number): Iterable<TableRow> {
  const before = { start: chunkKey(runId, index), end: runId + SEPARATOR, reverse: true, limit: 1 }
  const [start = chunkKey(runId, index)] = table.getKeys(before)
  return table.getRange({ start, end: runId + AFTER_SEPARATOR })
}

export function rowsOf(table: Table, runId: string): Iterable<TableRow> {
  return table.getRange({ start: runId + SEPARATOR, end: runId + AFTER_SEPARATOR })
}

export function lastRowOf(table: Table, runId: string): TableRow | undefined {
  const [last] = table.getRange({
    start: runId + AFTER_SEPARATOR,
    end: runId + SEPARATOR,
    reverse: true,
    limit: 1,
  })
  return last
}

export function chunkKeysOf(table: Table, runId: string): string[] {
  return [...table.getKeys({ start: runId + SEPARATOR, end: runId + AFTER_SEPARATOR })]
}

/** Yields the lines of the events from this index on. */
export function* linesFrom({ first, bytes }: Chunk, index: number): Generator<Buffer> {
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  let at = 0
  for (let line = first; at < text.length; line++) {
    const end = text.indexOf(NEWLINE, at)
    if (line >= index) yield text.subarray(at, end)
    at = end + 1
  }
}

// ---- small logs ----------------------------------------------------------------------------------------------------

/** A log with more bytes goes to a file of its own. */
export const SMALL_LOG_BYTES_MAX = 32 * 1024
/** Logs whose end is remembered, empty ones too, so that the next chunk needs no reading. Others are read again. */
const LOGS_REMEMBERED_MAX = 4_096

export interface SmallLog {
  /** The index of the next event. */
  readonly next: number
  readonly bytes: number
}

const NO_LOG: SmallLog = { next: 0, bytes: 0 }

/**
 * Keeps the events of runs that have written little, in a table that no start reads.
 *
 * A log begins there, and stays as it was written while it is small; nothing else is stored about it. The chunk that
 * makes it too large goes to the event buffer, and the flusher brings the whole log to its file.
 */
export class SmallLogs {
  readonly #tables: Tables
  /** By run: the ends of logs that were written or asked for, those of long ago first. */
  readonly #remembered = new Map<string, SmallLog>()

  constructor(tables: Tables) {
    this.#tables = tables
  }

  /** Returns the end of a run's log, if it can be told without reading: the run has no file then. */
  remembered(runId: string): SmallLog | undefined {
    return this.#remembered.get(runId)
  }

  /** Only for a run about which nothing is stored. */
  begin(runId: string): void {
    this.#remember(runId, NO_LOG)
  }

  /** Only for runs that have no file. */
  endOf(runId: string): SmallLog {
    const known = this.#remembered.get(runId)
    if (known !== undefined) return known
    const end = this.#readEnd(runId)
    this.#remember(runId, end)
    return end
  }

  #readEnd(runId: string): SmallLog {
    let end = NO_LOG
    // Most runs that are asked for are new, and opening a range costs more than looking up a key.
    if (!this.#tables.smallLogs.doesExist(chunkKey(runId, 0))) return end
    for (const { first, count, bytes } of this.chunks(runId))
      end = { next: first + count, bytes: end.bytes + bytes.length }
    return end
  }

  chunks(runId: string): Generator<Chunk> {
    return chunksOf(this.#tables.smallLogs, runId)
  }

  keysOf(runId: string): string[] {
    return chunkKeysOf(this.#tables.smallLogs, runId)
  }

  /** Called when a chunk is on disk. */
  onChunk(runId: string, first: number, count: number, bytes: number): void {
    const end = first === 0 ? NO_LOG : this.#remembered.get(runId)
    // A reader may have counted the chunk already, between the commit and this call.
    if (end?.next === first) this.#remember(runId, { next: first + count, bytes: end.bytes + bytes })
  }

  /** Called when the chunks of a run have left the table. */
  forget(runId: string): void {
    this.#remembered.delete(runId)
  }

  #remember(runId: string, end: SmallLog): void {
    this.#remembered.delete(runId)
    this.#remembered.set(runId, end)
    if (this.#remembered.size <= LOGS_REMEMBERED_MAX) return
    // Many at a time, because each iteration of a map passes over the entries that were removed before.
    for (const oldest of this.#remembered.keys()) {
      if (this.#remembered.size <= LOGS_REMEMBERED_MAX / 2) return
      this.#remembered.delete(oldest)
    }
  }
}
