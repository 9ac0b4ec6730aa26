/** Reads the parts of one page of a database file, and believes none of its numbers. */
import { readSync } from 'node:fs'
import { messageOf } from '../../protocol/message-of.ts'
import { type Meta, NUMBER_KEYS, type TableTree } from './data-file.ts'

export const PAGE_HEADER_BYTES = 24
export const NODE_HEADER_BYTES = 8
export const KEY_BYTES_MAX = 1978
export const DEPTH_MAX = 32
export const BRANCH = 1
export const LEAF = 2
export const OVERFLOW = 4
/** Flags of a node: its value lies on pages of its own, or is a table. */
export const BIG = 1
export const TABLE_NODE = 2

/** Thrown for a page that cannot be used. */
export class Fault extends Error {
  readonly page: number
  constructor(page: number, message: string) {
    super(message)
    this.page = page
  }
}
export class DatabasePages {
  readonly #fd: number
  readonly #meta: Meta

  constructor(fd: number, meta: Meta) {
    this.#fd = fd
    this.#meta = meta
  }

  /** Throws Fault for a page that is not one of a table. */
  readPage(page: number): Buffer {
    const bytes = this.read(page, this.#meta.pageBytes)
    const flags = flagsOf(bytes)
    const [lower, upper] = [bytes.readUInt16LE(20), bytes.readUInt16LE(22)]
    if (numberAt(bytes, 0) !== page) throw new Fault(page, 'is not the page that it should be')
    if (numberAt(bytes, 8) > this.#meta.transaction) throw new Fault(page, 'is of a later transaction')
    if (flags !== BRANCH && flags !== LEAF) throw new Fault(page, 'is of no known kind')
    if (lower === 0 || lower % 2 !== 0 || lower > upper || upper > bytes.length - PAGE_HEADER_BYTES)
      throw new Fault(page, 'has damaged bounds')
    return bytes
  }

  /** Throws Fault. */
  read(page: number, length: number): Buffer {
    const bytes = Buffer.allocUnsafe(length)
    let read = 0
    try {
      read = readSync(this.#fd, bytes, 0, length, page * this.#meta.pageBytes)
    } catch (error) {
      throw new Fault(page, `cannot be read: ${messageOf(error)}`)
    }
    if (read < length) throw new Fault(page, 'lies beyond the end of the file')
    return bytes
  }
}

interface KeyBounds {
  readonly low: Buffer | undefined
  /** The key must not be the lower bound itself. */
  readonly isAbove: boolean
  readonly high: Buffer | undefined
}

export function isBetween({ flags }: TableTree, key: Buffer, { low, isAbove, high }: KeyBounds): boolean {
  const compare = flags === NUMBER_KEYS ? compareNumbers : Buffer.compare
  return (
    (low === undefined || compare(low, key) < (isAbove ? 0 : 1)) &&
    (high === undefined || compare(key, high) < 0)
  )
}

export const numberAt = (bytes: Buffer, at: number): number => Number(bytes.readBigUInt64LE(at))
export const flagsOf = (bytes: Buffer): number => bytes.readUInt16LE(18)
export const countOf = (bytes: Buffer): number => bytes.readUInt16LE(20) >> 1

export function nodeAt(bytes: Buffer, page: number, i: number): number {
  const pointer = bytes.readUInt16LE(PAGE_HEADER_BYTES + 2 * i)
  const at = PAGE_HEADER_BYTES + pointer
  if (pointer < bytes.readUInt16LE(22) || pointer % 2 !== 0 || at + NODE_HEADER_BYTES > bytes.length)
    throw new Fault(page, 'has a row outside of its bounds')
  return at
}

export const childAt = (bytes: Buffer, at: number): number =>
  bytes.readUInt16LE(at) + bytes.readUInt16LE(at + 2) * 0x10000 + bytes.readUInt16LE(at + 4) * 2 ** 32

export function keyAt(bytes: Buffer, page: number, at: number): Buffer {
  const [start, length] = [at + NODE_HEADER_BYTES, bytes.readUInt16LE(at + 6)]
  if (length === 0 || length > KEY_BYTES_MAX || start + length > bytes.length)
    throw new Fault(page, 'has a damaged key')
  return bytes.subarray(start, start + length)
}

/** The names of tables end with a zero byte. */
export const nameOf = (key: Buffer): string => key.toString('utf8').replace(/\0$/, '')

export function compareNumbers(a: Buffer, b: Buffer): number {
  if (a.length !== 8 || b.length !== 8) return 0
  return numberAt(a, 0) - numberAt(b, 0)
}

interface PageRange {
  readonly first: number
  readonly count: number
}

/** Reads a list of page numbers. A negative number stands before that of the first of so many pages. */
export function freePages(page: number, list: Buffer): PageRange[] {
  const length = list.length < 8 ? -1 : numberAt(list, 0)
  if (length < 0 || (length + 1) * 8 > list.length) throw new Fault(page, 'has a damaged list of free pages')
  const ranges: PageRange[] = []
  let count = 1
  for (let i = 1; i <= length; i++) {
    const number = Number(list.readBigInt64LE(i * 8))
    if (number > 0) ranges.push({ first: number, count })
    count = number < 0 ? -number : 1
  }
  return ranges
}
