/**
 * The commits that share one transaction.
 *
 * Everything that can fail is checked before the first put of a commit, so that a bad commit fails alone. Reads
 * within a transaction do not see its writes, so the batch remembers what its later commits depend on.
 */
import { messageOf } from '../../protocol/message-of.ts'
import { requireNextIndex } from '../event-order.ts'
import type { Structures } from './codec.ts'
import type { ChunkPut, Put, RunPut } from './encode-writes.ts'
import { type EventBuffer, recordText } from './event-buffer.ts'
import { SMALL_LOG_BYTES_MAX } from './event-chunks.ts'
import { maxBytesFor } from './preallocation.ts'
import { type DurableRunIndex, type RunCounts, RunIndexChanges } from './run-index.ts'
import { RUN_KIND, RunRows, type StoredRunRows } from './run-rows.ts'
import type { Table } from './table.ts'
import type { Tables } from './tables.ts'

export interface BatchedCommit {
  readonly puts: readonly Put[]
  /** The runs of which the puts write one part only. */
  readonly halfWritten: readonly string[]
  /** The most bytes of the file that the commit may use. */
  readonly cost: number
  /** Bytes of the records, including keys. */
  readonly payload: number
  resolve(): void
  reject(error: Error): void
}

/** Commits that share one transaction. More commits may be added until `finish`; nothing else may write meanwhile. */
export class Batch {
  readonly commits: BatchedCommit[] = []
  /** Run counts after this batch, when it changes them. */
  counts: RunCounts | undefined
  /** msgpack structures stored with this batch, when it introduced new ones. */
  structures: Structures | undefined
  readonly #tables: Tables
  readonly #eventBuffer: EventBuffer
  readonly #runIndex: RunIndexChanges
  readonly #storedRows: StoredRunRows
  readonly #runRows: RunRows
  /** The next event index of each run that this batch writes. */
  readonly #nextIndexes = new Map<string, number>()
  /** The bytes of each small log that this batch writes; `undefined` for a log that is large now. */
  readonly #smallLogBytes = new Map<string, number | undefined>()
  /** The chunks that this batch writes to small logs. */
  readonly smallLogChunks = new Set<Put>()
  #transaction: Promise<unknown> | undefined
  /** Preallocated bytes of the file for this batch. */
  readonly #bytesMax: number
  cost = 0

  constructor(
    tables: Tables,
    storedRows: StoredRunRows,
    eventBuffer: EventBuffer,
    runs: DurableRunIndex,
    bytesMax: number,
  ) {
    this.#bytesMax = bytesMax
    this.#tables = tables
    this.#eventBuffer = eventBuffer
    this.#runIndex = new RunIndexChanges(tables, runs, this)
    this.#storedRows = storedRows
    this.#runRows = new RunRows(tables, storedRows, this)
  }

  hasSpaceFor(commit: BatchedCommit): boolean {
    return this.cost + this.#costOf(commit) <= this.#bytesMax
  }

