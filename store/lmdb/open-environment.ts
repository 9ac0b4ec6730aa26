/** Opens the LMDB environment in a folder, after it has checked everything that would crash lmdb-js. */
import { chmodSync, closeSync, existsSync, mkdirSync, openSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { open, openAsClass, type RootDatabase, type RootDatabaseOptionsWithPath } from 'lmdb'
import type { FoundDatabase } from '../../core/installation.ts'
import { codeOf, messageOf } from '../../protocol/message-of.ts'
import { DatabaseDamaged, isNotPermitted, StoreFull, StoreUnreadable } from '../errors.ts'
import { inspectDataFile } from './data-file.ts'
import { freeBytesIn } from './emergency-space.ts'

const TABLES_MAX = 64
const FILES = ['data.mdb', 'lock.mdb']
/** LMDB reports this where the kernel already has a lock for the id of this process. */
const NO_READER = 'No transaction to renew'
/** Enough space for both files and the first tables. */
const FREE_BYTES_NEEDED = 1024 * 1024
/** The id of a process, in the first column of LMDB's list of readers. */
const LISTED_READER = /^\s*(\d+) /m

/**
 * Returns what the file alone says of a database: LMDB would create a new one here, or the file is truncated.
 * Undefined: only the opened database says more. Throws StoreUnreadable.
 */
export function findUnopened(folder: string): FoundDatabase | undefined {
  const path = join(folder, 'data.mdb')
  // No permission to read the file is needed to see that it is missing.
  if ((statSync(path, { throwIfNoEntry: false })?.size ?? 0) === 0) return { is: 'empty' }
  const file = withFile(folder, path, inspectDataFile)
  return file?.is === 'truncated'
    ? { is: 'truncated', path, bytes: file.bytes, bytesMin: file.bytesMin }
    : undefined
}

/** Creates the folder, and returns whether the database is new. */
export function prepareFolder(folder: string): boolean {
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  chmodSync(folder, 0o700)
  return !existsSync(join(folder, 'data.mdb'))
}

export function openRoot(folder: string, mapSize: number): RootDatabase {
  checkFiles(folder)
  checkFreeSpace(folder)
  try {
    const root = open({
      path: folder,
      // Otherwise lmdb would treat a folder with a dot in its name as a file.
      noSubdir: false,
      maxDbs: TABLES_MAX,
      mapSize,
      overlappingSync: false,
      encoding: 'binary',
      // The mode of new files, supported by the add-on but missing in its types.
      ...{ permissionsMode: 0o600 },
    })
    for (const file of FILES) chmodSync(join(folder, file), 0o600)
    return root
  } catch (error) {
    throw unreadable(folder, messageOf(error), error)
  }
}

/** Opens an existing database that no process writes to. */
export function openForReading(folder: string): RootDatabase {
  checkFiles(folder)
  try {
    return open(readingOptions(folder))
  } catch (error) {
    throw unreadable(folder, messageOf(error), error)
  }
}

const readingOptions = (folder: string) =>
  ({ path: folder, noSubdir: false, maxDbs: TABLES_MAX, readOnly: true, encoding: 'binary' }) as const

/**
 * Returns the id of a process that has the database open, in whatever container of this machine; undefined where none
 * has, or LMDB cannot open the database.
 */
export async function findUser(folder: string): Promise<number | undefined> {
  if (!canBeOpened(folder)) return undefined
  const root = openUnlessOwnId(folder)
  if (root === undefined) return process.pid
  try {
    const pid = LISTED_READER.exec(root.readerList())?.[1]
    return pid === undefined ? undefined : Number(pid)
  } finally {
    await root.close()
  }
}

/** lmdb-js keeps the current read transaction of an environment for all instances of its class. */
interface ReaderClass {
  new (name: null, options: RootDatabaseOptionsWithPath & { readonly isRoot: true }): RootDatabase
  readonly prototype: { _commitReadTxn(): void }
}

/** Returns undefined where a process of another container has it open under the id of this one, such as 1. */
function openUnlessOwnId(folder: string): RootDatabase | undefined {
  checkFiles(folder)
  const options = readingOptions(folder)
  let Reader: ReaderClass | undefined
  try {
    Reader = openAsClass({ ...options }) as unknown as ReaderClass
    return new Reader(null, { ...options, isRoot: true })
  } catch (error) {
    // Otherwise the timer that ends the read transaction, which does not exist, throws where nobody catches it.
    Reader?.prototype._commitReadTxn()
    if (messageOf(error).includes(NO_READER)) return undefined
    throw unreadable(folder, messageOf(error), error)
  }
}

function canBeOpened(folder: string): boolean {
  try {
    checkFiles(folder)
    return findUnopened(folder) === undefined
  } catch (error) {
    if (error instanceof StoreUnreadable || isNotPermitted(error)) return false
    throw error
  }
}

/** lmdb-js 3.5.6 crashes the process when LMDB refuses to open a database, so the reasons are checked before. */
export function checkFiles(folder: string): void {
  const data = withFile(folder, join(folder, 'data.mdb'), inspectDataFile)
  if (data?.is === 'unknown') throw unreadable(folder, 'data.mdb is not an LMDB database of this version')
  if (data?.is === 'damaged') throw new DatabaseDamaged(folder, [`its two first pages ${data.how}`])
  if (data?.is === 'truncated')
    throw unreadable(folder, `data.mdb is truncated: it has ${data.bytes} of ${data.bytesMin} bytes`)
  withFile(folder, join(folder, 'lock.mdb'), () => undefined)
}

/** Returns undefined when the file is missing. Throws when it cannot be read and written. */
function withFile<T>(folder: string, path: string, inspect: (fd: number) => T): T | undefined {
  try {
    const fd = openSync(path, 'r+')
    try {
      return inspect(fd)
    } finally {
      closeSync(fd)
    }
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined
    // The file of another user is whole, so no backup helps.
    if (isNotPermitted(error)) throw error
    throw unreadable(folder, messageOf(error), error)
  }
}

/** LMDB maps files that it has just extended, which on a full disk ends the process with SIGBUS. */
function checkFreeSpace(folder: string): void {
  const isMade = FILES.every(
    (file) => (statSync(join(folder, file), { throwIfNoEntry: false })?.size ?? 0) > 0,
  )
  if (isMade || freeBytesIn(folder) >= FREE_BYTES_NEEDED) return
  throw new StoreFull(
    `no space on the disk of ${folder} to create the database; free some, then start again, or start with another --data-dir`,
  )
}

function unreadable(folder: string, why: string, cause?: unknown): StoreUnreadable {
  return new StoreUnreadable(
    `cannot open the database in ${folder}: ${why}; restore the folder from a backup, or start with another --data-dir`,
    { cause },
  )
}
