/**
 * What was asked of the ledger, as bytes, and the transaction it becomes part of.
 *
 * Writes are encoded in the turn in which they were asked for: what the caller's objects become afterwards cannot
 * leak into an earlier promise, and a batch that has to be written again is the same batch.
 */
import type { Write } from '../../core/ports.ts'
import { textOf } from '../failures.ts'
import type { Structures } from './codec.ts'
import { costOf } from './reserve.ts'
import { type Counts, Drafts, type Head, headOf, stored } from './runs.ts'
import { isKey, type Table, type Tables } from './tables.ts'

export type Put =
  | { readonly kind: string; readonly key: string; readonly bytes: Uint8Array | null }
  | { readonly kind: undefined; readonly key: string; readonly bytes: Uint8Array; readonly head: Head }
  | { readonly kind: undefined; readonly key: string; readonly bytes: null }

export interface Commit {
  readonly puts: readonly Put[]
  /** Bytes of the file it may take at most. */
  readonly cost: number
  resolve(): void
  reject(error: Error): void
}

/** Throws for what cannot be stored at all: an empty or overlong key, a value that is not plain data. */
export function encodeWrites(tables: Tables, writes: readonly Write[]): Put[] {
  return writes.map((write) => {
    const key = write.table === 'life' ? write.key : write.id
    if (!isKey(key))
      throw new TypeError(`the store takes keys of 1 to 512 bytes, not ${JSON.stringify(key.slice(0, 80))}`)
    if (write.table === 'life') {
      return {
        kind: write.kind,
        key,
        bytes: write.record === null ? null : tables.codec.encode(write.record),
      }
    }
    if (write.run === null) return { kind: undefined, key, bytes: null }
    return { kind: undefined, key, bytes: tables.codec.encode(stored(write.run)), head: headOf(write.run) }
  })
}

/** A run is a record and its entries in two indexes: one of a status, two of a ticket, each also taken away. */
const RUN_COST = 6 * costOf(null)

export function costOfPuts(puts: readonly Put[]): number {
  return puts.reduce((sum, put) => sum + costOf(put.bytes) + (put.kind === undefined ? RUN_COST : 0), 0)
}

/** Commits that share one transaction. Until `finish` others may join; nothing else may write meanwhile. */
export class Batch {
  readonly commits: Commit[] = []
  /** Run counts after this batch, when it changes them. */
  counts: Counts | undefined
  /** Shapes written down with this batch, when it met new ones. */
  structures: Structures | undefined
  readonly #tables: Tables
  readonly #drafts: Drafts
  #landing: Promise<unknown> | undefined
  /** Bytes of the file that are surely there for what joins. */
  readonly #room: number
  cost = 0

  constructor(tables: Tables, counts: Counts, room: number) {
    this.#room = room
    this.#tables = tables
    this.#drafts = new Drafts(tables, counts, this)
  }

  hasRoom(commit: Commit): boolean {
    return this.cost + commit.cost <= this.#room
  }

  /** All that can fail in reading is read before the first write, so that a damaged record costs its commit only. */
  add(commit: Commit): void {
    try {
      for (const put of commit.puts) if (put.kind === undefined) this.#drafts.look(put.key)
    } catch (error) {
      commit.reject(error instanceof Error ? error : new Error(textOf(error)))
      return
    }
    this.cost += commit.cost
    this.commits.push(commit)
    for (const put of commit.puts) this.#apply(put)
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
    if (put.kind !== undefined) this.#applyLife(put.kind, put.key, put.bytes)
    else if (put.bytes === null) this.#drafts.remove(put.key)
    else this.#drafts.put(put.key, put.bytes, put.head)
  }

  #applyLife(kind: string, key: string, bytes: Uint8Array | null): void {
    const table = this.#tables.life(kind)
    if (table === undefined) throw new Error(`no table was made for the kind ${kind}`)
    this.write(table, key, bytes)
  }
}
