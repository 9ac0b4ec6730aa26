/**
 * Preallocates space inside the database file before a transaction needs it.
 *
 * LMDB appends new pages, so on a full disk LMDB itself would see the error, and lmdb-js 3.5.6 overruns a buffer
 * while it formats the message (`last_error`, 100 bytes). So the file is kept longer than the used part: this class
 * writes the zeros and sees the full disk, and a transaction only overwrites existing space. On file systems that
 * never overwrite in place (btrfs, zfs) this does not work, and the database sees the error late.
 */
import { closeSync, fstatSync, openSync, writeSync } from 'node:fs'

export const PAGE_BYTES = 4096
/** Most bytes that come with each record: its node on the page, and its key. */
export const NODE_BYTES = 128
/** A longer value may need its own pages. */
const LEAF_VALUE_BYTES = PAGE_BYTES / 4
const STEP_BYTES = 1024 * 1024
/** Always kept free, because the list of free pages and the structures may grow. */
const OVERHEAD_BYTES = 1024 * 1024
/** Bytes that every transaction writes besides its records: table records, free pages, counts. */
const BATCH_BYTES = 64 * 1024
/** Preallocated at a time, so that the file is not inspected for every transaction. */
const AHEAD_BYTES = 4 * 1024 * 1024

export class Preallocation {
  readonly #fd: number
  readonly #usedBytes: () => number
  #freeBytes = 0
  readonly #zeros = Buffer.alloc(STEP_BYTES)

  /** `usedBytes`: the end of the used pages of the file. */
  constructor(file: string, usedBytes: () => number) {
    this.#fd = openSync(file, 'r+')
    this.#usedBytes = usedBytes
  }

  /**
   * Returns how many bytes a transaction may write, at least `wanted`. Throws the file system's error when the disk
   * is full. Call it only while no transaction is open or in flight.
   */
  reserve(wanted: number): number {
    if (this.#freeBytes < wanted) this.#freeBytes = this.#extend(wanted + AHEAD_BYTES)
    return this.#freeBytes
  }

  /**
   * Bounds the bytes that a transaction writes. Adding up per record, thousands of records would count one to three
   * pages each, though they share pages. No transaction writes more than every used page again, each split by the
   * records added to it, plus new pages that are at least a third full.
   */
  upperBound(cost: number, payload: number): number {
    if (cost <= AHEAD_BYTES) return cost
    const used = this.#usedBytes()
    const split = Math.min(used, (payload / NODE_BYTES) * PAGE_BYTES)
    return Math.min(cost, used + split + 3 * payload + BATCH_BYTES)
  }

  /**
   * Subtracts what a transaction may have written. Most transactions write less, which the next inspection of the
   * file finds.
   */
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
 * Bounds the bytes that are written for a record: its leaf page, which may be split, its share of the branch pages,
 * and its own pages when it is too large for a leaf.
 */
export function maxBytesFor(bytes: Uint8Array | null): number {
  const length = bytes?.length ?? 0
  return (3 + (length > LEAF_VALUE_BYTES ? Math.ceil(length / PAGE_BYTES) : 0)) * PAGE_BYTES
}
