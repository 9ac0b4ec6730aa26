/**
 * Moves events from the ledger's tail to the files of their runs, behind everybody's back.
 *
 * Nobody waits for it: events are durable before it sees them, and leave the tail only in the transaction that says
 * how far the file counts. So it may stop, fail or be killed anywhere. It moves what has become quiet, large or old,
 * a round of runs at a time with one transaction for the round. While commits come in fast it keeps back, because
 * files cost many syncs; only a tail that grows beyond bounds makes it work as fast as it can.
 */
import { dirname } from 'node:path'
import type { Cancel, Clock, Log } from '../../core/ports.ts'
import type { RunEvent } from '../../protocol/run.ts'
import { isDiskFull, messageOf, StoreBroken, StoreClosed } from '../errors.ts'
import type { LmdbControlDatabase } from '../lmdb/control-database.ts'
import type { Put } from '../lmdb/encode-writes.ts'
import { type BufferedRun, type Chunk, chunkKey, type EventFileRecord } from '../lmdb/event-buffer.ts'
import { syncFolder } from './atomic.ts'
import { appendAt, findLastEvent } from './event-file.ts'
import { eventsFile } from './run-folder.ts'
import { StoreQueue } from './store-queue.ts'

/** Its syncs hold up those of commits, so it lets the moment pass in which a run's end makes room for the next. */
export const FLUSH_QUIET_MS = 1_000
export const FLUSH_AGE_MS = 5_000
/** A tail of all runs together of more bytes is moved without regard for commits. */
export const EVENT_BUFFER_BYTES_MAX = 256 * 1024 * 1024
const TICK_MS = 100
const ROUND_RUNS_MAX = 64
/** Of one run in one round. */
const MOVE_BYTES_MAX = 4 * 1024 * 1024
/** Of the four threads that file work and commits share. */
const FILES_AT_ONCE = 1
const FILES_AT_ONCE_OVER_LIMIT = 3
/** More chunks a second than this, and rounds become small, with rests between them. */
const BUSY_CHUNKS_PER_SECOND = 1_000
const BUSY_ROUND_RUNS_MAX = 8
const BUSY_REST_MS = 100
/** One run's file gives trouble; or the disk is full, which concerns all. */
const RETRY_RUN_MS = 2_000
const RETRY_FULL_MS = 1_000

export interface EventFlusherOptions {
  readonly runs: string
  readonly database: LmdbControlDatabase
  readonly clock: Clock
  readonly log: Log
  readonly bufferBytesMax?: number
}

