/**
 * A TCP relay between a worker and its host whose connections a test can break.
 *
 * `disconnect` closes every connection and refuses new ones; `disconnectAfter` does so in the middle of a worker's
 * frame. `freeze` keeps the connections open and forwards nothing, like a network that loses packets silently.
 */
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { afterEach } from '@jest/globals'

const relays = new Set<TcpRelay>()

afterEach(() => {
  for (const relay of relays) relay.close()
  relays.clear()
})

type RelayState = 'open' | 'cut' | 'frozen'

export class TcpRelay {
  readonly #server: Server
  readonly #sockets = new Set<Socket>()
  #state: RelayState = 'open'
  #bytesUntilDisconnect = Number.POSITIVE_INFINITY

  private constructor(port: number) {
    this.#server = createServer({ allowHalfOpen: false }, (near) => this.#accept(near, port))
  }

  /** Starts a relay to a local port. */
  static async startFor(port: number): Promise<TcpRelay> {
    const relay = new TcpRelay(port)
    relays.add(relay)
    await new Promise<void>((resolve) => relay.#server.listen(0, '127.0.0.1', resolve))
    return relay
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  disconnect(): void {
    this.#state = 'cut'
    for (const socket of this.#sockets) socket.destroy()
  }

  /** Disconnects after the worker has sent so many more bytes. */
  disconnectAfter(bytes: number): void {
    this.#bytesUntilDisconnect = bytes
  }

  freeze(): void {
    this.#state = 'frozen'
    for (const socket of this.#sockets) socket.pause()
  }

  /** Accepts connections again; closes frozen connections, so their pending data is lost. */
  restore(): void {
    if (this.#state === 'frozen') for (const socket of this.#sockets) socket.destroy()
    this.#state = 'open'
  }

  close(): void {
    this.disconnect()
    this.#server.close()
  }

  #accept(near: Socket, port: number): void {
    if (this.#state === 'cut') {
      near.destroy()
      return
    }
    this.#track(near)
    if (this.#state === 'frozen') {
      near.pause()
      return
    }
    const far = connect(port, '127.0.0.1')
    this.#track(far)
    near.on('data', (bytes) => {
      far.write(bytes)
      this.#countBytes(bytes.length)
    })
    far.on('data', (bytes) => near.write(bytes))
    near.on('close', () => far.destroy())
    far.on('close', () => near.destroy())
  }

  #countBytes(bytes: number): void {
    this.#bytesUntilDisconnect -= bytes
    if (this.#bytesUntilDisconnect > 0) return
    this.#bytesUntilDisconnect = Number.POSITIVE_INFINITY
    this.disconnect()
  }

  #track(socket: Socket): void {
    this.#sockets.add(socket)
    socket.setNoDelay(true)
    // A close follows each error.
    socket.on('error', () => {})
    socket.on('close', () => this.#sockets.delete(socket))
  }
}
