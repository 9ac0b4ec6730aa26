/**
 * `ContentScan` searches one content for secrets while it is read, and what is inside when it was made by gzip.
 *
 * Of what gzip holds, the first GUNZIPPED_BYTES_MAX bytes are searched. Other archives are not opened.
 */
import { createGunzip, type Gunzip } from 'node:zlib'
import { GUNZIPPED_BYTES_MAX } from '../../protocol/limits.ts'
import type { SecretScan, SecretSearch } from './secret-search.ts'

const GZIP_START = Buffer.from([0x1f, 0x8b, 0x08])

export class ContentScan {
  readonly #plain: SecretScan
  readonly #unpacked: SecretScan
  #isStarted = false
  #gunzip: Unpacking | undefined

  constructor(search: SecretSearch) {
    this.#plain = search.openScan()
    this.#unpacked = search.openScan()
  }

  reset(): void {
    this.#plain.reset()
    this.#unpacked.reset()
    this.#isStarted = false
    this.#gunzip = undefined
  }

  /** Returns a promise only when the content has to wait; a search of many small contents must not. */
  push(piece: Buffer): Promise<void> | undefined {
    if (!this.#isStarted && piece.subarray(0, GZIP_START.length).equals(GZIP_START))
      this.#gunzip = startUnpacking(this.#unpacked)
    this.#isStarted = true
    this.#plain.push(piece)
    return this.#gunzip?.write(piece)
  }

  /** The name of the first secret in the content. */
  end(): string | undefined | Promise<string | undefined> {
    if (this.#gunzip === undefined) return this.#plain.found()
    return this.#gunzip.end().then(() => this.#plain.found() ?? this.#unpacked.found())
  }
}

interface Unpacking {
  write(piece: Buffer): Promise<void>
  end(): Promise<void>
}

function startUnpacking(scan: SecretScan): Unpacking {
  const gunzip = createGunzip()
  let bytes = 0
  gunzip.on('data', (piece: Buffer) => {
    bytes += piece.length
    if (bytes > GUNZIPPED_BYTES_MAX) gunzip.destroy()
    else scan.push(piece)
  })
  // Content that is no gzip after all ends early.
  const closed = new Promise<void>((resolve) => gunzip.on('error', () => {}).on('close', resolve))
  const written = (start: (done: () => void) => void): Promise<void> =>
    gunzip.destroyed ? closed : Promise.race([new Promise<void>((resolve) => start(resolve)), closed])
  return {
    write: (piece) => written((done) => writePiece(gunzip, piece, done)),
    end: async () => {
      if (!gunzip.destroyed) gunzip.end()
      await closed
    },
  }
}

/** A copy, because the reader of a file fills its buffer again. */
function writePiece(gunzip: Gunzip, piece: Buffer, done: () => void): void {
  gunzip.write(Buffer.from(piece), () => done())
}
