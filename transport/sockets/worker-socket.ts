/**
 * The socket of one worker: sends the host's frames in batches, and passes incoming frames on within their size limit.
 *
 * A host may have thousands of mostly silent sockets, so each is one small object without closures. A worker that does not
 * read is disconnected at the backlog limit: a lost frame would be worse than starting again after a reconnect.
 * All frames of one tick (one commit may dispatch eight runs to a worker) are sent together, because a system call for
 * each would cost more than creating the frame.
 */

import type { WorkerReceiver, WorkerSender } from '../../core/connection-ports.ts'
import type { Clock } from '../../core/ports.ts'
import type { ServerSocket } from '../listener-port.ts'
import { BoundedSender, CLOSE } from './bounded-sender.ts'

/** The library's user data of each socket. */
export interface WorkerSocketData {
  /** The result of `HostApi.proveWorker` for the upgrade request. */
  readonly proof?: string
  workerSocket?: WorkerSocket
}

export class WorkerSocket implements WorkerSender {
  readonly address: string
  readonly #socket: ServerSocket<WorkerSocketData>
  /** The frames of this tick; undefined when there are none, to save memory. */
  #batch: string[] | undefined
  #batchChars = 0
  readonly #sender: BoundedSender
  readonly #onTooSlow: () => void
  #receiver: WorkerReceiver | undefined

  /** @param onTooSlow called when a socket is closed for its backlog; the same function for all sockets */
  constructor(socket: ServerSocket<WorkerSocketData>, clock: Clock, onTooSlow: () => void) {
    this.address = formatAddress(socket.getRemoteAddressAsText())
    this.#socket = socket
    this.#sender = new BoundedSender(socket, clock, doNothing)
    this.#onTooSlow = onTooSlow
  }

  // ---- called by the host

  send(text: string): boolean {
    if (!this.#sender.isOpen) return false
    if (this.#batch === undefined) {
      this.#batch = [text]
      queueMicrotask(() => this.#sendBatch())
    } else this.#batch.push(text)
    this.#batchChars += text.length
    if (this.#batchChars >= BATCH_CHARS_MAX) this.#sendBatch()
    return this.#sender.isOpen
  }

  close(code: number, reason: string): void {
    this.#sendBatch()
    this.#sender.closeAfterDrain(code, reason)
  }

  #sendBatch(): void {
    const batch = this.#batch
    this.#batch = undefined
    this.#batchChars = 0
    if (batch === undefined || !this.#sender.isOpen) return
    let taken = true
    this.#socket.cork(() => {
      for (const text of batch) taken = taken && this.#sender.send(text)
    })
    if (taken) return
    this.#onTooSlow()
    this.#sender.closeAfterDrain(
      CLOSE.tryAgainLater,
      'too slow: more than the backlog limit was waiting; connect again',
    )
  }

  // ---- called by the library

  connect(receiver: WorkerReceiver): void {
    this.#receiver = receiver
  }

  /** The library has checked that text frames are valid UTF-8. */
  onMessage(bytes: ArrayBuffer, isBinary: boolean): void {
    const receiver = this.#receiver
    if (receiver === undefined || !this.#sender.isOpen) return
    const bytesMax = receiver.frameBytesMax()
    if (isBinary) receiver.onUnreadable('frames are JSON text, not binary')
    else if (bytes.byteLength > bytesMax) receiver.onUnreadable(`a frame has at most ${bytesMax} bytes`)
    else receiver.onText(Buffer.from(bytes).toString())
  }

  onDrained(): void {
    this.#sender.onDrained()
  }

  onClosed(): void {
    this.#sender.onClosed()
    this.#receiver?.onClosed()
    this.#receiver = undefined
  }
}

/** A larger batch is split, so that its bytes count against the backlog limit. */
const BATCH_CHARS_MAX = 256 * 1024

const doNothing = (): void => {}

const MAPPED_IPV4 = /^::ffff:([0-9a-f]{1,4}):([0-9a-f]{1,4})$/

/** Formats an address for people: IPv6 shortened, and IPv4-mapped IPv6 as IPv4. */
export function formatAddress(text: ArrayBuffer): string {
  const address = Buffer.from(text).toString('latin1')
  if (!address.includes(':') || !URL.canParse(`http://[${address}]`)) return address
  const short = new URL(`http://[${address}]`).hostname.slice(1, -1)
  const [, high, low] = MAPPED_IPV4.exec(short) ?? []
  return high === undefined || low === undefined ? short : [...halves(high), ...halves(low)].join('.')
}

function halves(hex: string): [number, number] {
  const value = Number.parseInt(hex, 16)
  return [value >> 8, value & 0xff]
}
