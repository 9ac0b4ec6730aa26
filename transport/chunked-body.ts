/**
 * A long body on its way out, piece by piece, no faster than the client reads.
 *
 * The listener takes a piece whole or says how far it came; the rest of that piece is offered again when there is
 * room, and the next one is not even read before. So a slow client costs one piece, whatever the size of the body.
 */
import type { HttpResponse } from 'uWebSockets.js'

/** A piece that did not go out whole. */
interface PendingChunk {
  readonly bytes: Uint8Array
  /** How much of the body came before it. */
  readonly from: number
  readonly resolve: (taken: ChunkResult) => void
}

/** `all`: the body is complete, and the response must not be touched any more. */
export type ChunkResult = 'piece' | 'all' | 'gone'

export class ChunkedBody {
  readonly #response: HttpResponse
  readonly #size: number
  #pending: PendingChunk | undefined

  /** The head must be written, and without a Content-Length: the listener writes that one itself. */
  constructor(response: HttpResponse, size: number) {
    this.#response = response
    this.#size = size
    response.onWritable((from) => this.#resume(from))
  }

  send(bytes: Uint8Array): ChunkResult | Promise<ChunkResult> {
    const from = this.#response.getWriteOffset()
    const { taken, all } = this.#write(bytes)
    if (all) return 'all'
    if (taken) return 'piece'
    return new Promise((settle) => {
      this.#pending = { bytes, from, resolve: settle }
    })
  }

  /** The client has hung up; nothing more is offered. */
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
    settle(all ? 'all' : 'piece')
    return true
  }

  #write(bytes: Uint8Array): { readonly taken: boolean; readonly all: boolean } {
    let answer: readonly [boolean, boolean] = [false, false]
    this.#response.cork(() => {
      answer = this.#response.tryEnd(bytes, this.#size)
    })
    return { taken: answer[0], all: answer[1] }
  }
}
