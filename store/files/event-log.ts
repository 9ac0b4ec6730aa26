/**
 * Reads the events of a run: the valid part of the run's file, then the event buffer.
 *
 * Record and buffer are read in one turn of the event loop, before the file. Events that move meanwhile were already
 * read from the buffer, and the file up to the record never changes. So no event is missing and none occurs twice.
 */
import { rm, rmdir } from 'node:fs/promises'
import { dirname } from 'node:path'
import type { EventLogs } from '../../core/ports.ts'
import type { RunEvent } from '../../protocol/run.ts'
import { StoreClosed } from '../errors.ts'
import type { LmdbControlDatabase } from '../lmdb/control-database.ts'
import type { Put } from '../lmdb/encode-writes.ts'
import type { Chunk } from '../lmdb/event-buffer.ts'
import { openForReading } from './event-file.ts'
import { EventFlusher, type EventFlusherOptions } from './event-flusher.ts'
import { findOffsetAfter, parseEvent, parseEvents, readLines } from './lines.ts'
import { eventsFile } from './run-folder.ts'

export class EventLogsOnDisk implements EventLogs {
  readonly #runs: string
  readonly #database: LmdbControlDatabase
  readonly #flusher: EventFlusher
  #closed = false

  constructor(options: EventFlusherOptions) {
    this.#runs = options.runs
    this.#database = options.database
    this.#flusher = new EventFlusher(options)
  }

  nextIndex(runId: string): number {
    this.#requireOpen()
    return this.#database.eventBuffer.nextIndex(runId)
  }

  storedBytes(runId: string): number {
    this.#requireOpen()
    return this.#database.eventBuffer.storedBytes(runId)
  }

  async read(
    runId: string,
    query: { readonly after?: number; readonly limit?: number } = {},
  ): Promise<RunEvent[]> {
    const { after = -1, limit = Number.POSITIVE_INFINITY } = query
    if (limit <= 0) return []
    const found = await this.#read(runId, after, limit)
    if (!found.isFileShort) return found.events
    await this.#flusher.repair(runId)
    return (await this.#read(runId, after, limit)).events
  }

  async remove(runId: string): Promise<void> {
    const path = eventsFile(this.#runs, runId)
    this.#requireOpen()
    await this.#flusher.runExclusive(runId, async () => {
      // Repeated when events arrived during the removal.
      do await this.#database.commitPuts(this.#removalOf(runId))
      while (!this.#closed && this.#database.eventBuffer.keysOf(runId).length > 0)
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

  async #read(runId: string, after: number, limit: number): Promise<EventsFound> {
    const path = eventsFile(this.#runs, runId)
    this.#requireOpen()
    const { record, chunks } = this.#database.eventBuffer.read(runId, after, limit)
    const found = after + 1 < record.next ? await readFromFile(path, record.bytes, after, limit) : NO_EVENTS
    return {
      events: [...found.events, ...readFromBuffer(chunks, after)].slice(0, limit),
      isFileShort: found.isFileShort,
    }
  }

  #removalOf(runId: string): Put[] {
    return [
      ...this.#database.eventBuffer
        .keysOf(runId)
        .map((key) => ({ to: 'event-chunk' as const, key, bytes: null })),
      { to: 'event-file', key: runId, record: null, moved: 0 },
    ]
  }

  #requireOpen(): void {
    if (this.#closed) throw new StoreClosed('the store is closed')
  }
}

interface EventsFound {
  readonly events: RunEvent[]
  /** The file is shorter than its record says. */
  readonly isFileShort: boolean
}

const NO_EVENTS: EventsFound = { events: [], isFileShort: false }

async function readFromFile(path: string, bytes: number, after: number, limit: number): Promise<EventsFound> {
  const file = await openForReading(path)
  if (file === undefined) return { events: [], isFileShort: true }
  try {
    const { size } = await file.stat()
    const end = Math.min(size, bytes)
    const events: RunEvent[] = []
    const start = after < 0 ? 0 : await findOffsetAfter(file, after, end)
    for await (const { text } of readLines(file, start, end)) {
      const event = parseEvent(text)
      if (event === undefined || event.index <= after) continue
      if (events.push(event) >= limit) break
    }
    return { events, isFileShort: size < bytes }
  } finally {
    await file.close()
  }
}

function readFromBuffer(chunks: readonly Chunk[], after: number): RunEvent[] {
  const events = chunks.flatMap(({ bytes }) => parseEvents(Buffer.from(bytes).toString('utf8')))
  return events.filter(({ index }) => index > after)
}
