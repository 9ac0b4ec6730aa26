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
import { isNoRoom, StoreBroken, StoreClosed, textOf } from '../errors.ts'
import type { LmdbControlDatabase } from '../lmdb/control-database.ts'
import type { Put } from '../lmdb/encode-writes.ts'
import { type Chunk, type LogRecord, type TailHead, tailKey } from '../lmdb/event-buffer.ts'
import { syncFolder } from './atomic.ts'
import { appendAt, lastEventBy } from './event-file.ts'
import { Turns } from './keyed-queue.ts'
import { eventsFile } from './run-folder.ts'

/** Its syncs hold up those of commits, so it lets the moment pass in which a run's end makes room for the next. */
export const SPILL_QUIET_MS = 1_000
export const SPILL_AGE_MS = 5_000
/** A tail of all runs together of more bytes is moved without regard for commits. */
export const TAIL_BYTES_MAX = 256 * 1024 * 1024
const TICK_MS = 100
const ROUND_RUNS_MAX = 64
/** Of one run in one round. */
const MOVE_BYTES_MAX = 4 * 1024 * 1024
/** Of the four threads that file work and commits share. */
const FILES_AT_ONCE = 1
const FILES_AT_ONCE_ALL_OUT = 3
/** More chunks a second than this, and rounds become small, with rests between them. */
const BUSY_CHUNKS_PER_SECOND = 1_000
const BUSY_ROUND_RUNS_MAX = 8
const BUSY_REST_MS = 100
/** One run's file gives trouble; or the disk is full, which concerns all. */
const RETRY_RUN_MS = 2_000
const RETRY_FULL_MS = 1_000

export interface SpillerOptions {
  readonly runs: string
  readonly database: LmdbControlDatabase
  readonly clock: Clock
  readonly log: Log
  readonly tailBytesMax?: number
}

/** What is in a run's file now and may leave the tail. */
interface Move {
  readonly runId: string
  readonly fresh: boolean
  readonly puts: readonly Put[]
}

export class Spiller {
  readonly #runs: string
  readonly #database: LmdbControlDatabase
  readonly #clock: Clock
  readonly #log: Log
  readonly #tailBytesMax: number
  readonly #turns = new Turns()
  /** Somebody else works on these runs' files. */
  readonly #held = new Set<string>()
  #timer: Cancel | undefined
  #round: Promise<void> | undefined
  #moving: readonly string[] = []
  #stopped = false
  /** The log has been told that there is no room; said once, since a disk may stay full for days. */
  #isFull = false
  #seen = { chunks: 0, at: 0, busy: false }

  constructor(options: SpillerOptions) {
    this.#runs = options.runs
    this.#database = options.database
    this.#clock = options.clock
    this.#log = options.log
    this.#tailBytesMax = options.tailBytesMax ?? TAIL_BYTES_MAX
    this.#seen = { chunks: this.#database.tail.chunks, at: this.#clock.monotonic(), busy: false }
    this.#database.tail.onGrown(() => this.#wake(TICK_MS))
    if (this.#database.tail.heads.size > 0) this.#wake(0)
  }

  /** Alone with a run's file and its place in the tail. */
  alone<T>(runId: string, work: () => Promise<T>): Promise<T> {
    return this.#turns.take(runId, async () => {
      this.#held.add(runId)
      try {
        if (this.#moving.includes(runId)) await this.#round
        return await work()
      } finally {
        this.#held.delete(runId)
      }
    })
  }

