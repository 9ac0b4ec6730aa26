/**
 * Moves events of large logs from the event buffer in the database to the files of their runs, in the background.
 *
 * Events are durable before the flusher sees them, and leave the buffer only in the transaction that records the
 * valid length of the file. So the flusher may stop, fail or be killed at any point. Runs are flushed when their
 * events are quiet, large or old, in rounds of several runs with one transaction per round. While commits arrive fast
 * the flusher slows down, because files need many syncs; a buffer above its limit makes it work at full speed.
 */
import { dirname } from 'node:path'
import type { Cancel, Clock } from '../../core/ports/clock.ts'
import type { Log } from '../../core/ports/log.ts'
import { isDiskFull, messageOf } from '../../protocol/message-of.ts'
import { StoreBroken, StoreClosed } from '../errors.ts'
import { type LostEvents, lossLine } from '../event-order.ts'
import type { LmdbControlDatabase } from '../lmdb/control-database.ts'
import type { Put } from '../lmdb/encode-writes.ts'
import { type BufferedRun, DAMAGED, type FilePortion, MISSING } from '../lmdb/event-buffer.ts'
import { chunkKey } from '../lmdb/event-chunks.ts'
import type { FileLines } from '../lmdb/file-sums.ts'
import { syncFolder } from './atomic.ts'
import { appendAt, findLastEvent, setAsideEvents } from './event-file.ts'
import { eventsFile } from './run-folder.ts'
import { StoreQueue } from './store-queue.ts'

/**
 * A run is flushed after this quiet time. Flushing delays commits, so it skips the moment after a run's end, when the
 * next run is dispatched.
 */
export const FLUSH_QUIET_MS = 1_000
export const FLUSH_AGE_MS = 5_000
/** Above this size of the whole buffer, events are flushed without regard for commits. */
export const EVENT_BUFFER_BYTES_MAX = 256 * 1024 * 1024
const TICK_MS = 100
const ROUND_RUNS_MAX = 64
/** Bytes of one run in one round. */
const MOVE_BYTES_MAX = 4 * 1024 * 1024
/** Files written in parallel, of the four threads that file operations and commits share. */
const FILES_AT_ONCE = 1
const FILES_AT_ONCE_OVER_LIMIT = 3
/** Above this rate of chunks, rounds are small with pauses between them. */
const BUSY_CHUNKS_PER_SECOND = 1_000
const BUSY_ROUND_RUNS_MAX = 8
const BUSY_REST_MS = 100
/** Wait after a failure of one run's file. */
const RETRY_RUN_MS = 2_000

export interface EventFlusherOptions {
  readonly runs: string
  readonly database: LmdbControlDatabase
  readonly clock: Clock
  readonly log: Log
  readonly bufferBytesMax?: number
}

/** Events that are in a run's file now and may leave the buffer. */
interface FlushedRun {
  readonly runId: string
  readonly fresh: boolean
  readonly puts: readonly Put[]
}

export class EventFlusher {
  readonly #runs: string
  readonly #database: LmdbControlDatabase
  readonly #clock: Clock
  readonly #log: Log
  readonly #bufferBytesMax: number
  readonly #queue = new StoreQueue()
  /** Runs whose files other code uses now. */
  readonly #exclusive = new Set<string>()
  #timer: Cancel | undefined
  #round: Promise<void> | undefined
  #movingRuns: readonly string[] = []
  #stopped = false
  #load = { chunks: 0, at: 0, busy: false }

  constructor(options: EventFlusherOptions) {
    this.#runs = options.runs
    this.#database = options.database
    this.#clock = options.clock
    this.#log = options.log
    this.#bufferBytesMax = options.bufferBytesMax ?? EVENT_BUFFER_BYTES_MAX
    this.#load = { chunks: this.#database.eventBuffer.chunksEver, at: this.#clock.monotonic(), busy: false }
    this.#database.eventBuffer.onChunks(() => this.#schedule(TICK_MS))
    if (this.#database.eventBuffer.runs.size > 0) this.#schedule(0)
  }

  /** Runs `work` with exclusive access to a run's file and buffered events. */
  runExclusive<T>(runId: string, work: () => Promise<T>): Promise<T> {
    return this.#queue.run(runId, async () => {
      this.#exclusive.add(runId)
      try {
        if (this.#movingRuns.includes(runId)) await this.#round
        return await work()
      } finally {
        this.#exclusive.delete(runId)
      }
    })
  }

