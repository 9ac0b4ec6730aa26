/**
 * Checksums of the parts of event files, in the database, so that a read of any part tells whether it is what was
 * written.
 *
 * A part is whole lines, one for each of its indexes. Parts that lie one behind the other in the file may skip indexes:
 * a line of its own says there which events were lost. Parts of files that earlier versions wrote have no checksum.
 */
import * as zlib from 'node:zlib'
import { countLines } from '../event-order.ts'
import type { RowPut } from './encode-writes.ts'
import { chunkKey, chunkKeysOf, firstOfChunk, lastRowOf, rowsFrom, rowsOf } from './event-chunks.ts'
import type { TableRow } from './table.ts'
import type { Tables } from './tables.ts'

/** A part with fewer bytes grows with the next ones. A damaged part is lost whole to readers. */
const PART_BYTES_MIN = 8 * 1024
/** More lines are split into several parts, because a reader holds a whole part in memory. */
const PART_BYTES_MAX = 64 * 1024
const LINE_END = 10
/** The end of a part whose checksum is damaged. */
const UNKNOWN = -1

export interface FileSum {
  readonly first: number
  /** The index of the event behind the part. */
  readonly next: number
  readonly offset: number
  readonly bytes: number
  readonly crc: number
}

/** Whole lines that are appended to a file. */
export interface FileLines {
  readonly first: number
  readonly next: number
  readonly bytes: Uint8Array
}

export interface SumsFrom {
  /** The parts from the one that holds the index on, one behind the other. */
  readonly sums: readonly FileSum[]
  /** The next part, when the index lies before it and not in a part. */
  readonly before?: FileSum
}

export class FileSums {
  readonly #tables: Tables

  constructor(tables: Tables) {
    this.#tables = tables
  }

