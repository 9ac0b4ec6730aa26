/**
 * The control database in LMDB: reads of durable data, and grouped commits.
 *
 * Commits of one turn of the event loop become one transaction with one sync. Only one transaction is in flight;
 * later commits wait for the next. A commit resolves only when its transaction is on disk. On a full disk the batch
 * is kept and written again unchanged until it succeeds. Any other failure breaks the database, because the content
 * of the disk is unknown then.
 */
import { rename } from 'node:fs/promises'
import { join } from 'node:path'
import type { Cancel, Clock } from '../../core/ports/clock.ts'
import type { Log, Meters } from '../../core/ports/log.ts'
import type { ControlDatabase, RescueCopy, StoreState, Write } from '../../core/ports/store.ts'
import { isDiskFull, messageOf } from '../../protocol/message-of.ts'
import { DatabaseLost, StoreBroken, StoreClosed } from '../errors.ts'
import { type FileLoss, OpenFile } from '../files/atomic.ts'
import { Batch, type BatchedCommit } from './batch.ts'
import type { DamageList } from './damage-list.ts'
import {
  classifyCommitError,
  describeFullDisk,
  EMERGENCY_SPACE_BYTES,
  EmergencySpace,
} from './emergency-space.ts'
import { costOfPuts, encodeWrites, type Put, payloadOfPuts } from './encode-writes.ts'
import { EventBuffer } from './event-buffer.ts'
import { LmdbKeyValues } from './key-values.ts'
import { maxBytesFor, NODE_BYTES, Preallocation } from './preallocation.ts'
import { halfWrittenRuns, StoredRunRows } from './run-rows.ts'
import { LmdbRunRecords, LmdbSnapshots, repairRunIndexes } from './runs.ts'
import { recordCleanEnd } from './start-check.ts'
import { Tables, type TablesOptions, UNFINISHED_COPY } from './tables.ts'

const RETRY_MS_FIRST = 250
const RETRY_MS_MAX = 2_000
/** Preallocated in addition to the needs of a batch's first commits, for commits that join later in the turn. */
const SPARE_BYTES = 1024 * 1024
/** How often the emergency space is tried again after a full disk. */
const EMERGENCY_SPACE_RETRY_MS = 1_000
/** How often an idle database checks that its file is still there. */
const FILE_CHECK_MS = 1_000
/** Questions for the state within this time of a check are answered by it, because a check is a system call. */
const FILE_CHECK_VALID_MS = 20

const INTERRUPTED =
  'the process that used this database before was killed, crashed, or lost its power; the pages of the database are whole'

export interface LmdbControlDatabaseOptions {
  /** The folder of the LMDB environment: `<data directory>/state`. */
  readonly folder: string
  readonly clock: Clock
  readonly log: Log
  readonly meters: Meters
  readonly emergencySpaceBytes?: number
  readonly mapBytes?: number
  readonly identifyDatabase: TablesOptions['identifyDatabase']
  /** Returns why this process no longer owns the data directory; undefined while it does. */
  readonly findOwnerLoss?: () => string | undefined
}

export class LmdbControlDatabase implements ControlDatabase {
  readonly snapshots: LmdbSnapshots
  readonly runs: LmdbRunRecords
  readonly keyValues: LmdbKeyValues
  /** Small logs, and events of larger ones that are not in their files yet. */
  readonly eventBuffer: EventBuffer
  /** The format that was found on disk. The migration of the data directory writes the new format. */
  readonly format: number
  /** The id of the installation to which the database belongs. */
  readonly installation: string
  readonly #clock: Clock
  readonly #log: Log
  readonly #meters: Meters
  readonly #tables: Tables
  readonly #file: OpenFile
  readonly #findOwnerLoss: () => string | undefined
  readonly #emergencySpace: EmergencySpace
  readonly #preallocation: Preallocation
  readonly #listeners = new Set<(state: StoreState) => void>()
  #state: StoreState = { is: 'ready' }
  /** The batch that accepts commits until this turn of the event loop ends. */
  #openBatch: Batch | undefined
  #batchInFlight: Batch | undefined
  /** The batch that was open when the database broke: its commits are rejected, but its puts will still be written. */
  #brokenBatch: Batch | undefined
  /** Commits that were requested while another batch was in flight. */
  #queue: BatchedCommit[] = []
  /** Commits that failed on a full disk; they are written again before all others. */
  #commitsToRetry: readonly BatchedCommit[] | undefined
  #retryMs = RETRY_MS_FIRST
  #timer: Cancel | undefined
  #fileTimer: Cancel | undefined
  #fileCheckedAt = Number.NEGATIVE_INFINITY
  #reopening: Promise<void> | undefined
  #submittedAt = 0
  #closing = false
  #whenIdle: (() => void)[] = []
  readonly #backups = new Set<Promise<unknown>>()

