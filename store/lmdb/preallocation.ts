/**
 * Room inside the database file, taken before a transaction needs it.
 *
 * LMDB writes new pages behind the last one, so on a full disk it is LMDB that meets the error, and lmdb-js 3.5.6
 * overruns a buffer while it words the message (`last_error`, 100 bytes). So the file is kept longer than what is in
 * use: we write the zeros, we meet the full disk, and a transaction only ever overwrites room that is there. A file
 * system that never overwrites in place (btrfs, zfs) makes no such promise; there the ledger sees the error late.
 */
import { closeSync, fstatSync, openSync, writeSync } from 'node:fs'

export const PAGE_BYTES = 4096
/** What comes with each record at most: its node on the page, and its key. */
export const NODE_BYTES = 128
/** A longer value may get pages of its own. */
const LEAF_VALUE_BYTES = PAGE_BYTES / 4
const STEP_BYTES = 1024 * 1024
/** The list of free pages and the structures may grow; kept back at all times. */
const OVERHEAD_BYTES = 1024 * 1024
/** What every transaction writes beside its records: the tables' own records, free pages, counts. */
const BATCH_BYTES = 64 * 1024
/** Taken at a time, so that the file is not looked at for every transaction. */
const AHEAD_BYTES = 4 * 1024 * 1024

export class Preallocation {
  readonly #fd: number
  readonly #usedBytes: () => number
  #freeBytes = 0
  readonly #zeros = Buffer.alloc(STEP_BYTES)

  /** `usedBytes`: how far into the file pages are in use. */
  constructor(file: string, usedBytes: () => number) {
    this.#fd = openSync(file, 'r+')
    this.#usedBytes = usedBytes
  }

  /**
   * Bytes that a transaction may surely write, at least `wanted` of them. Throws what the file system says when there
   * is no room for that. Only while no transaction is open or in flight.
   */
  reserve(wanted: number): number {
    if (this.#freeBytes < wanted) this.#freeBytes = this.#extend(wanted + AHEAD_BYTES)
    return this.#freeBytes
  }

  /**
   * Reckoned record by record, a transaction of thousands would ask for a page or three each, though they share pages.
   * None can write more than every page in use anew, each of them split by the little that comes to it, and what is
   * new on pages that are at least a third full.
   */
  upperBound(cost: number, payload: number): number {
    if (cost <= AHEAD_BYTES) return cost
    const used = this.#usedBytes()
    const split = Math.min(used, (payload / NODE_BYTES) * PAGE_BYTES)
    return Math.min(cost, used + split + 3 * payload + BATCH_BYTES)
  }

  /** A transaction departs that may have written so much. Most write less, which the next look at the file finds. */
  use(bytes: number): void {
    this.#freeBytes -= bytes + BATCH_BYTES
  }

  #extend(wanted: number): number {
    const used = this.#usedBytes()
    const needed = used + wanted + OVERHEAD_BYTES
    let { size } = fstatSync(this.#fd)
    while (size < needed) size += writeSync(this.#fd, this.#zeros, 0, STEP_BYTES - (size % STEP_BYTES), size)
    return size - used - OVERHEAD_BYTES
  }

  close(): void {
    closeSync(this.#fd)
  }
}

/**
 * At most this much of the file is written anew for one record: the leaf it lies in, which may be split, its share of
 * the branches above, and pages of its own when it is too large for a leaf.
 */
export function maxBytesFor(bytes: Uint8Array | null): number {
  const length = bytes?.length ?? 0
  return (3 + (length > LEAF_VALUE_BYTES ? Math.ceil(length / PAGE_BYTES) : 0)) * PAGE_BYTES
}
