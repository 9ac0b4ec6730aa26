/**
 * Sends a long response body in chunks, no faster than the client reads.
 *
 * The library accepts a chunk whole or in part. The rest of the chunk is written again when the socket is writable, and
 * the next chunk is read only after that. So a slow client costs the memory of one chunk.
 */
import type { ListenerResponse } from './listener-port.ts'

/** A chunk that was written only in part. */
interface PendingChunk {
  readonly bytes: Uint8Array
  /** The offset of the chunk in the body. */
  readonly from: number
  readonly resolve: (taken: ChunkResult) => void
}

/** `all`: the body is complete, and the response must not be used any more. */
export type ChunkResult = 'chunk' | 'all' | 'gone'

export class ChunkedBody {
  readonly #response: ListenerResponse
  readonly #size: number
  #pending: PendingChunk | undefined

  /** The head must be written before, without Content-Length, which the library writes itself. */
  constructor(response: ListenerResponse, size: number) {
    this.#response = response
    this.#size = size
    response.onWritable((from) => this.#resume(from))
  }

  send(bytes: Uint8Array): ChunkResult | Promise<ChunkResult> {
    const from = this.#response.getWriteOffset()
    const { taken, all } = this.#write(bytes)
    if (all) return 'all'
    if (taken) return 'chunk'
    return new Promise((settle) => {
      this.#pending = { bytes, from, resolve: settle }
    })
  }

  /** The client has disconnected: stop writing. */
  abort(): void {
    this.#pending?.resolve('gone')
    this.#pending = undefined
  }

  #resume(offset: number): boolean {
    if (this.#pending === undefined) return true
    const { bytes, from, resolve: settle } = this.#pending
    const { taken, all } = this.#write(bytes.subarray(offset - from))
    if (!taken && !all) return false
    this.#pending = undefined
    settle(all ? 'all' : 'chunk')
    return true
  }

  /** With newer versions of Node an empty chunk would end the response in the middle of its body. */
  #write(bytes: Uint8Array): { readonly taken: boolean; readonly all: boolean } {
    if (bytes.byteLength === 0) return { taken: true, all: false }
    let answer: readonly [boolean, boolean] = [false, false]
    this.#response.cork(() => {
      answer = this.#response.tryEnd(bytes, this.#size)
    })
    return { taken: answer[0], all: answer[1] }
  }
}
