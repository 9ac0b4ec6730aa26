/**
 * Reads the events of a run: its small log or the valid part of its file, and then the event buffer.
 *
 * A log is read in slices. Each slice begins at an index and asks the record anew whether that event is in the file or
 * in the database, so no event is missing and none occurs twice while events move. All readers share one queue of slices,
 * one in a turn of the event loop: however many read, the loop is never blocked for longer than a slice.
 */
import { rm, rmdir } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { damageOfEvents, isDamagedRecord } from '../../core/damage.ts'
import type { Clock } from '../../core/ports/clock.ts'
import type { Log } from '../../core/ports/log.ts'
import type { EventBatches, EventLogs, EventQuery } from '../../core/ports/store.ts'
import { TurnQueue } from '../../core/turn-queue.ts'
import { messageOf } from '../../protocol/message-of.ts'
import { StoreClosed } from '../errors.ts'
import { type LostEvents, lossLine } from '../event-order.ts'
import type { LmdbControlDatabase } from '../lmdb/control-database.ts'
import type { Put } from '../lmdb/encode-writes.ts'
import type { EventFileRecord } from '../lmdb/event-buffer.ts'
import { namesIn } from './atomic.ts'
import { isSetAside } from './event-file.ts'
import { type FileLine, type NameLost, type Reading, readFileSlice } from './event-file-slices.ts'
import { EventFlusher, type EventFlusherOptions } from './event-flusher.ts'
import { eventsFile } from './run-folder.ts'

/** The pause between two slices of 256 KiB at most, while a host looks for damaged logs. */
const LOG_CHECK_PAUSE_MS = 25

const SLICE_BYTES = 256 * 1024

export class EventLogsOnDisk implements EventLogs {
  readonly #runs: string
  readonly #database: LmdbControlDatabase
  readonly #clock: Clock
  readonly #log: Log
  readonly #flusher: EventFlusher
  readonly #slices = new TurnQueue(setImmediate)
  #closed = false

  constructor(options: EventFlusherOptions) {
    this.#runs = options.runs
    this.#database = options.database
    this.#clock = options.clock
    this.#log = options.log
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

  async findDamage(): Promise<void> {
    const reasons: string[] = []
    try {
      for (const _page of this.#database.eventBuffer.checkSmallLogs()) await this.#pause()
      for (const runId of this.#database.eventBuffer.filedRuns())
        reasons.push(...(await this.#findDamageOf(runId)))
    } catch (error) {
      reasons.push(messageOf(error))
    }
    // Other readers meet the same failures, and report them.
    if (!this.#closed && reasons.length > 0)
      this.#log.warn({ reason: reasons[0], logs: reasons.length }, 'the logs were not all checked for damage')
  }

  /** A reader names what it finds damaged. Returns why the log could not be read otherwise: the next ones may be. */
  async #findDamageOf(runId: string): Promise<string[]> {
    try {
      const { next } = this.#database.eventBuffer.record(runId)
      for await (const _lines of this.read(runId, { before: next })) await this.#pause()
    } catch (error) {
      if (this.#closed) throw error
      if (!isDamagedRecord(error)) return [messageOf(error)]
    }
    return []
  }

  /** Rejects when the store was closed meanwhile. */
  async #pause(): Promise<void> {
    await new Promise<void>((goOn) => this.#clock.after(LOG_CHECK_PAUSE_MS, goOn))
    this.#requireOpen()
  }

  async remove(runId: string): Promise<void> {
    const path = eventsFile(this.#runs, runId)
    this.#requireOpen()
    await this.#flusher.runExclusive(runId, async () => {
      // Repeated when events arrived during the removal.
      do await this.#database.commitPuts(this.#removalOf(runId))
      while (!this.#closed && this.#removalOf(runId).length > 1)
      await rm(path, { force: true })
      for (const name of await namesIn(dirname(path)))
        if (isSetAside(name)) await rm(join(dirname(path), name), { force: true })
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
    const found = eventBuffer.lines(runId, next, SLICE_BYTES)
    // No line is left when the run was removed meanwhile.
    reading.next = found.lines.length === 0 ? end : found.next
    const behindEnd = found.next - end
    return behindEnd > 0 ? found.lines.slice(0, -behindEnd) : found.lines
  }

  async #readFromFile(reading: Reading, record: EventFileRecord, end: number): Promise<readonly string[]> {
    const { runId, next } = reading
    const sums = this.#database.eventBuffer.sums.from(runId, next, SLICE_BYTES)
    const nameLost: NameLost = (from, to, why) => this.#nameLost({ runId, from, to }, why)
    const found = await readFileSlice(reading, sums, record, nameLost)
    if (found.isFileShort && reading.isRepaired !== true) {
      reading.isRepaired = true
      await this.#flusher.repair(runId)
      return []
    }
    reading.next = found.next
    if (found.offset === undefined) delete reading.offset
    else reading.offset = found.offset
    return found.lines.filter(({ index }) => index < end).map(({ text }) => text)
  }

  /** Returns the line in the place of lost events. Damage of a file is in the list until the host starts again. */
  #nameLost(lost: LostEvents, why: string): FileLine {
    const { runId, to } = lost
    const file = `runs/${runId}/events.jsonl`
    this.#database.damage.note(damageOfEvents(lost, why, file))
    return { index: to, text: lossLine(lost, this.#clock.now(), `${why} in ${file}`) }
  }

  #removalOf(runId: string): Put[] {
    const { eventBuffer } = this.#database
    return [
      ...eventBuffer.small.keysOf(runId).map((key) => ({ to: 'small-log' as const, key, bytes: null })),
      ...eventBuffer.keysOf(runId).map((key) => ({ to: 'event-chunk' as const, key, bytes: null })),
      ...eventBuffer.sums.removalOf(runId),
      { to: 'event-file', key: runId, record: null, moved: 0 },
    ]
  }

  #requireOpen(): void {
    if (this.#closed) throw new StoreClosed('the store is closed')
  }
}
