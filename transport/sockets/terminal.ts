/**
 * The socket of one terminal view: passes input to the host within a rate limit, and sends output while the client reads it.
 *
 * Token buckets limit frames and bytes: a long text may be pasted and a key held down, but no terminal can occupy a
 * worker's connection.
 */

import type { ViewReceiver, ViewSender } from '../../core/connection-ports.ts'
import type { Clock } from '../../core/ports.ts'
import type { ActionSource } from '../../protocol/audit.ts'
import { AttachInput, type AttachOutput } from '../../protocol/dashboard.ts'
import {
  ATTACH_FRAME_BYTES_MAX,
  ATTACH_FRAMES_AT_ONCE,
  ATTACH_FRAMES_PER_SECOND,
  ATTACH_INPUT_BYTES_AT_ONCE,
  ATTACH_INPUT_BYTES_PER_SECOND,
  TEXT_CHARS_MAX,
} from '../../protocol/limits.ts'
import { createChecker, parseJson } from '../../protocol/parse.ts'
import type { ServerSocket } from '../listener-port.ts'
import { BoundedSender, CLOSE } from './bounded-sender.ts'

/** The library's user data of each socket. */
export interface TerminalSocketData {
  readonly runId: string
  readonly source: ActionSource
  terminal?: TerminalSocket
}

const TOO_SLOW = 'too slow: more than the backlog limit was waiting; connect again'
const TOO_FAST = 'too fast: more was typed than a terminal may send; connect again'

export class TerminalSocket implements ViewSender {
  readonly #sender: BoundedSender
  readonly #frames: FrameRateBucket
  readonly #bytes: FrameRateBucket
  readonly #onTooSlow: () => void
  #receiver: ViewReceiver | undefined
  /** The frames from before the host listens; the buckets bound them. */
  #early: AttachInput[] = []

  /** @param onTooSlow called when the socket is closed for its backlog */
  constructor(socket: ServerSocket<TerminalSocketData>, clock: Clock, onTooSlow: () => void) {
    this.#sender = new BoundedSender(socket, clock, () => {})
    this.#frames = new FrameRateBucket(clock, ATTACH_FRAMES_PER_SECOND, ATTACH_FRAMES_AT_ONCE)
    this.#bytes = new FrameRateBucket(clock, ATTACH_INPUT_BYTES_PER_SECOND, ATTACH_INPUT_BYTES_AT_ONCE)
    this.#onTooSlow = onTooSlow
  }

  // ---- called by the host

  send(frame: AttachOutput, text = JSON.stringify(frame)): boolean {
    if (!this.#sender.isOpen) return false
    if (this.#sender.send(text)) return true
    this.#onTooSlow()
    this.#sender.closeAfterDrain(CLOSE.tryAgainLater, TOO_SLOW)
    return false
  }

  close(code: number, reason: string): void {
    this.#sender.closeAfterDrain(code, reason)
  }

  // ---- called by the library

  get isOpen(): boolean {
    return this.#sender.isOpen
  }

  connect(receiver: ViewReceiver): void {
    this.#receiver = receiver
    for (const frame of this.#early.splice(0)) this.#pass(frame)
  }

  onMessage(bytes: ArrayBuffer, isBinary: boolean): void {
    if (!this.#sender.isOpen) return
    if (!this.#frames.take(1) || !this.#bytes.take(bytes.byteLength)) this.#refuse(CLOSE.policy, TOO_FAST)
    else if (isBinary) this.#refuse(CLOSE.badData, 'frames are JSON text, not binary')
    else if (bytes.byteLength > ATTACH_FRAME_BYTES_MAX)
      this.#refuse(CLOSE.tooBig, `a frame has at most ${ATTACH_FRAME_BYTES_MAX} bytes`)
    else this.#read(Buffer.from(bytes).toString())
  }

  /** The library answers pings itself; they count as frames all the same. */
  onPing(): void {
    if (this.#sender.isOpen && !this.#frames.take(1)) this.#refuse(CLOSE.policy, TOO_FAST)
  }

  onDrained(): void {
    this.#sender.onDrained()
  }

  onClosed(): void {
    this.#sender.onClosed()
    this.#releaseReceiver()
  }

  #read(text: string): void {
    const parsed = parseJson(text)
    const frame = parsed.ok ? readInput(parsed.value) : parsed
    if (!frame.ok) this.#refuse(CLOSE.policy, frame.error.replace(/^\/: /, 'a frame '))
    else if (this.#receiver === undefined) this.#early.push(frame.value)
    else this.#pass(frame.value)
  }

  #pass(frame: AttachInput): void {
    if (frame.type === 'input') this.#receiver?.onInput(frame.data)
    else this.#receiver?.onResize(frame.cols, frame.rows)
  }

  #refuse(code: number, reason: string): void {
    this.#sender.send(JSON.stringify({ type: 'error', message: reason.slice(0, TEXT_CHARS_MAX) }))
    this.#sender.closeAfterDrain(code, reason)
    this.#releaseReceiver()
  }

  #releaseReceiver(): void {
    const receiver = this.#receiver
    this.#receiver = undefined
    receiver?.onClosed()
  }
}

const readInput = createChecker(AttachInput)

class FrameRateBucket {
  readonly #clock: Clock
  readonly #perSecond: number
  readonly #burstMax: number
  #tokens: number
  #refilledAt: number

  constructor(clock: Clock, perSecond: number, most: number) {
    this.#clock = clock
    this.#perSecond = perSecond
    this.#burstMax = most
    this.#tokens = most
    this.#refilledAt = clock.monotonic()
  }

  take(count: number): boolean {
    const now = this.#clock.monotonic()
    this.#tokens = Math.min(
      this.#burstMax,
      this.#tokens + ((now - this.#refilledAt) / 1000) * this.#perSecond,
    )
    this.#refilledAt = now
    this.#tokens -= count
    return this.#tokens >= 0
  }
}
