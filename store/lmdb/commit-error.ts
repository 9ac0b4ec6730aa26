/**
 * Classifies a failed commit: the disk is full, which is temporary, or the store is broken.
 *
 * lmdb-js rejects with an error that carries a second promise, `commitError`, which rejects with the real cause and
 * its number. No other code handles that promise, so it is awaited here, once for each failure.
 */
import { codeOf, DatabaseDamaged, messageOf } from '../errors.ts'
import { freeBytesIn } from './emergency-space.ts'

const EIO = 5
const ENOSPC = 28
const EDQUOT = 122
const MDB_MAP_FULL = -30792
/** Pages that are missing, of a wrong kind, or met earlier in a transaction: NOTFOUND, CORRUPTED, PANIC, BAD_TXN. */
const UNREADABLE_PAGE = new Set<unknown>([-30797, -30796, -30795, -30782])
/** A disk with less free space counts as full. */
const FREE_BYTES_MIN = 1024 * 1024

export type CommitFailure =
  | { readonly is: 'full'; readonly reason: string }
  | { readonly is: 'broken'; readonly reason: string }

export const describeFullDisk = (folder: string): string =>
  `no space left on the disk of ${folder}; free some, and writing continues by itself`

/** Tells whether LMDB found a page that it cannot read. */
export const isUnreadablePage = (error: unknown): boolean => UNREADABLE_PAGE.has(codeOf(error))

export async function classifyCommitError(error: unknown, folder: string): Promise<CommitFailure> {
  const cause = await commitErrorCause(error)
  const code = codeOf(cause)
  if (code === ENOSPC || code === EDQUOT || code === 'ENOSPC' || code === 'EDQUOT') {
    return { is: 'full', reason: describeFullDisk(folder) }
  }
  // A write that a full disk cuts short is reported as EIO. No part of it was synced, so writing it again is safe.
  if (code === EIO && isDiskNearlyFull(folder)) {
    return { is: 'full', reason: describeFullDisk(folder) }
  }
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
