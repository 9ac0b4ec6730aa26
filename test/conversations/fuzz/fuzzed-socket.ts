/** FuzzedSocket is a client of a host's socket that waits for each answer while the host's clock is turned. */
import { connectSocket, type ReceivedFrame, type SocketClient } from '../../support/socket-client.ts'
import type { FuzzedHost } from './fuzzed-host.ts'

export class FuzzedSocket {
  isClosed = false
  readonly #client: SocketClient
  readonly #host: FuzzedHost
  #read = 0

  constructor(host: FuzzedHost, path: string) {
    this.#host = host
    this.#client = connectSocket(host.port, path)
    void this.#client.closed.then(() => {
      this.isClosed = true
    })
  }

  async open(): Promise<void> {
    await this.#host.turnUntil(Promise.race([this.#client.opened.catch(() => {}), this.#client.closed]))
  }

  /** The frames that have arrived since the last call. */
  newFrames(): readonly ReceivedFrame[] {
    const frames = this.#client.frames.slice(this.#read)
    this.#read += frames.length
    return frames
  }

  send(text: string): void {
    if (!this.isClosed) this.#client.sendText(text)
  }

  /** The host has read everything, or has closed the socket. */
  async catchUp(): Promise<void> {
    if (this.isClosed) return
    await this.#host.turnUntil(Promise.race([this.#client.waitUntilCaughtUp(), this.#client.closed]))
  }

  async leave(): Promise<void> {
    if (!this.isClosed) this.#client.close()
    await this.#host.turnUntil(this.#client.closed)
  }
}