  /** Throws DatabaseLost, StoreTooNew or StoreUnreadable. */
  constructor(options: LmdbControlDatabaseOptions) {
    this.#clock = options.clock
    this.#log = options.log
    this.#meters = options.meters
    this.#tables = new Tables(options)
    this.#tables.onBeforeCommit(() => this.#submit())
    this.#tables.onDamaged((reason) => this.#break(reason))
    if (this.#tables.wasInterrupted) this.#log.info({ folder: options.folder }, INTERRUPTED)
    this.snapshots = new LmdbSnapshots(this.#tables)
    this.runs = new LmdbRunRecords(this.#tables)
    this.keyValues = new LmdbKeyValues(this.#tables)
    this.eventBuffer = new EventBuffer(this.#tables, this.#clock)
    this.format = this.#tables.format
    this.installation = this.#tables.installation
    const path = join(options.folder, 'data.mdb')
    this.#file = new OpenFile(path)
    this.#findOwnerLoss = options.findOwnerLoss ?? (() => undefined)
    this.#preallocation = new Preallocation(path, () => this.#tables.usedBytes())
    this.#emergencySpace = new EmergencySpace(
      join(options.folder, 'ballast'),
      options.emergencySpaceBytes ?? EMERGENCY_SPACE_BYTES,
    )
    this.#meters.gauge('store_state', 0)
    void this.#checkSpaceAtStart()
    this.#watchFile()
  }

  get damage(): DamageList {
    return this.#tables.damage
  }

  /** Rows without a checksum, from before format 5, may be there. */
  get mayBeUnsealed(): boolean {
    return this.#tables.mayBeUnsealed
  }

  /** Yields the puts that write such rows again, for one commit each. */
  *unsealedRows(rowsMax: number): Generator<readonly Put[]> {
    for (const table of this.#tables.all())
      for (const rows of table.getUnsealed(rowsMax))
        yield rows.map(({ key, value }) => ({ to: 'row', table: table.name, key, bytes: value }))
  }

  /** Every row has a checksum from now on. */
  onSealed(): void {
    this.#tables.mayBeUnsealed = false
  }

  /** Makes the indexes and counts of the runs again where they disagree with the runs. */
  async repairIndexes(): Promise<void> {
    if (!this.runs.isIndexSuspect()) return
    this.#log.warn({}, 'the indexes of the runs do not match the runs, and are made again')
    this.runs.counts = await repairRunIndexes(this.#tables, (puts) => this.commitPuts(puts))
  }

  /** Says that the id of a run was made a moment ago, so that nothing about it is looked for. */
  begin(runId: string): void {
    this.eventBuffer.small.begin(runId)
    this.runs.unfinished.begin(runId)
  }

  commit(writes: readonly Write[]): Promise<void> {
    return this.#commit(() => encodeWrites(this.#tables, writes))
  }

  /** Commits the store's own writes, which share transactions with the callers' writes. */
  commitPuts(puts: readonly Put[]): Promise<void> {
    return this.#commit(() => puts)
  }

  #commit(encode: () => readonly Put[]): Promise<void> {
    return new Promise((resolve, reject) => {
      const refused = this.#refusalReason()
      if (refused !== undefined) return reject(refused)
      const puts = encode()
      this.#enqueue({
        puts,
        halfWritten: halfWrittenRuns(puts),
        cost: costOfPuts(puts),
        payload: payloadOfPuts(puts),
        resolve,
        reject,
      })
    })
  }

  /** Checks the file too, so that no caller hears for long that a lost database is ready. */
  state(): StoreState {
    if (this.#clock.monotonic() - this.#fileCheckedAt >= FILE_CHECK_VALID_MS) this.#checkFile()
    return this.#state
  }

  /** Throws StoreBroken when this process may not write to the files beside the database either. */
  requireWritable(): void {
    const state = this.state()
    if (state.is === 'broken') throw new StoreBroken(state.reason)
  }

  /** Does a write to a file beside the database. The disk may be full for it although commits still succeed. */
  async guardWrite<T>(write: () => Promise<T>): Promise<T> {
    this.requireWritable()
    try {
      return await write()
    } catch (error) {
      if (isDiskFull(error)) this.#onFilesFull()
      throw error
    }
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

  /** Waits for pending work, then closes. On a full disk waiting commits are rejected. */
  async close(): Promise<void> {
    if (this.#closing) return
    this.#closing = true
    if (this.#commitsToRetry !== undefined)
      this.#refuseWaiting(new StoreClosed('the store closed while its disk was full'))
    this.#timer?.()
    this.#fileTimer?.()
    await this.#reopening
    await this.#idle()
    await Promise.allSettled(this.#backups)
    await this.#emergencySpace.settled()
    this.#preallocation.close()
    const isWhole = this.#tables.isOpen && this.#state.is !== 'broken' && !this.#checkFile()
    await this.#tables.close()
    if (isWhole) recordCleanEnd(this.#tables.folder)
  }

  #watchFile(): void {
    this.#fileTimer = this.#clock.after(FILE_CHECK_MS, () => {
      this.#checkFile()
      if (this.#state.is !== 'broken') this.#watchFile()
    })
  }

  /** Breaks the database when its file or its data directory is not ours any more, and returns whether that is so. */
  #checkFile(): boolean {
    this.#fileCheckedAt = this.#clock.monotonic()
    if (this.#state.is === 'broken') {
      this.#noticeTakeOver(this.#state)
      return false
    }
    const loss = this.#file.findLoss()
    const takenOver = loss === undefined ? this.#findOwnerLoss() : undefined
    if (loss !== undefined) this.#onFileLost(loss)
    if (takenOver !== undefined) this.#break(takenOver, { takenOver: true })
    return loss !== undefined || takenOver !== undefined
  }

  /** A process whose disk failed goes on sending until its end, but not once another one owns the data directory. */
  #noticeTakeOver(state: Extract<StoreState, { is: 'broken' }>): void {
    const reason = state.takenOver === true || this.#closing ? undefined : this.#findOwnerLoss()
    if (reason !== undefined) this.#state = { ...state, reason, takenOver: true }
  }

  #onFileLost(loss: FileLoss): void {
    const reason = `${loss.reason}; start again to learn how to restore it`
    // Every further access to the missing pages would end the process with SIGBUS.
    if (loss.is === 'truncated') this.#tables.abandon()
    this.#break(reason, this.#tables.isOpen ? { rescue: this.#beginRescue() } : {})
  }

  #beginRescue(): RescueCopy {
    const folder = `${this.#tables.folder}.rescued-${this.#clock.now()}`
    const bytes = this.#tables.usedBytes()
    this.#log.info({ folder, bytes }, 'the content of the lost database is being saved')
    const ended = this.#rescue(folder)
    this.#backups.add(ended)
    return { bytes, ended }
  }

  /** Copies the content of a removed file, which stays readable until it is closed. */
  async #rescue(folder: string): Promise<string> {
    const unfinished = `${folder}${UNFINISHED_COPY}`
    try {
      await this.#tables.copy(unfinished)
      await rename(unfinished, folder)
      this.#log.info({ folder }, 'the content of the lost database is saved')
      return `its content is saved in ${folder}`
    } catch (error) {
      const reason = messageOf(error)
      this.#log.error({ reason }, 'the content of the lost database could not be saved')
      return `its content could not be saved: ${reason}`
    }
  }

  #refusalReason(): Error | undefined {
    if (this.#state.is === 'broken') return new StoreBroken(this.#state.reason)
    return this.#closing ? new StoreClosed('the store is closed') : undefined
  }

  #enqueue(commit: BatchedCommit): void {
    const mayJoin =
      this.#queue.length === 0 && this.#openBatch?.hasSpaceFor(commit) === true && this.#hasTablesFor(commit)
    if (this.#openBatch !== undefined && mayJoin) {
      this.#addToBatch(this.#openBatch, commit)
      return
    }
    this.#queue.push(commit)
    this.#beginNext()
  }

  /** Begins the next batch, unless a batch is open or in flight. */
  #beginNext(): void {
    if (
      this.#openBatch !== undefined ||
      this.#batchInFlight !== undefined ||
      this.#commitsToRetry !== undefined
    )
      return
    if (this.#queue.length > 0) this.#begin(this.#queue.splice(0))
    else this.#notifyIdle()
  }

  #begin(commits: readonly BatchedCommit[]): void {
    if (commits.every((commit) => commit.puts.length === 0)) {
      for (const commit of commits) commit.resolve()
      this.#beginNext()
      return
    }
    const batch = this.#prepareBatch(commits)
    if (batch === undefined) return
    this.#openBatch = batch
    for (const commit of commits) this.#addToBatch(batch, commit)
    if (this.#openBatch === batch && !batch.hasWrites()) {
      this.#dropEmptyBatch(batch)
      return
    }
    const refused = this.#refusalReason()
    // The database broke on one of the commits; the commits after it were not tried.
    if (this.#state.is === 'broken' && refused !== undefined)
      for (const commit of commits) commit.reject(refused)
  }

  /** Every commit with writes was rejected, so there is no transaction to wait for. */
  #dropEmptyBatch(batch: Batch): void {
    this.#openBatch = undefined
    for (const commit of batch.commits) commit.resolve()
    this.#beginNext()
  }

