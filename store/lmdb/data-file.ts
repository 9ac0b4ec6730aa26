/**
 * Inspects `data.mdb` without LMDB, which ends the process when the file is truncated or of another program.
 *
 * The first two pages are the meta pages. Each says where the tables were after one transaction, and how many pages the
 * database had. LMDB uses the page of the later transaction and maps the file: reading a page beyond its end is a SIGBUS.
 * Beside a damaged meta page it would use the other one without a word, and the newest transaction would be gone. A whole
 * file may be longer, because space is preallocated at its end.
 */
import { fstatSync, readSync } from 'node:fs'

/** A table as its pages are counted. */
export interface TableTree {
  readonly flags: number
  readonly depth: number
  readonly branches: number
  readonly leaves: number
  readonly overflows: number
  readonly rows: number
  /** undefined: it is empty. */
  readonly root: number | undefined
}

export interface Meta {
  readonly pageBytes: number
  readonly transaction: number
  readonly lastPage: number
  /** The list of free pages. */
  readonly free: TableTree
  /** The list of tables. */
  readonly main: TableTree
}

/** `empty`: LMDB would create a new database in the file. */
export type DataFile =
  | { readonly is: 'empty' }
  /** With the meta page of the newest transaction. */
  | { readonly is: 'whole'; readonly meta: Meta }
  | { readonly is: 'unknown' }
  | { readonly is: 'truncated'; readonly bytes: number; readonly bytesMin: number }
  /** The end of a sentence about the meta pages. */
  | { readonly is: 'damaged'; readonly how: string }

const META_BYTES = 168
const META_PAGES = 2
const MARK = 0xbeefc0de
const DATA_VERSION = 2
const PAGE_BYTES_MIN = 256
const PAGE_BYTES_MAX = 64 * 1024
/** A larger map than any that is asked for would be refused by the system. */
const MAP_BYTES_MAX = 2 ** 46

// Positions in a meta page.
const NUMBER_AT = 0
const KIND_AT = 18
const MARK_AT = 24
const VERSION_AT = 28
const MAP_BYTES_AT = 40
const FREE_AT = 48
const MAIN_AT = 96
const LAST_PAGE_AT = 144
const TRANSACTION_AT = 152
const META_KIND = 8
/** The keys of the list of free pages are numbers, those of every other table are bytes. */
export const NUMBER_KEYS = 0x08
/** The transaction that wrote a page. */
const PAGE_TRANSACTION_AT = 8
/** The transaction of every page of a compacted copy. */
const COMPACTED = 1

export function inspectDataFile(fd: number): DataFile {
  const bytes = fstatSync(fd).size
  if (bytes === 0) return { is: 'empty' }
  const first = readBytes(fd, 0)
  if (!isMeta(first)) return { is: 'unknown' }
  const pageBytes = pageBytesOf(first)
  const metaBytes = META_PAGES * pageBytes
  if (bytes < metaBytes) return { is: 'truncated', bytes, bytesMin: Math.max(metaBytes, endOf(first)) }
  const second = readBytes(fd, pageBytes)
  if (!isMeta(second)) return { is: 'unknown' }
  const newest = transactionOf(first) >= transactionOf(second) ? first : second
  const bytesMin = endOf(newest)
  if (bytes < bytesMin) return { is: 'truncated', bytes, bytesMin }
  const how = judgeMetas(fd, first, second)
  return how === undefined ? { is: 'whole', meta: toMeta(newest) } : { is: 'damaged', how }
}

function readBytes(fd: number, at: number): Buffer {
  const meta = Buffer.alloc(META_BYTES)
  readSync(fd, meta, 0, META_BYTES, at)
  return meta
}

const isMeta = (meta: Buffer): boolean =>
  meta.readUInt32LE(MARK_AT) === MARK &&
  (meta.readUInt32LE(VERSION_AT) & 0xffff) === DATA_VERSION &&
  isPageSize(pageBytesOf(meta))

/** A power of two. A damaged size would make LMDB read beyond the file. */
const isPageSize = (bytes: number): boolean =>
  bytes >= PAGE_BYTES_MIN && bytes <= PAGE_BYTES_MAX && (bytes & (bytes - 1)) === 0

/** Both meta pages hold the size of a page from the creation of the file. */
const pageBytesOf = (meta: Buffer): number => meta.readUInt32LE(FREE_AT)
const numberAt = (bytes: Buffer, at: number): number => Number(bytes.readBigUInt64LE(at))
const transactionOf = (meta: Buffer): number => numberAt(meta, TRANSACTION_AT)
const endOf = (meta: Buffer): number => (numberAt(meta, LAST_PAGE_AT) + 1) * pageBytesOf(meta)

/** Returns what is wrong with the meta pages, if something is. */
function judgeMetas(fd: number, first: Buffer, second: Buffer): string | undefined {
  if (pageBytesOf(first) !== pageBytesOf(second)) return 'name different sizes of a page'
  const transactions = [transactionOf(first), transactionOf(second)]
  // A compacted copy begins with the number of its original beside none.
  const [newest, oldest] = [Math.max(...transactions), Math.min(...transactions)]
  if (newest - oldest > 1 && oldest > 0) return 'are of transactions that do not follow each other'
  for (const [number, meta] of [first, second].entries()) {
    const isSound =
      numberAt(meta, NUMBER_AT) === number &&
      meta.readUInt16LE(KIND_AT) === META_KIND &&
      numberAt(meta, MAP_BYTES_AT) <= MAP_BYTES_MAX &&
      readTree(meta, FREE_AT).flags === NUMBER_KEYS &&
      readTree(meta, MAIN_AT).flags === 0
    if (!isSound) return 'have fields that cannot be'
    const written = transactionOfTables(fd, meta)
    const own = transactionOf(meta)
    // LMDB gives a meta page its earlier number again when writing it has failed.
    const isTakenBack = own < newest && written === own + META_PAGES
    if (written !== undefined && written !== own && written !== COMPACTED && !isTakenBack)
      return 'do not name the transaction of their tables'
  }
  return undefined
}

/** Each transaction writes the root of the list of tables. */
function transactionOfTables(fd: number, meta: Buffer): number | undefined {
  const { root } = readTree(meta, MAIN_AT)
  if (root === undefined) return undefined
  const head = Buffer.alloc(PAGE_TRANSACTION_AT + 8)
  readSync(fd, head, 0, head.length, root * pageBytesOf(meta))
  return numberAt(head, PAGE_TRANSACTION_AT)
}

const toMeta = (meta: Buffer): Meta => ({
  pageBytes: pageBytesOf(meta),
  transaction: transactionOf(meta),
  lastPage: numberAt(meta, LAST_PAGE_AT),
  free: readTree(meta, FREE_AT),
  main: readTree(meta, MAIN_AT),
})

/** Reads a table's entry in a meta page, or in the list of tables. */
export function readTree(bytes: Buffer, at: number): TableTree {
  const root = bytes.readBigInt64LE(at + 40)
  return {
    flags: bytes.readUInt16LE(at + 4),
    depth: bytes.readUInt16LE(at + 6),
    branches: numberAt(bytes, at + 8),
    leaves: numberAt(bytes, at + 16),
    overflows: numberAt(bytes, at + 24),
    rows: numberAt(bytes, at + 32),
    root: root === -1n ? undefined : Number(root),
  }
}

export const TREE_BYTES = 48
