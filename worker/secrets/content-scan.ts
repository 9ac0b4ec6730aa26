/**
 * `ContentScan` searches one content for secrets while it is read, and what is packed in it by gzip or zip.
 *
 * The first UNPACKED_BYTES_MAX bytes and UNPACKED_ENTRIES_MAX entries of an archive are searched. Archives of other
 * kinds are not opened.
 */
import { createGunzip } from 'node:zlib'
import { UNPACKED_BYTES_MAX, UNPACKED_ENTRIES_MAX } from '../../protocol/limits.ts'
import type { SecretScan } from './secret-search.ts'
import { Unpacking, type UnpackingBudget } from './unpacking.ts'
import { ZipScan } from './zip-scan.ts'

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
