/**
 * `ContentScan` searches one content for secrets while it is read, and what is packed in it by gzip or zip.
 *
 * The first UNPACKED_BYTES_MAX bytes and UNPACKED_ENTRIES_MAX entries of an archive are searched. Archives of other
 * kinds are not opened.
 */
import { createGunzip, createInflateRaw, type Gunzip, type InflateRaw } from 'node:zlib'
import type { SecretScan } from './secret-search.ts'

/** The bytes of one content unpacked that are searched for secrets. */
const UNPACKED_BYTES_MAX = 256 * 1024 * 1024
/** The entries of one archive that are unpacked; each costs a sixth of a millisecond. */
const UNPACKED_ENTRIES_MAX = 50_000

const GZIP_START = Buffer.from([0x1f, 0x8b, 0x08])
const NOTHING = Buffer.alloc(0)

export interface ScanSource {
  /** `isPacked`: for what is packed in contents. */
  openScan(isPacked: boolean): SecretScan
}

export class ContentScan {
  readonly #plain: SecretScan
  readonly #unpacked: SecretScan
  /** The first bytes, while they may still begin like gzip. */
  #start: Buffer | undefined = NOTHING
  #gunzip: Unpacking | undefined
  #zip: ZipScan

  constructor(search: ScanSource) {
    this.#plain = search.openScan(false)
    this.#unpacked = search.openScan(true)
    this.#zip = this.#createZipScan()
  }

  reset(): void {
    this.#plain.reset()
    this.#unpacked.reset()
    this.#start = NOTHING
    this.#gunzip = undefined
    this.#zip = this.#createZipScan()
  }

  /** Returns a promise only when the content has to wait; a search of many small contents must not. */
  push(piece: Buffer): Promise<void> | undefined {
    this.#plain.push(piece)
    if (this.#start !== undefined)
      return this.#begin(this.#start.length === 0 ? piece : Buffer.concat([this.#start, piece]))
    return this.#pushPacked(piece)
  }

  /** A first piece may be shorter than the signature of gzip. */
  #begin(start: Buffer): Promise<void> | undefined {
    const isShort = start.length < GZIP_START.length && start.equals(GZIP_START.subarray(0, start.length))
    this.#start = isShort ? Buffer.from(start) : undefined
    if (isShort) return undefined
    if (start.subarray(0, GZIP_START.length).equals(GZIP_START))
      this.#gunzip = new Unpacking(createGunzip(), this.#unpacked, newBudget())
    return this.#pushPacked(start)
  }

  #pushPacked(piece: Buffer): Promise<void> | undefined {
    return this.#gunzip === undefined ? this.#zip.push(piece) : this.#gunzip.write(piece)
  }

  /** The name of the first secret in the content. */
  end(): string | undefined | Promise<string | undefined> {
    const packed = this.#gunzip ?? (this.#zip.hasEntries ? this.#zip : undefined)
    if (packed === undefined) return this.#plain.found()
    return packed.end().then(() => this.#plain.found() ?? this.#unpacked.found())
  }

  #createZipScan(): ZipScan {
    return new ZipScan(this.#unpacked, newBudget())
  }
}

function newBudget(): UnpackingBudget {
  return { bytesLeft: UNPACKED_BYTES_MAX, entriesLeft: UNPACKED_ENTRIES_MAX }
}

// ---- zip -----------------------------------------------------------------------------------------------------------

const SIGNATURE = Buffer.from('PK\x03\x04', 'latin1')
const HEADER_BYTES = 30
const METHOD_AT = 8
const NAME_BYTES_AT = 26
const EXTRA_BYTES_AT = 28
const DEFLATED = 8

/**
 * `ZipScan` searches the packed entries of a zip archive, wherever in a content the archive begins.
 *
 * An entry is recognised by the signature of its header, and its packed bytes end by themselves. So sizes, which a
 * header may lack, do not matter, and neither does the directory at the archive's end. Entries that are not packed
 * stand in the content as they are.
 */
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

// ---- unpacking -----------------------------------------------------------------------------------------------------

/** How much may still be unpacked of one content. */
interface UnpackingBudget {
  bytesLeft: number
  /** Entries of archives. */
  entriesLeft: number
}

/** `Unpacking` searches what a program has packed, without keeping it. Content that is damaged ends it early. */
class Unpacking {
  readonly #stream: Gunzip | InflateRaw
  readonly #closed: Promise<void>

  constructor(stream: Gunzip | InflateRaw, scan: SecretScan, budget: UnpackingBudget) {
    this.#stream = stream
    stream.on('data', (piece: Buffer) => {
      budget.bytesLeft -= piece.length
      if (budget.bytesLeft < 0) stream.destroy()
      else scan.push(piece)
    })
    // Bytes behind the packed content are no part of it.
    stream.on('end', () => stream.destroy())
    this.#closed = new Promise<void>((resolve) => stream.on('error', () => {}).on('close', resolve))
  }

  /** Copies the piece, because the reader of a file fills its buffer again. */
  async write(piece: Uint8Array): Promise<void> {
    if (this.#stream.destroyed) return
    const written = new Promise<void>((resolve) => this.#stream.write(Buffer.from(piece), () => resolve()))
    await Promise.race([written, this.#closed])
  }

  async end(): Promise<void> {
    if (!this.#stream.destroyed) this.#stream.end()
    await this.#closed
  }
}
