/**
 * Sends a response body whose length is known only at its end, no faster than the client reads.
 *
 * The library keeps what the socket does not accept. StreamedBody asks for the next chunk only when the socket has
 * accepted everything, so a slow client costs the memory of one chunk.
 */
import type { ListenerResponse } from './listener-port.ts'

export class StreamedBody {
  readonly #response: ListenerResponse
  #resume: ((sent: 'chunk' | 'gone') => void) | undefined

  /** The head must be written before, without Content-Length. */
  constructor(response: ListenerResponse) {
    this.#response = response
    response.onWritable(() => {
      this.#settle('chunk')
      return true
    })
  }

  send(bytes: Uint8Array): 'chunk' | Promise<'chunk' | 'gone'> {
    let isTaken = false
    this.#response.cork(() => {
      isTaken = this.#response.write(bytes)
    })
    if (isTaken) return 'chunk'
    return new Promise((resolve) => {
      this.#resume = resolve
    })
  }

  end(): void {
    this.#response.cork(() => this.#response.end())
  }

  /** The client has disconnected: stop writing. */
  abort(): void {
    this.#settle('gone')
  }

  #settle(sent: 'chunk' | 'gone'): void {
    const resume = this.#resume
    this.#resume = undefined
    resume?.(sent)
  }
}
