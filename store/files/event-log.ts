/**
 * Reads the events of a run: its small log or the valid part of its file, and then the event buffer.
 *
 * A log is read in slices. Each slice begins at an index and asks the record anew whether that event is in the file or
 * in the database, so no event is missing and none occurs twice while events move. All readers share one queue of slices,
 * one in a turn of the event loop: however many read, the loop is never blocked for longer than a slice.
 */
import { rm, rmdir } from 'node:fs/promises'
import { dirname } from 'node:path'
import type { EventBatches, EventLogs, EventQuery } from '../../core/ports.ts'
import { TurnQueue } from '../../core/turn-queue.ts'
import { StoreClosed } from '../errors.ts'
import type { LmdbControlDatabase } from '../lmdb/control-database.ts'
import type { Put } from '../lmdb/encode-writes.ts'
import type { EventFileRecord } from '../lmdb/event-buffer.ts'
import { openForReading } from './event-file.ts'
import { EventFlusher, type EventFlusherOptions } from './event-flusher.ts'
import { findOffsetAfter, parseEvent, readLineSlice } from './lines.ts'
import { eventsFile } from './run-folder.ts'

const SLICE_BYTES = 256 * 1024

export class EventLogsOnDisk implements EventLogs {
  readonly #runs: string
  readonly #database: LmdbControlDatabase
  readonly #flusher: EventFlusher
  readonly #slices = new TurnQueue(setImmediate)
  #closed = false

  constructor(options: EventFlusherOptions) {
    this.#runs = options.runs
    this.#database = options.database
    this.#flusher = new EventFlusher(options)
  }

  begin(runId: string): void {
    this.#database.begin(runId)
  }

  nextIndex(runId: string): number {
    this.#requireOpen()
    return this.#database.eventBuffer.nextIndex(runId)
  }

  storedBytes(runId: string): number {
    this.#requireOpen()
    return this.#database.eventBuffer.storedBytes(runId)
  }

  async *read(
    runId: string,
    { after = -1, before = Number.POSITIVE_INFINITY, limit = Number.POSITIVE_INFINITY }: EventQuery = {},
  ): EventBatches {
    const reading: Reading = { runId, path: eventsFile(this.#runs, runId), next: after + 1 }
    this.#requireOpen()
    const end = Math.min(before, this.nextIndex(runId))
    let left = limit
    while (reading.next < end && left > 0) {
      const lines = await this.#slices.run(() => this.#readSlice(reading, end))
      if (lines.length > 0) yield lines.slice(0, left)
      left -= lines.length
    }
  }

  async remove(runId: string): Promise<void> {
    const path = eventsFile(this.#runs, runId)
    this.#requireOpen()
    await this.#flusher.runExclusive(runId, async () => {
      // Repeated when events arrived during the removal.
      do await this.#database.commitPuts(this.#removalOf(runId))
      while (!this.#closed && this.#removalOf(runId).length > 1)
      await rm(path, { force: true })
      // The artifacts may still be in the folder; the last removal removes the folder.
      await rmdir(dirname(path)).catch(() => undefined)
    })
  }

  /** Refuses new work and stops the flusher. */
  stop(): void {
    this.#closed = true
    this.#flusher.stop()
  }

  /** Resolves when all work is done; the database must have answered all commits before. */
  settled(): Promise<void> {
    this.stop()
    return this.#flusher.settled()
  }

  /** Reads the next slice, and moves `reading` behind it. */
  async #readSlice(reading: Reading, end: number): Promise<readonly string[]> {
    const { runId, next } = reading
    this.#requireOpen()
    const { eventBuffer } = this.#database
    const record = eventBuffer.record(runId)
    if (next < record.next) return this.#readFromFile(reading, record, end)
    const lines = eventBuffer.lines(runId, next, SLICE_BYTES).slice(0, end - next)
    // No line is left when the run was removed meanwhile.
    reading.next = lines.length === 0 ? end : next + lines.length
    return lines
  }

  async #readFromFile(reading: Reading, record: EventFileRecord, end: number): Promise<readonly string[]> {
    const found = await readFileSlice(reading, record, end)
    if (found.isFileShort && reading.isRepaired !== true) {
      reading.isRepaired = true
      await this.#flusher.repair(reading.runId)
      return []
    }
    reading.next = found.next
    reading.offset = found.offset
    return found.lines
  }

  #removalOf(runId: string): Put[] {
    const { eventBuffer } = this.#database
    return [
      ...eventBuffer.small.keysOf(runId).map((key) => ({ to: 'small-log' as const, key, bytes: null })),
      ...eventBuffer.keysOf(runId).map((key) => ({ to: 'event-chunk' as const, key, bytes: null })),
      { to: 'event-file', key: runId, record: null, moved: 0 },
    ]
  }

  #requireOpen(): void {
    if (this.#closed) throw new StoreClosed('the store is closed')
  }
}

/** How far a reader has read. */
interface Reading {
  readonly runId: string
  readonly path: string
  /** The index of the next event. */
  next: number
  /** The offset in the file from which to read; undefined while it is unknown. */
  offset?: number
  /** The file was repaired for this reader. */
  isRepaired?: boolean
}

interface FileSlice {
  readonly lines: readonly string[]
  readonly next: number
  readonly offset: number
  /** The file is shorter than its record says. */
  readonly isFileShort: boolean
}

/** Opens the file for each slice, so that a slow reader holds no descriptor. */
async function readFileSlice(
  { path, next, offset }: Reading,
  record: EventFileRecord,
  end: number,
): Promise<FileSlice> {
  const file = await openForReading(path)
  if (file === undefined) return { lines: [], next: record.next, offset: 0, isFileShort: true }
  try {
    const { size } = await file.stat()
    const bytes = Math.min(size, record.bytes)
    const isKnown = offset !== undefined && offset <= bytes
    const start = isKnown ? offset : next === 0 ? 0 : await findOffsetAfter(file, next - 1, bytes)
    const slice = await readLineSlice(file, start, bytes)
    const found = eventLines(slice.lines, next, end)
    const after = slice.end >= bytes ? record.next : found.next
    return { lines: found.lines, next: after, offset: slice.end, isFileShort: size < record.bytes }
  } finally {
    await file.close()
  }
}

/** Returns the lines that are events from index `next` up to `end`, and the index after the last of them. */
function eventLines(lines: readonly string[], next: number, end: number) {
  const found: string[] = []
  let after = next
  for (const line of lines) {
    const index = parseEvent(line)?.index
    if (index === undefined || index < after) continue
    after = index + 1
    if (index < end) found.push(line)
  }
  return { lines: found, next: after }
}
