/**
 * The control database: reads of what is durable, and commits in groups.
 *
 * Commits of one turn of the loop become one transaction with one sync. One transaction is in flight at a time;
 * what is asked for meanwhile waits and becomes the next. A commit is answered only after its transaction is on
 * disk. When the disk is full the batch is kept and written again, unchanged, until it goes through; any other
 * failure ends the ledger, because nobody knows what the disk still holds.
 */
import { join } from 'node:path'
import type { Cancel, Clock, ControlDatabase, Log, Meters, StoreState, Write } from '../../core/ports.ts'
import { StoreBroken, StoreClosed, textOf } from '../errors.ts'
import { Batch, type Commit } from './batch.ts'
import { troubleOf } from './commit-error.ts'
import { BALLAST_BYTES, Ballast } from './emergency-space.ts'
import { costOfPuts, encodeWrites, type Put, payloadOfPuts } from './encode-writes.ts'
import { Tail } from './event-buffer.ts'
import { LmdbFacts } from './key-values.ts'
import { Reserve } from './preallocation.ts'
import { LmdbRuns } from './runs.ts'
import { LmdbLives } from './snapshots.ts'
import { Tables } from './tables.ts'

const RETRY_MS_FIRST = 250
const RETRY_MS_MAX = 2_000
/** Taken beyond what the first commits of a batch need, for those that join it later in the turn. */
const ROOM_BYTES = 1024 * 1024
/** How often, once writes go through again, we look whether there is room for the ballast too. */
const HEAL_MS = 1_000

export interface LmdbLedgerOptions {
  /** The folder of the environment: `<data directory>/state`. */
  readonly folder: string
  readonly clock: Clock
  readonly log: Log
  readonly meters: Meters
  readonly ballastBytes?: number
  readonly mapBytes?: number
}

export class LmdbControlDatabase implements ControlDatabase {
  readonly snapshots: LmdbLives
  readonly runs: LmdbRuns
  readonly keyValues: LmdbFacts
  /** Events that are not in their files yet. */
  readonly tail: Tail
  /** The layout that was found; whoever brings the rest of the data directory up to ours writes it down. */
  readonly format: number
  readonly #clock: Clock
  readonly #log: Log
  readonly #meters: Meters
  readonly #tables: Tables
  readonly #ballast: Ballast
  readonly #reserve: Reserve
  readonly #listeners = new Set<(state: StoreState) => void>()
  #state: StoreState = { is: 'ready' }
  /** Takes more commits until this turn of the loop ends. */
  #open: Batch | undefined
  #flight: Batch | undefined
  /** Was open when the database broke: its commits are refused, but what it had put will land. */
  #sinking: Batch | undefined
  /** Asked for while another batch was in flight. */
  #queue: Commit[] = []
  /** Met a full disk; written again by itself, before anything else. */
  #kept: readonly Commit[] | undefined
  #retryMs = RETRY_MS_FIRST
  #timer: Cancel | undefined
  #reopening: Promise<void> | undefined
  #departed = 0
  #closing = false
  #whenIdle: (() => void)[] = []
  readonly #backups = new Set<Promise<void>>()