  /**
   * Repairs a run whose file lost acknowledged events. The record goes back to the end of the file, and an event
   * replaces the last lost one, so that later events keep their index. The next write truncates the file.
   */
  async repair(runId: string): Promise<void> {
    if (this.#stopped || this.#database.state().is !== 'ready') return
    await this.runExclusive(runId, async () => {
      const record = this.#database.eventBuffer.record(runId)
      const kept = await findLastEvent(eventsFile(this.#runs, runId), record.bytes)
      const missing = record.bytes - kept.end
      if (missing <= 0) return
      const lost = { runId, from: kept.next, to: Math.max(kept.next, record.next - 1) }
      const index = lost.to
      const line = this.#lossLine(lost, `missing: the file has ${missing} bytes less than were acknowledged`)
      const key = chunkKey(runId, index)
      this.#log.error({ runId, bytes: missing }, 'acknowledged events are missing from the file of a run')
      await this.#database.commitPuts([
        { to: 'event-chunk', key, bytes: line, runId, first: index, count: 1, replacesLost: true },
        { to: 'event-file', key: runId, record: { bytes: kept.end, next: index }, moved: 0 },
        ...this.#database.eventBuffer.sums.removalsBehind(runId, kept.end),
      ])
    })
  }

  /** Starts no more work. Remaining buffered events are for the next process. */
  stop(): void {
    this.#stopped = true
    this.#timer?.()
    this.#timer = undefined
  }

  /** Resolves when all work is done. The database must have answered all commits before. */
  async settled(): Promise<void> {
    this.stop()
    await this.#queue.close()
    await this.#round
  }

  #lossLine(lost: LostEvents, why: string): Uint8Array {
    return Buffer.from(`${lossLine(lost, this.#clock.now(), why)}\n`)
  }

