/**
 * A file that reserves disk space and is deleted when the disk is full.
 *
 * LMDB needs free pages even to delete. Without this reserve a full disk could not be cleaned up through the service.
 * With it the failed batch succeeds after all, and running work can end in order.
 */
import { randomFillSync } from 'node:crypto'
import { closeSync, fsyncSync, openSync, rmSync, statfsSync, statSync } from 'node:fs'
import { open, rename, rm } from 'node:fs/promises'
import { dirname } from 'node:path'
import { codeOf, isDiskFull, messageOf } from '../../protocol/message-of.ts'
import { DatabaseDamaged } from '../errors.ts'

export const EMERGENCY_SPACE_BYTES = 16 * 1024 * 1024
const CHUNK_BYTES = 1024 * 1024

export class EmergencySpace {
  readonly #file: string
  readonly #bytes: number
  #isThere = false
  #making: Promise<boolean> | undefined
  #probing: Promise<boolean> | undefined
  /** How often the space was freed. */
  #frees = 0

  constructor(file: string, bytes: number) {
    this.#file = file
    this.#bytes = bytes
    this.#isThere = bytes === 0 || isWhole(file, bytes)
    this.#removeDraft()
  }

  /**
   * Creates the file unless it exists, and returns whether it exists. The same amount of space must stay free, so
   * that the file itself does not fill the disk.
   */
  make(): Promise<boolean> {
    if (this.#isThere) return Promise.resolve(true)
    this.#making ??= this.#write().finally(() => {
      this.#making = undefined
    })
    return this.#making
  }

  free(): void {
    if (this.#bytes === 0) return
    this.#isThere = false
    this.#frees += 1
    rmSync(this.#file, { force: true })
    this.#removeDraft()
    // Some file systems reuse freed blocks only after the removal itself is on disk.
    syncFolder(dirname(this.#file))
  }

  /** Half of what the space reserves would not last for long. */
  isDiskNearlyFull(): boolean {
    try {
      return freeBytesIn(dirname(this.#file)) < this.#bytes / 2
    } catch {
      return false
    }
  }

  /** Whether files beside the space can be written. A quota may refuse them although the disk has free bytes. */
  hasSpareSpace(): Promise<boolean> {
    if (this.isDiskNearlyFull()) return Promise.resolve(false)
    this.#probing ??= this.#probe().finally(() => {
      this.#probing = undefined
    })
    return this.#probing
  }

  async settled(): Promise<void> {
    await this.#making
    await this.#probing
  }

  get #draft(): string {
    return `${this.#file}.tmp`
  }

  /** An unfinished file, of this process or an earlier one, also takes space. */
  #removeDraft(): void {
    rmSync(this.#draft, { force: true })
  }

  async #probe(): Promise<boolean> {
    const probe = `${this.#file}.probe`
    try {
      await fill(probe, CHUNK_BYTES)
      return true
    } catch {
      return false
    } finally {
      await rm(probe, { force: true }).catch(() => undefined)
    }
  }

  async #write(): Promise<boolean> {
    const frees = this.#frees
    try {
      if (freeBytesIn(dirname(this.#file)) < this.#bytes * 2) return false
      await fill(this.#draft, this.#bytes)
      await rename(this.#draft, this.#file)
      this.#isThere = frees === this.#frees
      // `free()` ran while this file was being written and found nothing to delete, so delete it now.
      if (!this.#isThere) await rm(this.#file, { force: true })
      return this.#isThere
    } catch {
      await rm(this.#draft, { force: true }).catch(() => undefined)
      return false
    }
  }
}

/** Returns the bytes that this process may still use on the disk of that folder. */
export function freeBytesIn(folder: string): number {
  const { bavail, bfree, blocks, bsize } = statfsSync(folder)
  // Some file systems do not report free space; then only a write can tell.
  if (blocks === 0) return Number.POSITIVE_INFINITY
  return (process.getuid?.() === 0 ? bfree : bavail) * bsize
}

/** Random data, because compressing file systems reserve no space for zeros. */
async function fill(file: string, bytes: number): Promise<void> {
  const handle = await open(file, 'w', 0o600)
  try {
    const noise = randomFillSync(Buffer.allocUnsafe(Math.min(CHUNK_BYTES, bytes)))
    for (let done = 0; done < bytes; done += noise.length)
      await handle.write(noise, 0, Math.min(noise.length, bytes - done))
    await handle.sync()
  } finally {
    await handle.close()
  }
}

function isWhole(file: string, bytes: number): boolean {
  const stats = statSync(file, { throwIfNoEntry: false })
  return stats?.isFile() === true && stats.size === bytes
}

export function syncFolder(folder: string): void {
  const fd = openSync(folder, 'r')
  try {
    fsyncSync(fd)
  } finally {
    closeSync(fd)
  }
}

// ---- failed commits ------------------------------------------------------------------------------------------------

const EIO = 5
const ENOSPC = 28
const EDQUOT = 122
const MDB_MAP_FULL = -30792
/** Pages that are missing, of a wrong kind, or met earlier in a transaction: NOTFOUND, CORRUPTED, PANIC, BAD_TXN. */
const UNREADABLE_PAGE = new Set<unknown>([-30797, -30796, -30795, -30782])
/** A disk with less free space counts as full. */
const FREE_BYTES_MIN = 1024 * 1024

type CommitFailure =
  | { readonly is: 'full'; readonly reason: string }
  | { readonly is: 'broken'; readonly reason: string }

export const describeFullDisk = (folder: string): string =>
  `no space left on the disk of ${folder}; free some, and writing continues by itself`

/** Tells whether LMDB found a page that it cannot read. */
export const isUnreadablePage = (error: unknown): boolean => UNREADABLE_PAGE.has(codeOf(error))

/**
 * Classifies a failed commit: the disk is full, which is temporary, or the store is broken.
 *
 * lmdb-js rejects with an error that carries a second promise, `commitError`, which rejects with the real cause and
 * its number. No other code handles that promise, so it is awaited here, once for each failure.
 */
export async function classifyCommitError(error: unknown, folder: string): Promise<CommitFailure> {
  const cause = await commitErrorCause(error)
  const code = codeOf(cause)
  // A write that a full disk cuts short is reported as EIO. No part of it was synced, so writing it again is safe.
  const isFull =
    isDiskFull(cause) || code === ENOSPC || code === EDQUOT || (code === EIO && isDiskNearlyFull(folder))
  if (isFull) return { is: 'full', reason: describeFullDisk(folder) }
  if (code === MDB_MAP_FULL) {
    return {
      is: 'broken',
      reason: `the database in ${folder} has reached its largest size; start with another data directory, and keep this one for what it holds`,
    }
  }
  if (isUnreadablePage(cause))
    return { is: 'broken', reason: new DatabaseDamaged(folder, [messageOf(cause)]).message }
  return {
    is: 'broken',
    reason: `writing to ${folder} failed: ${messageOf(cause)}; check the disk, then start again`,
  }
}

async function commitErrorCause(error: unknown): Promise<unknown> {
  if (typeof error !== 'object' || error === null || !('commitError' in error)) return error
  try {
    await error.commitError
    return error
  } catch (cause) {
    return cause
  }
}

function isDiskNearlyFull(folder: string): boolean {
  try {
    return freeBytesIn(folder) < FREE_BYTES_MIN
  } catch {
    return false
  }
}
