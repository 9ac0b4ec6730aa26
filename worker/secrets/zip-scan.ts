/**
 * `ZipScan` searches the packed entries of a zip archive, wherever in a content the archive begins.
 *
 * An entry is recognised by the signature of its header, and its packed bytes end by themselves. So sizes, which a
 * header may lack, do not matter, and neither does the directory at the archive's end. Entries that are not packed
 * stand in the content as they are.
 */
import { createInflateRaw } from 'node:zlib'
import type { SecretScan } from './secret-search.ts'
import { Unpacking, type UnpackingBudget } from './unpacking.ts'

const SIGNATURE = Buffer.from('PK\x03\x04', 'latin1')
const HEADER_BYTES = 30
const METHOD_AT = 8
const NAME_BYTES_AT = 26
const EXTRA_BYTES_AT = 28
const DEFLATED = 8
const NOTHING = Buffer.alloc(0)

export class ZipScan {
  readonly #scan: SecretScan
  readonly #budget: UnpackingBudget
  /** The end of the last piece, in which a header may begin. */
  #rest: Buffer = NOTHING
  #entry: Unpacking | undefined
  hasEntries = false
  /** Bytes of the entry's name and of its extra field, which stand before its content. */
  #skipBytes = 0

  constructor(scan: SecretScan, budget: UnpackingBudget) {
    this.#scan = scan
    this.#budget = budget
  }

  /** Returns a promise only when an entry has to wait. */
  push(piece: Buffer): Promise<void> | undefined {
    const content = this.#rest.length === 0 ? piece : Buffer.concat([this.#rest, piece])
    if (this.#entry === undefined && content.indexOf(SIGNATURE) === -1) {
      this.#keepRest(content, content.length - SIGNATURE.length + 1)
      return undefined
    }
    return this.#readEntries(content)
  }

  async end(): Promise<void> {
    await this.#feed(this.#rest)
    await this.#entry?.end()
  }

  async #readEntries(content: Buffer): Promise<void> {
    let at = 0
    for (let header = content.indexOf(SIGNATURE); header !== -1; header = content.indexOf(SIGNATURE, at)) {
      await this.#feed(content.subarray(at, header))
      at = header
      if (content.length - header < HEADER_BYTES) break
      await this.#open(content.subarray(header, header + HEADER_BYTES))
      at += HEADER_BYTES
    }
    const isInHeader = content.indexOf(SIGNATURE, at) === at
    const restAt = isInHeader ? at : Math.max(at, content.length - SIGNATURE.length + 1)
    await this.#feed(content.subarray(at, restAt))
    this.#keepRest(content, restAt)
  }

  /** Copies the rest, because the reader of a file fills its buffer again. */
  #keepRest(content: Buffer, from: number): void {
    this.#rest = Buffer.from(content.subarray(Math.max(from, 0)))
  }

  async #open(header: Buffer): Promise<void> {
    await this.#entry?.end()
    this.#entry = undefined
    if (header.readUInt16LE(METHOD_AT) !== DEFLATED || !this.#mayUnpack()) return
    this.hasEntries = true
    this.#budget.entriesLeft -= 1
    this.#entry = new Unpacking(createInflateRaw(), this.#scan, this.#budget)
    this.#skipBytes = header.readUInt16LE(NAME_BYTES_AT) + header.readUInt16LE(EXTRA_BYTES_AT)
  }

  #mayUnpack(): boolean {
    return this.#budget.bytesLeft >= 0 && this.#budget.entriesLeft > 0
  }

  async #feed(bytes: Buffer): Promise<void> {
    const skipped = Math.min(this.#skipBytes, bytes.length)
    this.#skipBytes -= skipped
    if (this.#entry !== undefined && skipped < bytes.length) await this.#entry.write(bytes.subarray(skipped))
  }
}