  /** Throws StoreTooNew or StoreUnreadable. */
  constructor(options: LmdbLedgerOptions) {
    this.#clock = options.clock
    this.#log = options.log
    this.#meters = options.meters
    this.#tables = new Tables(options)
    this.#tables.onBeforeCommit(() => this.#depart())
    this.snapshots = new LmdbLives(this.#tables)
    this.runs = new LmdbRuns(this.#tables)
    this.keyValues = new LmdbFacts(this.#tables)
    this.tail = new Tail(this.#tables, this.#clock)
    this.format = this.#tables.format
    this.#reserve = new Reserve(join(options.folder, 'data.mdb'), () => this.#tables.usedBytes())
    this.#ballast = new Ballast(join(options.folder, 'ballast'), options.ballastBytes ?? BALLAST_BYTES)
    this.#meters.gauge('store_state', 0)
    void this.#ballast.make()
  }

  commit(writes: readonly Write[]): Promise<void> {
    return this.#commit(() => encodeWrites(this.#tables, writes))
  }

  /** What the store writes on its own account; it shares transactions with what others write. */
  commitPuts(puts: readonly Put[]): Promise<void> {
    return this.#commit(() => puts)
  }

  #commit(encode: () => readonly Put[]): Promise<void> {
    return new Promise((resolve, reject) => {
      const refused = this.#refusal()
      if (refused !== undefined) return reject(refused)
      const puts = encode()
      this.#take({ puts, cost: costOfPuts(puts), payload: payloadOfPuts(puts), resolve, reject })
    })
  }

  state(): StoreState {
    return this.#state
  }

  onState(listener: (state: StoreState) => void): Cancel {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  async backup(folder: string): Promise<void> {
    if (this.#closing) throw new StoreClosed('the store is closed')
    const copying = this.#tables.copy(folder)
    this.#backups.add(copying)
    await copying.finally(() => this.#backups.delete(copying))
  }

  /** Waits for what is under way. A full disk is not waited for: what it holds up is refused. */
  async close(): Promise<void> {
    if (this.#closing) return
    this.#closing = true
    if (this.#kept !== undefined)
      this.#refuseWaiting(new StoreClosed('the store closed while its disk was full'))
    this.#timer?.()
    await this.#reopening
    await this.#idle()
    await Promise.allSettled(this.#backups)
    await this.#ballast.settled()
    this.#reserve.close()
    await this.#tables.close()
  }

  #refusal(): Error | undefined {
    if (this.#state.is === 'broken') return new StoreBroken(this.#state.reason)
    return this.#closing ? new StoreClosed('the store is closed') : undefined
  }

  #take(commit: Commit): void {
    const joins = this.#queue.length === 0 && this.#open?.hasRoom(commit) === true && this.#knows(commit)
    if (this.#open !== undefined && joins) {
      this.#join(this.#open, commit)
      return
    }
    this.#queue.push(commit)
    this.#next()
  }

  /** Begins the next batch, unless one is under way. */
  #next(): void {
    if (this.#open !== undefined || this.#flight !== undefined || this.#kept !== undefined) return
    if (this.#queue.length > 0) this.#begin(this.#queue.splice(0))
    else this.#settleIdle()
  }

  #begin(commits: readonly Commit[]): void {
    if (commits.every((commit) => commit.puts.length === 0)) {
      for (const commit of commits) commit.resolve()
      this.#next()
      return
    }
    const batch = this.#prepare(commits)
    if (batch === undefined) return
    this.#open = batch
    for (const commit of commits) this.#join(batch, commit)
    if (this.#open === batch && !batch.hasWrites()) {
      this.#dismiss(batch)
      return
    }
    const refused = this.#refusal()
    // The database refused one on the way: those behind it were not tried.
    if (this.#state.is === 'broken' && refused !== undefined)
      for (const commit of commits) commit.reject(refused)
  }

  /** Every commit with writes was refused: no transaction begins, so none will end. */
  #dismiss(batch: Batch): void {
    this.#open = undefined
    for (const commit of batch.commits) commit.resolve()
    this.#next()
  }

  /** Everything that can fail for lack of room, before anything is written. */
  #prepare(commits: readonly Commit[]): Batch | undefined {
    try {
      const cost = commits.reduce((sum, commit) => sum + commit.cost, 0)
      const payload = commits.reduce((sum, commit) => sum + commit.payload, 0)
      const room = this.#reserve.secure(this.#reserve.atMost(cost, payload) + ROOM_BYTES)
      this.#makeTables(commits)
      return new Batch(this.#tables, this.tail, this.runs.counts, room)
    } catch (error) {
      // Until the failure is understood nothing else may begin.
      this.#kept = commits
      void this.#failed(commits, error)
      return undefined
    }
  }

  #join(batch: Batch, commit: Commit): void {
    if (this.#open !== batch) return
    try {
      batch.add(commit)
    } catch (error) {
      // Whatever lmdb refuses was checked before, so this is a bug, or a database gone from under us.
      this.#kept = batch.commits
      this.#break(`the database refused a write: ${textOf(error)}`)
    }
  }

  #knows(commit: Commit): boolean {
    return commit.puts.every((put) => put.to !== 'snapshot' || this.#tables.life(put.kind) !== undefined)
  }

  #makeTables(commits: readonly Commit[]): void {
    for (const commit of commits) {
      for (const put of commit.puts) {
        if (put.to === 'snapshot' && this.#tables.life(put.kind) === undefined) this.#tables.addLife(put.kind)
      }
    }
  }

  /** The turn ends: lmdb closes the transaction's list right after this. */
  #depart(): void {
    this.#sink()
    const batch = this.#open
    if (batch === undefined) return
    this.#open = undefined
    this.#flight = batch
    this.#reserve.spend(batch.cost)
    this.#departed = this.#clock.monotonic()
    try {
      const landing = batch.finish() ?? Promise.resolve()
      landing.then(
        () => this.#landed(batch),
        (error) => this.#failed(batch.commits, error),
      )
      queueMicrotask(() => this.#tables.hearOut())
    } catch (error) {
      this.#kept = batch.commits
      this.#break(`the database refused a write: ${textOf(error)}`)
    }
  }

  /** Without its counts and shapes, what was put before the database broke would be miscounted and unreadable. */
  #sink(): void {
    const batch = this.#sinking
    if (batch === undefined) return
    this.#sinking = undefined
    try {
      batch.finish()?.catch(() => undefined)
      queueMicrotask(() => this.#tables.hearOut())
    } catch (error) {
      this.#log.warn({ reason: textOf(error) }, 'the last counts of the store could not be written')
    }
  }

  #landed(batch: Batch): void {
    this.#flight = undefined
    if (batch.counts !== undefined) this.runs.counts = batch.counts
    if (batch.structures !== undefined) this.#tables.codec.landed(batch.structures)
    for (const commit of batch.commits) this.tail.landed(commit.puts)
    this.#measure(batch)
    for (const commit of batch.commits) commit.resolve()
    this.#retryMs = RETRY_MS_FIRST
    if (this.#state.is === 'degraded' && !this.#closing) void this.#heal()
    this.#next()
  }

  #measure(batch: Batch): void {
    const writes = batch.commits.reduce((sum, commit) => sum + commit.puts.length, 0)
    this.#meters.observe('store_commit_seconds', (this.#clock.monotonic() - this.#departed) / 1000)
    this.#meters.count('store_commit_writes_total', undefined, writes)
  }

  async #failed(commits: readonly Commit[], error: unknown): Promise<void> {
    const trouble = await troubleOf(error, this.#tables.folder)
    this.#flight = undefined
    this.#kept = commits
    if (trouble.is === 'broken') {
      this.#break(trouble.reason)
      return
    }
    this.#become({ is: 'degraded', reason: trouble.reason })
    if (this.#closing) {
      this.#refuseWaiting(new StoreClosed('the store closed while its disk was full'))
      return
    }
    this.#freeBallast()
    this.#timer?.()
    this.#timer = this.#clock.after(this.#retryMs, () => {
      this.#reopening = this.#retry()
    })
    this.#retryMs = Math.min(this.#retryMs * 2, RETRY_MS_MAX)
  }

  async #retry(): Promise<void> {
    try {
      await Promise.allSettled(this.#backups)
      await this.#tables.reopen()
    } catch (error) {
      this.#break(`the database could not be opened again: ${textOf(error)}`)
      return
    }
    const commits = this.#kept
    if (commits === undefined) return
    this.#kept = undefined
    this.#begin(commits)
  }

  /** Ready again only with the ballast back in place: until then the next full disk would find us without. */
  async #heal(): Promise<void> {
    const whole = await this.#ballast.make()
    if (this.#state.is !== 'degraded' || this.#kept !== undefined || this.#closing) return
    if (whole) return this.#become({ is: 'ready' })
    this.#timer?.()
    this.#timer = this.#clock.after(HEAL_MS, () => void this.#heal())
  }

  #freeBallast(): void {
    try {
      this.#ballast.free()
    } catch (error) {
      this.#log.warn({ reason: textOf(error) }, 'the ballast could not be freed')
    }
  }

  #break(reason: string): void {
    this.#become({ is: 'broken', reason })
    this.#sinking = this.#open
    this.#open = undefined
    this.#flight = undefined
    this.#refuseWaiting(new StoreBroken(reason))
  }

  #refuseWaiting(error: Error): void {
    const waiting = [...(this.#kept ?? []), ...this.#queue.splice(0)]
    this.#kept = undefined
    for (const commit of waiting) commit.reject(error)
    this.#settleIdle()
  }

  #become(state: StoreState): void {
    const same = this.#state.is === state.is
    this.#state = state
    this.#meters.gauge('store_state', { ready: 0, degraded: 1, broken: 2 }[state.is])
    if (same) return
    if (state.is === 'ready') this.#log.info({}, 'the store writes again')
    else this.#log.error({ reason: state.reason }, `the store is ${state.is}`)
    for (const listener of this.#listeners) this.#tell(listener, state)
  }

  /** A listener that throws must not stop the store from healing. */
  #tell(listener: (state: StoreState) => void, state: StoreState): void {
    try {
      listener(state)
    } catch (error) {
      this.#log.error({ reason: textOf(error) }, 'a listener of the store threw')
    }
  }

  #idle(): Promise<void> {
    const busy = this.#open !== undefined || this.#flight !== undefined || this.#queue.length > 0
    return busy ? new Promise((resolve) => this.#whenIdle.push(resolve)) : Promise.resolve()
  }

  #settleIdle(): void {
    for (const resolve of this.#whenIdle.splice(0)) resolve()
  }
}