  #costOf({ halfWritten, cost }: BatchedCommit): number {
    return this.#storedRows.keptBy(halfWritten).reduce((sum, row) => sum + maxBytesFor(row), cost)
  }

  /**
   * Adds a commit, or rejects it. All reads happen before the first write, so that a damaged record fails only its
   * own commit.
   */
  add(commit: BatchedCommit): void {
    try {
      for (const put of commit.puts) if (put.to === 'run') this.#runIndex.load(put.key)
      this.#runRows.load(commit.halfWritten)
      this.#checkEventOrder(commit.puts)
    } catch (error) {
      commit.reject(error instanceof Error ? error : new Error(messageOf(error)))
      return
    }
    this.cost += this.#costOf(commit)
    this.commits.push(commit)
    for (const put of commit.puts) this.#apply(put)
    this.#runRows.write()
  }

  /** Throws when events of the commit would leave a gap or repeat an index. Reads what choosing their table needs. */
  #checkEventOrder(puts: readonly Put[]): void {
    const next = new Map<string, number>()
    for (const put of puts) {
      if (put.to === 'event-file' && put.record === null) next.set(put.key, 0)
      if (put.to !== 'event-chunk' || put.bytes === null || put.replacesLost) continue
      const { runId, first, count } = put
      if (!this.#smallLogBytes.has(runId))
        this.#smallLogBytes.set(runId, this.#eventBuffer.smallLogBytes(runId))
      requireNextIndex(
        runId,
        first,
        next.get(runId) ?? this.#nextIndexes.get(runId) ?? this.#eventBuffer.nextIndex(runId),
      )
      next.set(runId, first + count)
    }
    for (const [runId, index] of next) this.#nextIndexes.set(runId, index)
  }

  /** Whether the batch has a transaction to wait for. */
  hasWrites(): boolean {
    return this.#transaction !== undefined
  }

  /** Writes the batch's last records. Returns a promise for the commit; undefined when there was nothing to write. */
  finish(): Promise<unknown> | undefined {
    this.counts = this.#runIndex.counts()
    if (this.counts !== undefined) this.#writeText(this.#tables.meta, 'counts', JSON.stringify(this.counts))
    this.structures = this.#tables.codec.newStructures()
    if (this.structures !== undefined) this.#writeText(this.#tables.meta, 'structures', this.structures.text)
    return this.#transaction
  }

  /** The transaction is on disk. */
  onCommitted(): void {
    this.#runIndex.onCommitted()
  }

  /** All puts of one turn of the event loop return the same promise, that of the transaction. */
  write(table: Table, key: string, bytes: Uint8Array | null): void {
    this.#transaction = bytes === null ? table.remove(key) : table.put(key, bytes)
  }

  #apply(put: Put): void {
    switch (put.to) {
      case 'snapshot':
        this.#applySnapshot(put.kind, put.key, put.bytes)
        break
      case 'run':
        this.#applyRun(put)
        break
      case 'key-value':
        this.write(this.#tables.keyValues, put.key, put.bytes)
        break
      case 'small-log':
        this.write(this.#tables.smallLogs, put.key, null)
        break
      case 'event-chunk':
        this.write(put.bytes === null ? this.#tables.eventChunks : this.#tableOf(put), put.key, put.bytes)
        break
      case 'event-file':
        this.#smallLogBytes.set(put.key, put.record === null ? 0 : undefined)
        this.#writeText(this.#tables.eventFiles, put.key, put.record && recordText(put.record))
        break
      case 'row':
        this.write(this.#tables.named(put.table), put.key, put.bytes)
        break
      case 'meta':
        this.#writeText(this.#tables.meta, put.key, put.text)
        break
    }
  }

  /** A chunk goes to the small log of its run, unless the log is large or becomes so. */
  #tableOf(put: ChunkPut): Table {
    const { runId, bytes } = put
    const before = this.#smallLogBytes.get(runId)
    const after = before === undefined ? undefined : before + bytes.length
    const isSmall = after !== undefined && after <= SMALL_LOG_BYTES_MAX
    this.#smallLogBytes.set(runId, isSmall ? after : undefined)
    if (!isSmall) return this.#tables.eventChunks
    this.smallLogChunks.add(put)
    return this.#tables.smallLogs
  }

  #applyRun(put: RunPut): void {
    this.#runIndex.change(put.key, put.bytes === null ? null : put.fields)
    this.#runRows.setRecord(put.key, put.bytes)
  }

  #applySnapshot(kind: string, key: string, bytes: Uint8Array | null): void {
    if (kind === RUN_KIND) {
      this.#runRows.setActor(key, bytes)
      return
    }
    const table = this.#tables.snapshotsOf(kind)
    if (table === undefined) throw new Error(`no table was made for the kind ${kind}`)
    this.write(table, key, bytes)
  }

  #writeText(table: Table, key: string, text: string | null): void {
    this.write(table, key, text === null ? null : Buffer.from(text))
  }
}
