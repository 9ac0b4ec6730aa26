/**
 * Opens the LMDB environment in a folder, after it has checked everything that would crash lmdb-js.
 */
import { chmodSync, closeSync, existsSync, fstatSync, mkdirSync, openSync, readSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { open, type RootDatabase } from 'lmdb'
import { codeOf, messageOf, StoreFull, StoreUnreadable } from '../errors.ts'
import { freeBytesIn } from './emergency-space.ts'

const TABLES_MAX = 64
const FILES = ['data.mdb', 'lock.mdb']
/** Enough space for both files and the first tables. */
const FREE_BYTES_NEEDED = 1024 * 1024

// Positions in LMDB's meta page: the mark, the version of the layout, the size of a page.
const META_BYTES = 64
const MARK_AT = 24
const MARK = 0xbeefc0de
const VERSION_AT = 28
const DATA_VERSION = 2
const PAGE_SIZE_AT = 48

/** Tells whether there is no database: LMDB would create a new one here. */
export function hasNoData(folder: string): boolean {
  return (statSync(join(folder, 'data.mdb'), { throwIfNoEntry: false })?.size ?? 0) === 0
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

/** lmdb-js 3.5.6 crashes the process when LMDB refuses to open a database, so the reasons are checked before. */
function checkFiles(folder: string): void {
  for (const file of FILES) {
    try {
      checkFile(folder, join(folder, file), file === 'data.mdb')
    } catch (error) {
      if (codeOf(error) === 'ENOENT') continue
      throw error instanceof StoreUnreadable ? error : unreadable(folder, messageOf(error), error)
    }
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

function checkFile(folder: string, path: string, isData: boolean): void {
  const fd = openSync(path, 'r+')
  try {
    if (isData && fstatSync(fd).size > 0 && !hasMetaPages(fd)) {
      throw unreadable(folder, 'data.mdb is not an LMDB database of this version')
    }
  } finally {
    closeSync(fd)
  }
}

/** Both meta pages have LMDB's mark and version; the first page says where the second is. */
function hasMetaPages(fd: number): boolean {
  const first = Buffer.alloc(META_BYTES)
  readSync(fd, first, 0, META_BYTES, 0)
  const second = Buffer.alloc(META_BYTES)
  readSync(fd, second, 0, META_BYTES, first.readUInt32LE(PAGE_SIZE_AT))
  return [first, second].every(
    (meta) =>
      meta.readUInt32LE(MARK_AT) === MARK && (meta.readUInt32LE(VERSION_AT) & 0xffff) === DATA_VERSION,
  )
}

function unreadable(folder: string, why: string, cause?: unknown): StoreUnreadable {
  return new StoreUnreadable(
    `cannot open the database in ${folder}: ${why}; restore the folder from a backup, or start with another --data-dir`,
    { cause },
  )
}