  /**
   * Acknowledged events are missing from the end of a run's file: the record goes back to what is there, and an event
   * takes the place of the last one lost, so that what comes later keeps its index. The file itself is cut when it
   * is written next.
   */
  async mend(runId: string): Promise<void> {
    if (this.#stopped || this.#database.state().is !== 'ready') return
    await this.alone(runId, async () => {
      const record = this.#database.tail.record(runId)
      const kept = await lastEventBy(eventsFile(this.#runs, runId), record.bytes)
      const missing = record.bytes - kept.end
      if (missing <= 0) return
      const index = Math.max(kept.next, record.next - 1)
      const line = Buffer.from(`${JSON.stringify(this.#lossEvent(runId, index, missing))}\n`)
      const key = tailKey(runId, index)
      this.#log.error({ runId, bytes: missing }, 'acknowledged events are missing from the file of a run')
      await this.#database.commitPuts([
        { to: 'tail', key, bytes: line, runId, first: index, count: 1, behind: true },
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
    await this.#turns.close()
    await this.#round
  }

  #lossEvent(runId: string, index: number, missing: number): RunEvent {
    const at = new Date(this.#clock.now()).toISOString()
    const text = `${missing} bytes of acknowledged events are missing from this log`
    return { runId, index, at, type: 'log', stream: 'system', text }
  }

  #wake(ms: number): void {
    if (this.#stopped || this.#timer !== undefined || this.#round !== undefined) return
    this.#timer = this.#clock.after(ms, () => {
      this.#timer = undefined
      this.#begin()
    })
  }

  #begin(): void {
    if (this.#database.tail.heads.size === 0) return
    const due = this.#database.state().is === 'ready' ? this.#due() : []
    if (due.length === 0) {
      this.#wake(TICK_MS)
      return
    }
    this.#moving = due
    this.#round = this.#move(due).then((restMs) => {
      this.#round = undefined
      this.#moving = []
      this.#wake(restMs)
    })
  }

  /** Runs whose tail is to move now, those that have waited longest first. */
  #due(): string[] {
    const { tail } = this.#database
    const now = this.#clock.monotonic()
    const max = this.#isBusy(now) ? BUSY_ROUND_RUNS_MAX : ROUND_RUNS_MAX
    const due = new Set<string>()
    const isFree = (runId: string, head: TailHead | undefined) =>
      head !== undefined && head.notBefore <= now && !this.#held.has(runId)
    for (const runId of tail.large) {
      if (due.size >= max) break
      if (isFree(runId, tail.heads.get(runId))) due.add(runId)
    }
    for (const [runId, head] of tail.heads) {
      // All behind this one came later still.
      if (due.size >= max || (now - head.since < SPILL_QUIET_MS && !this.#isAllOut())) break
      if (isFree(runId, head) && (isDue(head, now) || this.#isAllOut())) due.add(runId)
    }
    return [...due]
  }

  #isAllOut(): boolean {
    return this.#database.tail.bytes > this.#tailBytesMax
  }

  #isBusy(now: number): boolean {
    if (this.#isAllOut()) return false
    const { chunks } = this.#database.tail
    const ms = now - this.#seen.at
    if (ms < TICK_MS / 2) return this.#seen.busy
    const busy = (chunks - this.#seen.chunks) * 1000 > ms * BUSY_CHUNKS_PER_SECOND
    this.#seen = { chunks, at: now, busy }
    return busy
  }

  /** One round; answers how long to rest after it. */
  async #move(runIds: readonly string[]): Promise<number> {
    const moves: Move[] = []
    const troubles: unknown[] = []
    const failed = (runId: string, error: unknown) => {
      troubles.push(error)
      this.#fail(runId, error)
    }
    await this.#inParallel(runIds, async (runId) => {
      const move = await this.#toFile(runId).catch((error: unknown) => failed(runId, error))
      if (move !== undefined) moves.push(move)
    })
    try {
      if (moves.some(({ fresh }) => fresh)) await syncFolder(this.#runs)
      if (moves.length > 0) await this.#database.commitPuts(moves.flatMap(({ puts }) => puts))
    } catch (error) {
      for (const { runId } of moves) failed(runId, error)
    }
    const full = troubles.find(isNoRoom)
    if (full !== undefined && !this.#isFull)
      this.#log.warn({ reason: textOf(full) }, 'no room for event files; events wait safely in the database')
    this.#isFull = full !== undefined
    if (full !== undefined) return RETRY_FULL_MS
    return this.#seen.busy && !this.#isAllOut() ? BUSY_REST_MS : 0
  }

  async #inParallel(runIds: readonly string[], work: (runId: string) => Promise<void>): Promise<void> {
    const waiting = runIds.values()
    const hand = async () => {
      for (const runId of waiting) if (!this.#stopped) await work(runId)
    }
    const hands = this.#isAllOut() ? FILES_AT_ONCE_ALL_OUT : FILES_AT_ONCE
    await Promise.all(Array.from({ length: hands }, hand))
  }

  /** Undefined: nothing is to leave the tail. */
  async #toFile(runId: string): Promise<Move | undefined> {
    const { tail } = this.#database
    const { record, chunks } = tail.portion(runId, MOVE_BYTES_MAX)
    if (chunks.length === 0) return undefined
    const bytes = Buffer.concat(chunks.map((chunk) => chunk.bytes))
    const path = eventsFile(this.#runs, runId)
    const done = await appendAt(path, record.bytes, bytes)
    if (done.is === 'short') {
      // After this round, in a turn of its own: it may have to wait for us.
      void this.mend(runId).catch((error: unknown) => this.#fail(runId, error))
      return undefined
    }
    if (done.fresh) await syncFolder(dirname(path))
    return { runId, fresh: done.fresh, puts: putsOf(runId, record, chunks, bytes.length) }
  }

  #fail(runId: string, error: unknown): void {
    // The ledger says by itself that it is closed or broken.
    if (error instanceof StoreClosed || error instanceof StoreBroken) return
    this.#database.tail.putOff(runId, isNoRoom(error) ? RETRY_FULL_MS : RETRY_RUN_MS)
    if (isNoRoom(error)) return
    this.#log.warn(
      { runId, reason: textOf(error) },
      'events could not be moved to the file of their run; they are safe in the database, and it is tried again',
    )
  }
}

/** The chunks leave, and the file counts further, or neither. */
function putsOf(runId: string, record: LogRecord, chunks: readonly Chunk[], moved: number): Put[] {
  const next = chunks.reduce((end, { first, count }) => Math.max(end, first + count), record.next)
  return [
    ...chunks.map(({ key }) => ({ to: 'tail' as const, key, bytes: null })),
    { to: 'log', key: runId, record: { bytes: record.bytes + moved, next }, moved },
  ]
}

function isDue(head: TailHead, now: number): boolean {
  return now - head.touched >= SPILL_QUIET_MS || now - head.since >= SPILL_AGE_MS
}
