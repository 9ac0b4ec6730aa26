/**
 * The transaction that commits become part of.
 *
 * All that can be refused is refused before the first put of a commit, so that it costs that commit only. Within one
 * transaction reads see nothing of it, so a batch remembers what later commits of it build on.
 */

import { textOf } from '../errors.ts'
import { requireNext } from '../event-order.ts'
import type { Structures } from './codec.ts'
import type { Put, RunPut } from './encode-writes.ts'
import { recordText, type Tail } from './event-buffer.ts'
import { type Counts, Drafts } from './runs.ts'
import type { Table, Tables, TextTable } from './tables.ts'

export interface Commit {
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
  readonly commits: Commit[] = []
  /** Run counts after this batch, when it changes them. */
  counts: Counts | undefined
  /** Shapes written down with this batch, when it met new ones. */
  structures: Structures | undefined
  readonly #tables: Tables
  readonly #tail: Tail
  readonly #drafts: Drafts
  /** Where the events of a run go on after this batch, as far as it has any. */
  readonly #next = new Map<string, number>()
  #landing: Promise<unknown> | undefined
  /** Bytes of the file that are surely there for what joins. */
  readonly #room: number
  cost = 0

  constructor(tables: Tables, tail: Tail, counts: Counts, room: number) {
    this.#room = room
    this.#tables = tables
    this.#tail = tail
    this.#drafts = new Drafts(tables, counts, this)
  }

  hasRoom(commit: Commit): boolean {
    return this.cost + commit.cost <= this.#room
  }

  /** All that can fail in reading is read before the first write, so that a damaged record costs its commit only. */
  add(commit: Commit): void {
    try {
      for (const put of commit.puts) if (put.to === 'run') this.#drafts.look(put.key)
      this.#followOn(commit.puts)
    } catch (error) {
      commit.reject(error instanceof Error ? error : new Error(textOf(error)))
      return
    }
    this.cost += commit.cost
    this.commits.push(commit)
    for (const put of commit.puts) this.#apply(put)
  }

  /** Throws when events of the commit would leave a hole or repeat an index. */
  #followOn(puts: readonly Put[]): void {
    const next = new Map<string, number>()
    for (const put of puts) {
      if (put.to === 'log' && put.record === null) next.set(put.key, 0)
      if (put.to !== 'tail' || put.bytes === null || put.behind) continue
      const { runId, first, count } = put
      requireNext(runId, first, next.get(runId) ?? this.#next.get(runId) ?? this.#tail.next(runId))
      next.set(runId, first + count)
    }
    for (const [runId, index] of next) this.#next.set(runId, index)
  }

  /** Whether there is a transaction at all, and so an end of it to wait for. */
  hasWrites(): boolean {
    return this.#landing !== undefined
  }

  /** The last puts of the batch. Answers when all is on disk; undefined when there was nothing to write. */
  finish(): Promise<unknown> | undefined {
    this.counts = this.#drafts.counts()
    if (this.counts !== undefined)
      this.#landing = this.#tables.meta.put('counts', JSON.stringify(this.counts))
    this.structures = this.#tables.codec.grown()
    if (this.structures !== undefined)
      this.#landing = this.#tables.meta.put('structures', this.structures.text)
    return this.#landing
  }

  /** Every put of one turn shares one promise: that of the transaction. */
  write(table: Table, key: string, bytes: Uint8Array | null): void {
    this.#landing = bytes === null ? table.remove(key) : table.put(key, bytes)
  }

  #apply(put: Put): void {
    switch (put.to) {
      case 'snapshot':
        this.#applyLife(put.kind, put.key, put.bytes)
        break
      case 'run':
        this.#applyRun(put)
        break
      case 'key-value':
        this.write(this.#tables.facts, put.key, put.bytes)
        break
      case 'tail':
        this.write(this.#tables.tail, put.key, put.bytes)
        break
      case 'log':
        this.#writeText(this.#tables.log, put.key, put.record && recordText(put.record))
        break
      case 'meta':
        this.#writeText(this.#tables.meta, put.key, put.text)
        break
    }
  }

  #applyRun(put: RunPut): void {
    if (put.bytes === null) this.#drafts.remove(put.key)
    else this.#drafts.put(put.key, put.bytes, put.head)
  }

  #applyLife(kind: string, key: string, bytes: Uint8Array | null): void {
    const table = this.#tables.life(kind)
    if (table === undefined) throw new Error(`no table was made for the kind ${kind}`)
    this.write(table, key, bytes)
  }

  #writeText(table: TextTable, key: string, text: string | null): void {
    this.#landing = text === null ? table.remove(key) : table.put(key, text)
  }
}