  #schedule(ms: number): void {
    if (this.#stopped || this.#timer !== undefined || this.#round !== undefined) return
    this.#timer = this.#clock.after(ms, () => {
      this.#timer = undefined
      this.#begin()
    })
  }

  #begin(): void {
    if (this.#database.eventBuffer.runs.size === 0) return
    const due = this.#database.state().is === 'ready' ? this.#due() : []
    if (due.length === 0) {
      this.#schedule(TICK_MS)
      return
    }
    this.#movingRuns = due
    this.#round = this.#flushRuns(due).then((restMs) => {
      this.#round = undefined
      this.#movingRuns = []
      this.#schedule(restMs)
    })
  }

  /** Returns the runs to flush now, those with the longest wait first. */
  #due(): string[] {
    const { eventBuffer } = this.#database
    const now = this.#clock.monotonic()
    const max = this.#isBusy(now) ? BUSY_ROUND_RUNS_MAX : ROUND_RUNS_MAX
    const due = new Set<string>()
    const isFree = (runId: string, run: BufferedRun | undefined) =>
      run !== undefined && run.notBefore <= now && !this.#exclusive.has(runId)
    for (const runId of eventBuffer.largeRuns) {
      if (due.size >= max) break
      if (isFree(runId, eventBuffer.runs.get(runId))) due.add(runId)
    }
    for (const [runId, run] of eventBuffer.runs) {
      // All following runs have waited even less.
      if (due.size >= max || (now - run.since < FLUSH_QUIET_MS && !this.#isOverLimit())) break
      if (isFree(runId, run) && (isDue(run, now) || this.#isOverLimit())) due.add(runId)
    }
    return [...due]
  }

  #isOverLimit(): boolean {
    return this.#database.eventBuffer.bytes > this.#bufferBytesMax
  }

  #isBusy(now: number): boolean {
    if (this.#isOverLimit()) return false
    const { chunksEver } = this.#database.eventBuffer
    const ms = now - this.#load.at
    if (ms < TICK_MS / 2) return this.#load.busy
    const busy = (chunksEver - this.#load.chunks) * 1000 > ms * BUSY_CHUNKS_PER_SECOND
    this.#load = { chunks: chunksEver, at: now, busy }
    return busy
  }

  /** Flushes a round of runs, and returns the pause after it in milliseconds. */
  async #flushRuns(runIds: readonly string[]): Promise<number> {
    const moves: FlushedRun[] = []
    await this.#inParallel(runIds, async (runId) => {
      const move = await this.#database
        .guardWrite(() => this.#appendToFile(runId))
        .catch((error: unknown) => this.#postpone(runId, error))
      if (move !== undefined) moves.push(move)
    })
    try {
      if (moves.some(({ fresh }) => fresh)) await this.#database.guardWrite(() => syncFolder(this.#runs))
      if (moves.length > 0) await this.#database.commitPuts(moves.flatMap(({ puts }) => puts))
    } catch (error) {
      for (const { runId } of moves) this.#postpone(runId, error)
    }
    return this.#load.busy && !this.#isOverLimit() ? BUSY_REST_MS : 0
  }

  async #inParallel(runIds: readonly string[], work: (runId: string) => Promise<void>): Promise<void> {
    const waiting = runIds.values()
    const worker = async () => {
      for (const runId of waiting) if (!this.#stopped) await work(runId)
    }
    const workerCount = this.#isOverLimit() ? FILES_AT_ONCE_OVER_LIMIT : FILES_AT_ONCE
    await Promise.all(Array.from({ length: workerCount }, worker))
  }

  /** Appends a run's events to its file; returns undefined when no event may leave the buffer. */
  async #appendToFile(runId: string): Promise<FlushedRun | undefined> {
    const { eventBuffer } = this.#database
    const portion = eventBuffer.nextPortion(runId, MOVE_BYTES_MAX)
    const { record, buffered } = portion
    if (buffered.length === 0) return undefined
    const path = eventsFile(this.#runs, runId)
    const lines = await this.#linesOf(runId, portion)
    const done = await appendAt(path, record.bytes, Buffer.concat(lines.map(({ bytes }) => bytes)))
    if (done.is === 'short') {
      // Repaired after this round, because the repair may wait for the round.
      void this.repair(runId).catch((error: unknown) => this.#postpone(runId, error))
      return undefined
    }
    if (done.fresh) await syncFolder(dirname(path))
    const sums = eventBuffer.sums.putsFor(runId, record.bytes, lines)
    return { runId, fresh: done.fresh, puts: [...flushPuts(runId, portion, lines), ...sums] }
  }

  /** A line in their place names events that are damaged or missing. The bytes of damaged ones go to a file beside. */
  async #linesOf(runId: string, { record, small, buffered }: FilePortion): Promise<FileLines[]> {
    const lines: FileLines[] = []
    let next = small.length > 0 ? 0 : record.next
    const skipTo = (index: number, why: string) => {
      if (index <= next) return
      const lost = { runId, from: next, to: index - 1 }
      lines.push({ first: lost.to, next: index, bytes: this.#lossLine(lost, why) })
      next = index
    }
    for (const { first, count, bytes, isDamaged } of [...small, ...buffered]) {
      skipTo(first, MISSING)
      if (isDamaged) {
        const name = await setAsideEvents(this.#runs, { runId, first, bytes })
        skipTo(first + count, `${DAMAGED}: the bytes are in ${name}`)
      } else lines.push({ first, next: first + count, bytes })
      next = Math.max(next, first + count)
    }
    return lines
  }

  #postpone(runId: string, error: unknown): void {
    // The database reports these states itself.
    if (error instanceof StoreClosed || error instanceof StoreBroken) return
    this.#database.eventBuffer.postpone(runId, RETRY_RUN_MS)
    if (isDiskFull(error)) return
    this.#log.warn(
      { runId, reason: messageOf(error) },
      'events could not be moved to the file of their run; they are safe in the database, and the move is retried',
    )
  }
}

/** The chunks leave and the valid length of the file grows, in one transaction. */
function flushPuts(
  runId: string,
  { record, small, buffered }: FilePortion,
  lines: readonly FileLines[],
): Put[] {
  const next = buffered.reduce((end, { first, count }) => Math.max(end, first + count), record.next)
  const moved = bytesOf(buffered)
  return [
    ...small.map(({ key }) => ({ to: 'small-log' as const, key, bytes: null })),
    ...buffered.map(({ key }) => ({ to: 'event-chunk' as const, key, bytes: null })),
    { to: 'event-file', key: runId, record: { bytes: record.bytes + bytesOf(lines), next }, moved },
  ]
}

const bytesOf = (chunks: readonly { readonly bytes: Uint8Array }[]): number =>
  chunks.reduce((sum, { bytes }) => sum + bytes.length, 0)

function isDue(run: BufferedRun, now: number): boolean {
  return now - run.touched >= FLUSH_QUIET_MS || now - run.since >= FLUSH_AGE_MS
}
