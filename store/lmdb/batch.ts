/**
 * The transaction that commits become part of.
 *
 * All that can be refused is refused before the first put of a commit, so that it costs that commit only. Within one
 * transaction reads see nothing of it, so a batch remembers what later commits of it build on.
 */

import { messageOf } from '../errors.ts'
import { requireNextIndex } from '../event-order.ts'
import type { Structures } from './codec.ts'
import type { Put, RunPut } from './encode-writes.ts'
import { type EventBuffer, recordText } from './event-buffer.ts'
import { type RunCounts, RunIndexChanges } from './runs.ts'
import type { Table, Tables, TextTable } from './tables.ts'

export interface BatchedCommit {
  readonly puts: readonly Put[]
  /** Bytes of the file it may take at most. */
  readonly cost: number
  /** Bytes of the records themselves, keys and all. */
  readonly payload: number
  resolve(): void
  reject(error: Error): void
}

/** Commits that share one transaction. Until `finish` others may join; nothing else may write meanwhile. */
export class Batch {
  readonly commits: BatchedCommit[] = []
  /** Run counts after this batch, when it changes them. */
  counts: RunCounts | undefined
  /** Shapes written down with this batch, when it met new ones. */
  structures: Structures | undefined
  readonly #tables: Tables
  readonly #eventBuffer: EventBuffer
  readonly #runIndex: RunIndexChanges
  /** Where the events of a run go on after this batch, as far as it has any. */
  readonly #nextIndexes = new Map<string, number>()
  #transaction: Promise<unknown> | undefined
  /** Bytes of the file that are surely there for what joins. */
  readonly #bytesMax: number
  cost = 0

  constructor(tables: Tables, tail: EventBuffer, counts: RunCounts, room: number) {
    this.#bytesMax = room
    this.#tables = tables
    this.#eventBuffer = tail
    this.#runIndex = new RunIndexChanges(tables, counts, this)
  }

  hasSpaceFor(commit: BatchedCommit): boolean {
    return this.cost + commit.cost <= this.#bytesMax
  }

  /** All that can fail in reading is read before the first write, so that a damaged record costs its commit only. */
  add(commit: BatchedCommit): void {
    try {
      for (const put of commit.puts) if (put.to === 'run') this.#runIndex.load(put.key)
      this.#checkEventOrder(commit.puts)
    } catch (error) {
      commit.reject(error instanceof Error ? error : new Error(messageOf(error)))
      return
    }
    this.cost += commit.cost
    this.commits.push(commit)
    for (const put of commit.puts) this.#apply(put)
  }

  /** Throws when events of the commit would leave a hole or repeat an index. */
  #checkEventOrder(puts: readonly Put[]): void {
    const next = new Map<string, number>()
    for (const put of puts) {
      if (put.to === 'log' && put.record === null) next.set(put.key, 0)
      if (put.to !== 'tail' || put.bytes === null || put.replacesLost) continue
      const { runId, first, count } = put
      requireNextIndex(
        runId,
        first,
        next.get(runId) ?? this.#nextIndexes.get(runId) ?? this.#eventBuffer.nextIndex(runId),
      )
      next.set(runId, first + count)
    }
    for (const [runId, index] of next) this.#nextIndexes.set(runId, index)
  }

  /** Whether there is a transaction at all, and so an end of it to wait for. */
  hasWrites(): boolean {
    return this.#transaction !== undefined
  }

  /** The last puts of the batch. Answers when all is on disk; undefined when there was nothing to write. */
  finish(): Promise<unknown> | undefined {
    this.counts = this.#runIndex.counts()
    if (this.counts !== undefined)
      this.#transaction = this.#tables.meta.put('counts', JSON.stringify(this.counts))
    this.structures = this.#tables.codec.newStructures()
    if (this.structures !== undefined)
      this.#transaction = this.#tables.meta.put('structures', this.structures.text)
    return this.#transaction
  }

  /** Every put of one turn shares one promise: that of the transaction. */
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
      case 'tail':
        this.write(this.#tables.eventChunks, put.key, put.bytes)
        break
      case 'log':
        this.#writeText(this.#tables.eventFiles, put.key, put.record && recordText(put.record))
        break
      case 'meta':
        this.#writeText(this.#tables.meta, put.key, put.text)
        break
    }
  }

  #applyRun(put: RunPut): void {
    if (put.bytes === null) this.#runIndex.remove(put.key)
    else this.#runIndex.put(put.key, put.bytes, put.head)
  }

  #applySnapshot(kind: string, key: string, bytes: Uint8Array | null): void {
    const table = this.#tables.snapshotsOf(kind)
    if (table === undefined) throw new Error(`no table was made for the kind ${kind}`)
    this.write(table, key, bytes)
  }

  #writeText(table: TextTable, key: string, text: string | null): void {
    this.#transaction = text === null ? table.remove(key) : table.put(key, text)
  }
}
