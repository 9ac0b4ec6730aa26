/**
 * Sends to one socket within the backlog limit, and closes it with a code and a reason.
 *
 * The library buffers a limited number of bytes for each socket, then drops messages and reports that. A client that
 * missed a message has to connect again, so the socket is closed: nothing more is queued, the backlog may drain, then
 * the close frame follows. Closing at once would lose the code and the reason behind the backlog. A socket that does not
 * drain within `DRAIN_MS_MAX` is terminated without a close frame.
 */

import type { Cancel, Clock } from '../../core/ports/clock.ts'
import { DROPPED, type ServerSocket } from '../listener-port.ts'
import { toBytes } from '../to-bytes.ts'

/** How long a closing socket may take to read its backlog. */
export const DRAIN_MS_MAX = 5_000
/** A close frame has 125 bytes, two of which are the code. */
const REASON_BYTES_MAX = 123

/** WebSocket close codes that the host uses (RFC 6455 §7.4.1, and 1013 from the registry). */
export const CLOSE = {
  goingAway: 1001,
  badData: 1003,
  policy: 1008,
  tooBig: 1009,
  failed: 1011,
  tryAgainLater: 1013,
} as const

export class BoundedSender {
  readonly #socket: ServerSocket<unknown>
  readonly #clock: Clock
  readonly #onClosing: () => void
  #state: 'open' | 'closing' | 'closed' = 'open'
  #code = 1000
  #reason = ''
  #cancelTermination: Cancel | undefined

  /** @param onClosing unsubscribes the socket from messages that are sent to it elsewhere */
  constructor(socket: ServerSocket<unknown>, clock: Clock, onClosing: () => void) {
    this.#socket = socket
    this.#clock = clock
    this.#onClosing = onClosing
  }

  get isOpen(): boolean {
    return this.#state === 'open'
  }

  /** Sends in order with published messages. Returns whether the message was accepted, not dropped for the backlog. */
  send(text: string | Uint8Array): boolean {
    return this.#state === 'open' && this.#socket.send(toBytes(text)) !== DROPPED
  }

  /** Closes the socket when its backlog has been read, or terminates it when that takes too long. */
  closeAfterDrain(code: number, reason: string): void {
    if (this.#state !== 'open') return
    this.#state = 'closing'
    this.#code = code
    this.#reason = truncateReason(reason)
    this.#onClosing()
    if (this.#socket.getBufferedAmount() === 0) this.#end()
    else this.#cancelTermination = this.#clock.after(DRAIN_MS_MAX, () => this.terminate())
  }

  /** Called by the library when the backlog has shrunk. */
  onDrained(): void {
    if (this.#state === 'closing' && this.#socket.getBufferedAmount() === 0) this.#end()
  }

  terminate(): void {
    if (this.#state !== 'closed') this.#socket.close()
  }

  /** Called by the library when the socket is closed; it must not be used any more. */
  onClosed(): void {
    this.#state = 'closed'
    this.#cancelTermination?.()
  }

  #end(): void {
    this.#socket.end(this.#code, toBytes(this.#reason))
  }
}

/** Truncates at a character boundary, so that the text stays valid UTF-8. */
function truncateReason(reason: string): string {
  const bytes = new TextEncoder().encode(reason)
  if (bytes.byteLength <= REASON_BYTES_MAX) return reason
  return new TextDecoder().decode(bytes.subarray(0, REASON_BYTES_MAX - 3)).replace(/\uFFFD+$/, '')
}
