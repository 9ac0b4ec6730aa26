/**
 * Inspects `data.mdb` without LMDB, which ends the process when the file is truncated or of another program.
 *
 * The first two pages are the meta pages. Each says how many pages the database had after one transaction. LMDB uses
 * the page of the later transaction and maps the file: reading a page beyond its end is a SIGBUS. A whole file may be
 * longer, because space is preallocated at its end.
 */
import { fstatSync, readSync } from 'node:fs'

// Positions in a meta page: the mark, the version of the layout, the size of a page, the last page, the transaction.
const META_BYTES = 160
const MARK_AT = 24
const MARK = 0xbeefc0de
const VERSION_AT = 28
const DATA_VERSION = 2
const PAGE_SIZE_AT = 48
const LAST_PAGE_AT = 144
const TRANSACTION_AT = 152
const META_PAGES = 2
const PAGE_BYTES_MIN = 256
const PAGE_BYTES_MAX = 64 * 1024

/** `empty`: LMDB would create a new database in the file. */
export type DataFile =
  | { readonly is: 'empty' }
  | { readonly is: 'whole' }
  | { readonly is: 'unknown' }
  | { readonly is: 'truncated'; readonly bytes: number; readonly bytesMin: number }

export function inspectDataFile(fd: number): DataFile {
  const bytes = fstatSync(fd).size
  if (bytes === 0) return { is: 'empty' }
  const first = readMeta(fd, 0)
  if (!isMeta(first)) return { is: 'unknown' }
  const pageBytes = first.readUInt32LE(PAGE_SIZE_AT)
  const metaBytes = META_PAGES * pageBytes
  if (bytes < metaBytes) return { is: 'truncated', bytes, bytesMin: Math.max(metaBytes, endOf(first)) }
  const second = readMeta(fd, pageBytes)
  if (!isMeta(second)) return { is: 'unknown' }
  const bytesMin = endOf(transactionOf(first) >= transactionOf(second) ? first : second)
  return bytes < bytesMin ? { is: 'truncated', bytes, bytesMin } : { is: 'whole' }
}

function readMeta(fd: number, at: number): Buffer {
  const meta = Buffer.alloc(META_BYTES)
  readSync(fd, meta, 0, META_BYTES, at)
  return meta
}

const isMeta = (meta: Buffer): boolean =>
  meta.readUInt32LE(MARK_AT) === MARK &&
  (meta.readUInt32LE(VERSION_AT) & 0xffff) === DATA_VERSION &&
  isPageSize(meta.readUInt32LE(PAGE_SIZE_AT))

/** A power of two. A damaged size would make LMDB read beyond the file. */
const isPageSize = (bytes: number): boolean =>
  bytes >= PAGE_BYTES_MIN && bytes <= PAGE_BYTES_MAX && (bytes & (bytes - 1)) === 0

const transactionOf = (meta: Buffer): bigint => meta.readBigUInt64LE(TRANSACTION_AT)

/** Both meta pages hold the size of a page from the creation of the file. */
function endOf(meta: Buffer): number {
  return (Number(meta.readBigUInt64LE(LAST_PAGE_AT)) + 1) * meta.readUInt32LE(PAGE_SIZE_AT)
}
