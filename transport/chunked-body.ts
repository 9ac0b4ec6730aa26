/**
 * A long body on its way out, piece by piece, no faster than the client reads.
 *
 * The listener takes a piece whole or says how far it came; the rest of that piece is offered again when there is
 * room, and the next one is not even read before. So a slow client costs one piece, whatever the size of the body.
 */
import type { HttpResponse } from 'uWebSockets.js'

/** A piece that did not go out whole. */
interface Held {
  readonly bytes: Uint8Array
  /** How much of the body came before it. */
  readonly from: number
  readonly settle: (taken: Taken) => void
}

/** `all`: the body is complete, and the response must not be touched any more. */
export type Taken = 'piece' | 'all' | 'gone'

export class Pieces {
  readonly #response: HttpResponse
  readonly #size: number
  #held: Held | undefined

  /** The head must be written, and without a Content-Length: the listener writes that one itself. */
  constructor(response: HttpResponse, size: number) {
    this.#response = response
    this.#size = size
    response.onWritable((from) => this.#again(from))
  }

  send(bytes: Uint8Array): Taken | Promise<Taken> {
    const from = this.#response.getWriteOffset()
    const { taken, all } = this.#offer(bytes)
    if (all) return 'all'
    if (taken) return 'piece'
    return new Promise((settle) => {
      this.#held = { bytes, from, settle }
    })
  }

  /** The client has hung up; nothing more is offered. */
  gone(): void {
    this.#held?.settle('gone')
    this.#held = undefined
  }

  #again(offset: number): boolean {
    if (this.#held === undefined) return true
    const { bytes, from, settle } = this.#held
    const { taken, all } = this.#offer(bytes.subarray(offset - from))
    if (!taken && !all) return false
    this.#held = undefined
    settle(all ? 'all' : 'piece')
    return true
  }

  #offer(bytes: Uint8Array): { readonly taken: boolean; readonly all: boolean } {
    let answer: readonly [boolean, boolean] = [false, false]
    this.#response.cork(() => {
      answer = this.#response.tryEnd(bytes, this.#size)
    })
    return { taken: answer[0], all: answer[1] }
  }
}