/** What is in a run's file now and may leave the tail. */
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
  /** Somebody else works on these runs' files. */
  readonly #exclusive = new Set<string>()
  #timer: Cancel | undefined
  #round: Promise<void> | undefined
  #movingRuns: readonly string[] = []
  #stopped = false
  /** The log has been told that there is no room; said once, since a disk may stay full for days. */
  #isDiskFull = false
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

  /** Alone with a run's file and its place in the tail. */
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
   * Acknowledged events are missing from the end of a run's file: the record goes back to what is there, and an event
   * takes the place of the last one lost, so that what comes later keeps its index. The file itself is cut when it
   * is written next.
   */
  async repair(runId: string): Promise<void> {
    if (this.#stopped || this.#database.state().is !== 'ready') return
    await this.runExclusive(runId, async () => {
      const record = this.#database.eventBuffer.record(runId)
      const kept = await findLastEvent(eventsFile(this.#runs, runId), record.bytes)
      const missing = record.bytes - kept.end
      if (missing <= 0) return
      const index = Math.max(kept.next, record.next - 1)
      const line = Buffer.from(`${JSON.stringify(this.#lossEvent(runId, index, missing))}\n`)
      const key = chunkKey(runId, index)
      this.#log.error({ runId, bytes: missing }, 'acknowledged events are missing from the file of a run')
      await this.#database.commitPuts([
        { to: 'tail', key, bytes: line, runId, first: index, count: 1, replacesLost: true },
        { to: 'log', key: runId, record: { bytes: kept.end, next: index }, moved: 0 },
      ])
    })
  }

  /** Begins nothing any more. What is left in the tail is there for the next life. */
  stop(): void {
    this.#stopped = true
    this.#timer?.()
    this.#timer = undefined
  }

  /** Resolves when nothing of it is under way. What it asked of the ledger has to be answered before. */
  async settled(): Promise<void> {
    this.stop()
    await this.#queue.close()
    await this.#round
  }

  #lossEvent(runId: string, index: number, missing: number): RunEvent {
    const at = new Date(this.#clock.now()).toISOString()
    const text = `${missing} bytes of acknowledged events are missing from this log`
    return { runId, index, at, type: 'log', stream: 'system', text }
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

  /** Runs whose tail is to move now, those that have waited longest first. */
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
      // All behind this one came later still.
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

  /** One round; answers how long to rest after it. */
  async #flushRuns(runIds: readonly string[]): Promise<number> {
    const moves: FlushedRun[] = []
    const troubles: unknown[] = []
    const failed = (runId: string, error: unknown) => {
      troubles.push(error)
      this.#postpone(runId, error)
    }
    await this.#inParallel(runIds, async (runId) => {
      const move = await this.#appendToFile(runId).catch((error: unknown) => failed(runId, error))
      if (move !== undefined) moves.push(move)
    })
    try {
      if (moves.some(({ fresh }) => fresh)) await syncFolder(this.#runs)
      if (moves.length > 0) await this.#database.commitPuts(moves.flatMap(({ puts }) => puts))
    } catch (error) {
      for (const { runId } of moves) failed(runId, error)
    }
    const full = troubles.find(isDiskFull)
    if (full !== undefined && !this.#isDiskFull)
      this.#log.warn(
        { reason: messageOf(full) },
        'no room for event files; events wait safely in the database',
      )
    this.#isDiskFull = full !== undefined
    if (full !== undefined) return RETRY_FULL_MS
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

  /** Undefined: nothing is to leave the tail. */
  async #appendToFile(runId: string): Promise<FlushedRun | undefined> {
    const { eventBuffer } = this.#database
    const { record, chunks } = eventBuffer.nextPortion(runId, MOVE_BYTES_MAX)
    if (chunks.length === 0) return undefined
    const bytes = Buffer.concat(chunks.map((chunk) => chunk.bytes))
    const path = eventsFile(this.#runs, runId)
    const done = await appendAt(path, record.bytes, bytes)
    if (done.is === 'short') {
      // After this round, in a turn of its own: it may have to wait for us.
      void this.repair(runId).catch((error: unknown) => this.#postpone(runId, error))
      return undefined
    }
    if (done.fresh) await syncFolder(dirname(path))
    return { runId, fresh: done.fresh, puts: flushPuts(runId, record, chunks, bytes.length) }
  }

  #postpone(runId: string, error: unknown): void {
    // The ledger says by itself that it is closed or broken.
    if (error instanceof StoreClosed || error instanceof StoreBroken) return
    this.#database.eventBuffer.postpone(runId, isDiskFull(error) ? RETRY_FULL_MS : RETRY_RUN_MS)
    if (isDiskFull(error)) return
    this.#log.warn(
      { runId, reason: messageOf(error) },
      'events could not be moved to the file of their run; they are safe in the database, and it is tried again',
    )
  }
}

/** The chunks leave, and the file counts further, or neither. */
function flushPuts(runId: string, record: EventFileRecord, chunks: readonly Chunk[], moved: number): Put[] {
  const next = chunks.reduce((end, { first, count }) => Math.max(end, first + count), record.next)
  return [
    ...chunks.map(({ key }) => ({ to: 'tail' as const, key, bytes: null })),
    { to: 'log', key: runId, record: { bytes: record.bytes + moved, next }, moved },
  ]
}

function isDue(run: BufferedRun, now: number): boolean {
  return now - run.touched >= FLUSH_QUIET_MS || now - run.since >= FLUSH_AGE_MS
}