  /** Does everything that can fail on a full disk before anything is written. */
  #prepareBatch(commits: readonly BatchedCommit[]): Batch | undefined {
    // A broken database rejects the commits that wait for a retry.
    this.#commitsToRetry = commits
    if (this.#checkFile()) return undefined
    this.#commitsToRetry = undefined
    try {
      const storedRows = new StoredRunRows(this.#tables)
      const kept = commits.flatMap(({ halfWritten }) => storedRows.keptBy(halfWritten))
      const keptCost = kept.reduce((sum, row) => sum + maxBytesFor(row), 0)
      const keptBytes = kept.reduce((sum, row) => sum + row.length + NODE_BYTES, 0)
      const cost = commits.reduce((sum, commit) => sum + commit.cost, keptCost)
      const payload = commits.reduce((sum, commit) => sum + commit.payload, keptBytes)
      const bytesMax = this.#preallocation.reserve(
        this.#preallocation.upperBound(cost, payload) + SPARE_BYTES,
      )
      this.#makeTables(commits)
      return new Batch(this.#tables, storedRows, this.eventBuffer, this.runs, bytesMax)
    } catch (error) {
      // No other batch may begin until the failure is classified.
      this.#commitsToRetry = commits
      void this.#onCommitFailed(commits, error)
      return undefined
    }
  }

  #addToBatch(batch: Batch, commit: BatchedCommit): void {
    if (this.#openBatch !== batch) return
    try {
      batch.add(commit)
    } catch (error) {
      // All arguments were checked before, so this is a bug, or the database was closed underneath.
      this.#commitsToRetry = batch.commits
      this.#break(`the database refused a write: ${messageOf(error)}`)
    }
  }

  #hasTablesFor(commit: BatchedCommit): boolean {
    return commit.puts.every(
      (put) => put.to !== 'snapshot' || this.#tables.snapshotsOf(put.kind) !== undefined,
    )
  }

