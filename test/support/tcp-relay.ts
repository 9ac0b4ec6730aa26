/**
 * A line between a worker and its host that a test can cut: plain TCP, passed on byte by byte.
 *
 * `cut` ends every connection and lets none through, `cutAfter` does so in the midst of what the worker says; `freeze`
 * keeps them and passes nothing on, as a network does that has lost its way: neither side is told.
 */
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { afterEach } from '@jest/globals'

const relays = new Set<Relay>()

afterEach(() => {
  for (const relay of relays) relay.close()
  relays.clear()
})

type State = 'open' | 'cut' | 'frozen'

export class Relay {
  readonly #server: Server
  readonly #sockets = new Set<Socket>()
  #state: State = 'open'
  #bytesToCut = Number.POSITIVE_INFINITY

  private constructor(port: number) {
    this.#server = createServer({ allowHalfOpen: false }, (near) => this.#join(near, port))
  }

  /** To a port of this machine. */
  static async to(port: number): Promise<Relay> {
    const relay = new Relay(port)
    relays.add(relay)
    await new Promise<void>((resolve) => relay.#server.listen(0, '127.0.0.1', resolve))
    return relay
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  cut(): void {
    this.#state = 'cut'
    for (const socket of this.#sockets) socket.destroy()
  }

  /** Once the worker has said so much more. */
  cutAfter(bytes: number): void {
    this.#bytesToCut = bytes
  }

  freeze(): void {
    this.#state = 'frozen'
    for (const socket of this.#sockets) socket.pause()
  }

  /** What was frozen is cut: whatever waited in it is lost. */
  mend(): void {
    if (this.#state === 'frozen') for (const socket of this.#sockets) socket.destroy()
    this.#state = 'open'
  }

  close(): void {
    this.cut()
    this.#server.close()
  }

  #join(near: Socket, port: number): void {
    if (this.#state === 'cut') {
      near.destroy()
      return
    }
    this.#hold(near)
    if (this.#state === 'frozen') {
      near.pause()
      return
    }
    const far = connect(port, '127.0.0.1')
    this.#hold(far)
    near.on('data', (bytes) => {
      far.write(bytes)
      this.#passed(bytes.length)
    })
    far.on('data', (bytes) => near.write(bytes))
    near.on('close', () => far.destroy())
    far.on('close', () => near.destroy())
  }

  #passed(bytes: number): void {
    this.#bytesToCut -= bytes
    if (this.#bytesToCut > 0) return
    this.#bytesToCut = Number.POSITIVE_INFINITY
    this.cut()
  }

  #hold(socket: Socket): void {
    this.#sockets.add(socket)
    socket.setNoDelay(true)
    // Told by the close that follows.
    socket.on('error', () => {})
    socket.on('close', () => this.#sockets.delete(socket))
  }
}