  last(runId: string): FileSum | undefined {
    const row = lastRowOf(this.#tables.fileSums, runId)
    return row && toSum(row)
  }

  from(runId: string, index: number, bytesMax: number): SumsFrom {
    return selectSums(toSums(rowsFrom(this.#tables.fileSums, runId, index)), index, bytesMax)
  }

  /** Returns the puts for lines that were appended at `offset`. */
  putsFor(runId: string, offset: number, lines: readonly FileLines[]): RowPut[] {
    const last = this.last(runId)
    const isOpen = last !== undefined && last.bytes < PART_BYTES_MIN && last.offset + last.bytes === offset
    const parts: FileSum[] = isOpen ? [last] : []
    let at = offset
    for (const { first, next, bytes } of lines.flatMap(splitLines)) {
      const open = parts.at(-1)
      const isNext = open !== undefined && open.bytes < PART_BYTES_MIN && open.next === first
      if (open !== undefined && isNext)
        parts.splice(-1, 1, { ...open, next, bytes: open.bytes + bytes.length, crc: crc32(bytes, open.crc) })
      else parts.push({ first, next, offset: at, bytes: bytes.length, crc: crc32(bytes) })
      at += bytes.length
    }
    return parts.map((part) => this.#put(runId, part))
  }

  /** Returns the puts that remove the checksums of parts that end behind `offset`. */
  removalsBehind(runId: string, offset: number): RowPut[] {
    return [...rowsOf(this.#tables.fileSums, runId)].flatMap((row) => {
      const sum = toSum(row)
      return sum !== undefined && sum.offset + sum.bytes <= offset ? [] : [this.#removal(row.key)]
    })
  }

  removalOf(runId: string): RowPut[] {
    return chunkKeysOf(this.#tables.fileSums, runId).map((key) => this.#removal(key))
  }

  #removal(key: string): RowPut {
    return { to: 'row', table: this.#tables.fileSums.name, key, bytes: null }
  }

  #put(runId: string, { first, next, offset, bytes, crc }: FileSum): RowPut {
    const text = `${offset} ${bytes} ${next} ${crc}`
    return {
      to: 'row',
      table: this.#tables.fileSums.name,
      key: chunkKey(runId, first),
      bytes: Buffer.from(text),
    }
  }
}

/**
 * Selects the parts from the one that holds the index on.
 *
 * @param found undefined for a part whose checksum is damaged
 */
export function selectSums(found: Iterable<FileSum | undefined>, index: number, bytesMax: number): SumsFrom {
  const sums: FileSum[] = []
  let bytes = 0
  let end = 0
  for (const sum of found) {
    if (sum !== undefined && sum.next > index) {
      const isReached = sum.first <= index || sum.offset === end
      if (!isReached) return sums.length === 0 ? { sums, before: sum } : { sums }
      sums.push(sum)
      bytes += sum.bytes
      if (bytes >= bytesMax) break
    }
    end = sum === undefined ? UNKNOWN : sum.offset + sum.bytes
  }
  return { sums }
}

function* toSums(rows: Iterable<TableRow>): Generator<FileSum | undefined> {
  for (const row of rows) yield toSum(row)
}

/** Splits at the ends of lines. A longer line is a part of its own. */
function splitLines({ first, next, bytes }: FileLines): FileLines[] {
  const parts: FileLines[] = []
  let [from, index] = [0, first]
  while (bytes.length - from > PART_BYTES_MAX) {
    const before = bytes.lastIndexOf(LINE_END, from + PART_BYTES_MAX - 1)
    const end = (before < from ? bytes.indexOf(LINE_END, from + PART_BYTES_MAX) : before) + 1
    if (end === 0 || end === bytes.length) break
    const part = bytes.subarray(from, end)
    const after = index + countLines(part)
    parts.push({ first: index, next: after, bytes: part })
    from = end
    index = after
  }
  return [...parts, { first: index, next, bytes: bytes.subarray(from) }]
}

export const isIntact = ({ crc }: FileSum, bytes: Uint8Array): boolean => crc32(bytes) === crc

/** Returns undefined when the row is damaged. */
export function toSum({ key, value }: TableRow): FileSum | undefined {
  if (value === undefined) return undefined
  const [offset = 0, bytes = 0, next = 0, crc = 0] = Buffer.from(value)
    .toString('latin1')
    .split(' ')
    .map(Number)
  return { first: firstOfChunk(key), next, offset, bytes, crc }
}

// ---- checksums -----------------------------------------------------------------------------------------------------

type Crc32 = (data: Uint8Array | string, before?: number) => number

/** The native function is there from Node 20.15 on. */
const native = (zlib as { readonly crc32?: Crc32 }).crc32

export const crc32: Crc32 = native ?? crc32InScript

/** The mark, and the place of the checksum: zeros while it is made. */
const HEADER = Buffer.from([0x05, 0, 0, 0, 0])

/**
 * Checksums of stored rows: CRC-32 over the content, the key and the name of the table.
 *
 * A row that lies under another key, or in another table, is damaged too. A sealed row is a mark, the checksum and the
 * content. Rows of format 4 and earlier have neither, and no content of theirs begins with the mark.
 */
export class RowSeal {
  readonly #seed: number
  readonly #contentSeed: number

  constructor(table: string) {
    this.#seed = crc32(table)
    this.#contentSeed = crc32(HEADER, this.#seed)
  }

  seal(key: string, content: Uint8Array): Uint8Array {
    const end = HEADER.length + content.length
    // The key stands behind the row while the checksum is made, so that one call covers both.
    const row = Buffer.allocUnsafe(end + Buffer.byteLength(key))
    row.set(HEADER)
    row.set(content, HEADER.length)
    row.write(key, end)
    row.writeUInt32LE(crc32(row, this.#seed), 1)
    return row.subarray(0, end)
  }

  /** Returns the content of a sealed row; undefined when the checksum does not match. */
  open(key: Uint8Array | string, row: Uint8Array): Uint8Array | undefined {
    const content = row.subarray(HEADER.length)
    return crc32(key, crc32(content, this.#contentSeed)) === storedChecksum(row) ? content : undefined
  }
}

export const isSealed = (row: Uint8Array): boolean => row.length >= HEADER.length && row[0] === HEADER[0]

const storedChecksum = (row: Uint8Array): number =>
  Buffer.from(row.buffer, row.byteOffset, row.length).readUInt32LE(1)

// ---- Node before 20.15 -----------------------------------------------------------------------------------------------

const POLYNOMIAL = 0xedb88320
let remainders: Int32Array | undefined

export function crc32InScript(data: Uint8Array | string, before = 0): number {
  remainders ??= Int32Array.from({ length: 256 }, (_, byte) => remainderOf(byte))
  const bytes = typeof data === 'string' ? Buffer.from(data) : data
  let crc = ~before
  for (let at = 0; at < bytes.length; at++)
    crc = (remainders[(crc ^ (bytes[at] ?? 0)) & 0xff] ?? 0) ^ (crc >>> 8)
  return ~crc >>> 0
}

function remainderOf(byte: number): number {
  let rest = byte
  for (let bit = 0; bit < 8; bit++) rest = rest & 1 ? (rest >>> 1) ^ POLYNOMIAL : rest >>> 1
  return rest
}