  #makeTables(commits: readonly BatchedCommit[]): void {
    for (const commit of commits) {
      for (const put of commit.puts) {
        if (put.to === 'snapshot' && this.#tables.snapshotsOf(put.kind) === undefined)
          this.#tables.addSnapshots(put.kind)
      }
    }
  }

  /** Called at the end of the turn of the event loop; lmdb closes the transaction right after this. */
  #submit(): void {
    this.#finishBrokenBatch()
    const batch = this.#openBatch
    if (batch === undefined) return
    this.#openBatch = undefined
    this.#batchInFlight = batch
    this.#preallocation.use(batch.cost)
    this.#submittedAt = this.#clock.monotonic()
    try {
      const committed = batch.finish() ?? Promise.resolve()
      committed.then(
        () => this.#onCommitted(batch),
        (error) => this.#onCommitFailed(batch.commits, error),
      )
      queueMicrotask(() => this.#tables.ignoreBatchRejection())
    } catch (error) {
      this.#commitsToRetry = batch.commits
      this.#break(`the database refused a write: ${messageOf(error)}`)
    }
  }

  /**
   * Writes the counts and structures of the broken batch, without which its puts would be miscounted and unreadable.
   */
  #finishBrokenBatch(): void {
    const batch = this.#brokenBatch
    if (batch === undefined) return
    this.#brokenBatch = undefined
    try {
      batch.finish()?.catch(() => undefined)
      queueMicrotask(() => this.#tables.ignoreBatchRejection())
    } catch (error) {
      this.#log.warn({ reason: messageOf(error) }, 'the final counts of the database could not be written')
    }
  }

