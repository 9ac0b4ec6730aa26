/**
 * Checksums of stored rows: CRC-32 over the content, the key and the name of the table.
 *
 * A row that lies under another key, or in another table, is damaged too. A sealed row is a mark, the checksum and the
 * content. Rows of format 4 and earlier have neither, and no content of theirs begins with the mark.
 */
import * as zlib from 'node:zlib'

type Crc32 = (data: Uint8Array | string, before?: number) => number

/** The native function is there from Node 20.15 on. */
const native = (zlib as { readonly crc32?: Crc32 }).crc32

export const crc32: Crc32 = native ?? crc32InScript

/** The mark, and the place of the checksum: zeros while it is made. */
const HEADER = Buffer.from([0x05, 0, 0, 0, 0])

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
