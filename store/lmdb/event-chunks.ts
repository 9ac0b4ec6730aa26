/** Chunks of JSON lines in a table, keyed by run and index of the first event. */
import { countLines } from '../event-order.ts'
import type { Table, TableRow } from './table.ts'

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