  #onCommitted(batch: Batch): void {
    this.#batchInFlight = undefined
    this.#checkFile()
    const refused = this.#state.is === 'broken' ? this.#refusalReason() : undefined
    if (refused !== undefined) {
      // The transaction may have gone to a file that no path names any more.
      for (const commit of batch.commits) commit.reject(refused)
      return
    }
    batch.onCommitted()
    if (batch.counts !== undefined) this.runs.counts = batch.counts
    if (batch.structures !== undefined) this.#tables.codec.onCommitted(batch.structures)
    for (const commit of batch.commits) this.eventBuffer.onCommitted(commit.puts, batch.smallLogChunks)
    this.#measure(batch)
    for (const commit of batch.commits) commit.resolve()
    this.#retryMs = RETRY_MS_FIRST
    if (this.#state.is === 'degraded' && !this.#closing) void this.#restoreEmergencySpace()
    this.#beginNext()
  }

  #measure(batch: Batch): void {
    const writes = batch.commits.reduce((sum, commit) => sum + commit.puts.length, 0)
    this.#meters.observe('store_commit_seconds', (this.#clock.monotonic() - this.#submittedAt) / 1000)
    this.#meters.count('store_commit_writes_total', undefined, writes)
  }

  async #onCommitFailed(commits: readonly BatchedCommit[], error: unknown): Promise<void> {
    this.runs.unfinished.forget()
    const failure = await classifyCommitError(error, this.#tables.folder)
    this.#batchInFlight = undefined
    this.#commitsToRetry = commits
    this.#checkFile()
    if (this.#state.is === 'broken') {
      this.#refuseWaiting(new StoreBroken(this.#state.reason))
      return
    }
    if (failure.is === 'broken') {
      this.#break(failure.reason)
      return
    }
    this.#setState({ is: 'degraded', reason: failure.reason })
    if (this.#closing) {
      this.#refuseWaiting(new StoreClosed('the store closed while its disk was full'))
      return
    }
    this.#freeEmergencySpace()
    this.#timer?.()
    this.#timer = this.#clock.after(this.#retryMs, () => {
      this.#reopening = this.#retry()
    })
    this.#retryMs = Math.min(this.#retryMs * 2, RETRY_MS_MAX)
  }

  async #retry(): Promise<void> {
    await Promise.allSettled(this.#backups)
    // A copy that saves a lost file needs the open database.
    if (this.#checkFile() || this.#state.is === 'broken') return
    try {
      await this.#tables.reopen(() => this.#refuseLostFile())
    } catch (error) {
      if (this.#state.is === 'degraded')
        this.#break(`the database could not be opened again: ${messageOf(error)}`)
      return
    }
    const commits = this.#commitsToRetry
    if (commits === undefined) return
    this.#commitsToRetry = undefined
    this.#begin(commits)
  }

  /** Throws when the file was lost while the database was closed, so that its content is gone. */
  #refuseLostFile(): void {
    const loss = this.#file.findLoss()
    if (loss !== undefined) throw new DatabaseLost(`${loss.reason}; start again to learn how to restore it`)
  }

  /** Keeps the emergency space, because commits may still need it. */
  #onFilesFull(): void {
    if (this.#state.is !== 'ready' || this.#closing) return
    this.#setState({ is: 'degraded', reason: describeFullDisk(this.#tables.folder) })
    this.#timer?.()
    this.#timer = this.#clock.after(EMERGENCY_SPACE_RETRY_MS, () => void this.#restoreEmergencySpace())
  }

  /** The first commits of a host that starts on a full disk may find space in the file of the database. */
  async #checkSpaceAtStart(): Promise<void> {
    const isThere = await this.#emergencySpace.make()
    if (!isThere || this.#emergencySpace.isDiskNearlyFull()) this.#onFilesFull()
  }

  /** The state becomes ready only when the emergency space exists again, which the next full disk will need. */
  async #restoreEmergencySpace(): Promise<void> {
    const isThere = (await this.#emergencySpace.make()) && (await this.#emergencySpace.hasSpareSpace())
    if (this.#state.is !== 'degraded' || this.#commitsToRetry !== undefined || this.#closing) return
    if (isThere) return this.#setState({ is: 'ready' })
    this.#timer?.()
    this.#timer = this.#clock.after(EMERGENCY_SPACE_RETRY_MS, () => void this.#restoreEmergencySpace())
  }

  #freeEmergencySpace(): void {
    try {
      this.#emergencySpace.free()
    } catch (error) {
      this.#log.warn({ reason: messageOf(error) }, 'the emergency space could not be freed')
    }
  }

  #break(reason: string, how: { readonly rescue?: RescueCopy; readonly takenOver?: true } = {}): void {
    this.#timer?.()
    // The first reason is the cause of later ones.
    if (this.#state.is !== 'broken') this.#setState({ is: 'broken', reason, ...how })
    this.#brokenBatch = this.#openBatch
    this.#openBatch = undefined
    this.#batchInFlight = undefined
    this.#refuseWaiting(new StoreBroken(reason))
  }

  #refuseWaiting(error: Error): void {
    const waiting = [...(this.#commitsToRetry ?? []), ...this.#queue.splice(0)]
    this.#commitsToRetry = undefined
    for (const commit of waiting) commit.reject(error)
    this.#notifyIdle()
  }

  #setState(state: StoreState): void {
    const same = this.#state.is === state.is
    this.#state = state
    this.#meters.gauge('store_state', { ready: 0, degraded: 1, broken: 2 }[state.is])
    if (same) return
    if (state.is === 'ready') this.#log.info({}, 'the store accepts writes again')
    else this.#log.error({ reason: state.reason }, `the store is ${state.is}`)
    for (const listener of this.#listeners) this.#notify(listener, state)
  }

  /** A listener that throws must not stop the recovery of the store. */
  #notify(listener: (state: StoreState) => void, state: StoreState): void {
    try {
      listener(state)
    } catch (error) {
      this.#log.error({ reason: messageOf(error) }, 'a listener for the state of the store failed')
    }
  }

  #idle(): Promise<void> {
    const busy = this.#openBatch !== undefined || this.#batchInFlight !== undefined || this.#queue.length > 0
    return busy ? new Promise((resolve) => this.#whenIdle.push(resolve)) : Promise.resolve()
  }

  #notifyIdle(): void {
    for (const resolve of this.#whenIdle.splice(0)) resolve()
  }
}
