/**
 * The way out of one socket, and the end of it.
 *
 * A client that does not read makes the host hold what it was sent. The listener holds up to a named number of bytes
 * for each socket, then drops what comes next and says so. A dropped push is a hole in the client's picture, so the
 * client is told to come back for a fresh one: nothing more is queued, what waits may drain, and then it is closed
 * with a code and a reason. Closing at once would lose both behind the backlog. One that does not drain in time is
 * cut without a word: it would not have read it anyway.
 */
import type { WebSocket } from 'uWebSockets.js'
import type { Cancel, Clock } from '../../core/ports.ts'

/** How long a socket that is on its way out may take to read what it was sent before. */
export const DRAIN_MS_MAX = 5_000
/** Two bytes of a close frame's 125 are its code. */
const REASON_BYTES_MAX = 123
/** The listener's word for what was over the backlog that a socket is allowed. */
const DROPPED = 2

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
  readonly #socket: WebSocket<unknown>
  readonly #clock: Clock
  readonly #onClosing: () => void
  #state: 'open' | 'leaving' | 'closed' = 'open'
  #code = 1000
  #reason = ''
  #cancelTermination: Cancel | undefined

  /** `whenLeaving` takes the socket off whatever is sent to it from elsewhere. */
  constructor(socket: WebSocket<unknown>, clock: Clock, whenLeaving: () => void) {
    this.#socket = socket
    this.#clock = clock
    this.#onClosing = whenLeaving
  }

  get isOpen(): boolean {
    return this.#state === 'open'
  }

  /** What is sent here is in order with what is published. Answers whether it was taken: not over the backlog. */
  send(text: string | Uint8Array): boolean {
    return this.#state === 'open' && this.#socket.send(text) !== DROPPED
  }

  /** Says goodbye once everything sent before has been read, or cuts the line when that takes too long. */
  closeAfterDrain(code: number, reason: string): void {
    if (this.#state !== 'open') return
    this.#state = 'leaving'
    this.#code = code
    this.#reason = truncateReason(reason)
    this.#onClosing()
    if (this.#socket.getBufferedAmount() === 0) this.#end()
    else this.#cancelTermination = this.#clock.after(DRAIN_MS_MAX, () => this.terminate())
  }

  /** The listener's word that more has left the buffer. */
  onDrained(): void {
    if (this.#state === 'leaving' && this.#socket.getBufferedAmount() === 0) this.#end()
  }

  terminate(): void {
    if (this.#state !== 'closed') this.#socket.close()
  }

  /** The listener's word that the socket is gone; it must not be touched any more. */
  onClosed(): void {
    this.#state = 'closed'
    this.#cancelTermination?.()
  }

  #end(): void {
    this.#socket.end(this.#code, this.#reason)
  }
}

/** Cut at a character's border, so that the client can still read it. */
function truncateReason(reason: string): string {
  const bytes = new TextEncoder().encode(reason)
  if (bytes.byteLength <= REASON_BYTES_MAX) return reason
  return new TextDecoder().decode(bytes.subarray(0, REASON_BYTES_MAX - 3)).replace(/\uFFFD+$/, '')
}
