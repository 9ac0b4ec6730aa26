/**
 * One worker's wire: what the host says goes out by it, and what comes in is held to its bounds and handed on.
 *
 * There may be thousands, nearly always silent, so a wire is one small object and its way out; nothing here makes a
 * function for each socket. A worker that does not read makes the host hold what it was sent, up to a named number of
 * bytes; then the line is cut, because a hole in what a worker is told is worse than telling it again from the start.
 *
 * What is said in one breath (a commit landed, and eight runs are dispatched to one worker) leaves in one piece: a call
 * to the system for each frame would cost more than making the frame.
 */
import type { WebSocket } from 'uWebSockets.js'
import type { WorkerReceiver, WorkerSender } from '../../core/connection-ports.ts'
import type { Clock } from '../../core/ports.ts'
import { WORKER_UNREGISTERED_FRAME_BYTES_MAX } from '../../protocol/limits.ts'
import { BoundedSender, CLOSE } from './bounded-sender.ts'

/** What the listener carries for each socket. */
export interface WorkerSocketData {
  workerSocket?: WorkerSocket
}

export class WorkerSocket implements WorkerSender {
  readonly address: string
  readonly #socket: WebSocket<WorkerSocketData>
  /** Said in this breath. Mostly nothing, so nothing is kept for it. */
  #batch: string[] | undefined
  #batchChars = 0
  readonly #sender: BoundedSender
  readonly #onTooSlow: () => void
  #receiver: WorkerReceiver | undefined

  /** `tooSlow` is told of each line that is cut for its backlog; one function for all wires. */
  constructor(socket: WebSocket<WorkerSocketData>, clock: Clock, tooSlow: () => void) {
    this.address = formatAddress(socket.getRemoteAddressAsText())
    this.#socket = socket
    this.#sender = new BoundedSender(socket, clock, doNothing)
    this.#onTooSlow = tooSlow
  }

  // ---- as the host sees it

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

  // ---- as the listener sees it

  connect(receiver: WorkerReceiver): void {
    this.#receiver = receiver
  }

  /** Whether nobody knows yet who is at the other end. */
  get isUnregistered(): boolean {
    return (this.#receiver?.frameBytesMax() ?? 0) <= WORKER_UNREGISTERED_FRAME_BYTES_MAX
  }

  /** The listener has made sure that a text frame is UTF-8; it hangs up on one that is not. */
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

/** A longer breath leaves in several pieces, so that what waits is counted against the backlog. */
const BATCH_CHARS_MAX = 256 * 1024

const doNothing = (): void => {}

const MAPPED_IPV4 = /^::ffff:([0-9a-f]{1,4}):([0-9a-f]{1,4})$/

/** As people write it: IPv6 without its zeros, and IPv4 as IPv4 however it arrived. */
export function formatAddress(text: ArrayBuffer): string {
  const said = Buffer.from(text).toString('latin1')
  if (!said.includes(':') || !URL.canParse(`http://[${said}]`)) return said
  const short = new URL(`http://[${said}]`).hostname.slice(1, -1)
  const [, high, low] = MAPPED_IPV4.exec(short) ?? []
  return high === undefined || low === undefined ? short : [...halves(high), ...halves(low)].join('.')
}

function halves(hex: string): [number, number] {
  const value = Number.parseInt(hex, 16)
  return [value >> 8, value & 0xff]
}
