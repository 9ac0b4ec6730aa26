/** `Unpacking` searches what a program has packed, without keeping it. Content that is damaged ends it early. */
import type { Gunzip, InflateRaw } from 'node:zlib'
import type { SecretScan } from './secret-search.ts'

/** How much may still be unpacked of one content. */
export interface UnpackingBudget {
  bytesLeft: number
  /** Entries of archives. */
  entriesLeft: number
}

export class Unpacking {
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
