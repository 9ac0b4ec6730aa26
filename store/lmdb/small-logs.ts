/**
 * Keeps the events of runs that have written little, in a table that no start reads.
 *
 * A log begins there, and stays as it was written while it is small; nothing else is stored about it. The chunk that
 * makes it too large goes to the event buffer, and the flusher brings the whole log to its file.
 */
import { type Chunk, chunkKey, chunkKeysOf, chunksOf } from './event-chunks.ts'
import type { Tables } from './tables.ts'

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
