/**
 * One terminal's socket: what is typed goes in within a rate, what is printed goes out for as long as it is read.
 *
 * The rate is a bucket each for frames and for bytes, so that a long text may be pasted and a key held down, and no
 * one terminal can keep a worker's line busy.
 */
import type { WebSocket } from 'uWebSockets.js'
import type { ViewLine, ViewLink } from '../../actors/api/host-api.ts'
import type { Clock } from '../../core/ports.ts'
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
import { CLOSE, Outlet } from './bounded-sender.ts'

/** What the listener carries for each socket. */
export interface Showing {
  readonly runId: string
  terminal?: Terminal
}

const TOO_SLOW = 'too slow: more than the backlog limit was waiting; connect again'
const TOO_FAST = 'too fast: more was typed than a terminal may send; connect again'

export class Terminal implements ViewLink {
  readonly #outlet: Outlet
  readonly #frames: Bucket
  readonly #bytes: Bucket
  readonly #tooSlow: () => void
  #line: ViewLine | undefined

  /** `tooSlow` is told when it is cut off for its backlog. */
  constructor(socket: WebSocket<Showing>, clock: Clock, tooSlow: () => void) {
    this.#outlet = new Outlet(socket, clock, () => {})
    this.#frames = new Bucket(clock, ATTACH_FRAMES_PER_SECOND, ATTACH_FRAMES_AT_ONCE)
    this.#bytes = new Bucket(clock, ATTACH_INPUT_BYTES_PER_SECOND, ATTACH_INPUT_BYTES_AT_ONCE)
    this.#tooSlow = tooSlow
  }

  // ---- as the host sees it

  send(frame: AttachOutput, text = JSON.stringify(frame)): boolean {
    if (!this.#outlet.open) return false
    if (this.#outlet.send(text)) return true
    this.#tooSlow()
    this.#outlet.leave(CLOSE.tryAgainLater, TOO_SLOW)
    return false
  }

  close(code: number, reason: string): void {
    this.#outlet.leave(code, reason)
  }

  // ---- as the listener sees it

  join(line: ViewLine): void {
    this.#line = line
  }

  receive(bytes: ArrayBuffer, isBinary: boolean): void {
    if (!this.#outlet.open) return
    if (!this.#frames.takes(1) || !this.#bytes.takes(bytes.byteLength)) this.#refuse(CLOSE.policy, TOO_FAST)
    else if (isBinary) this.#refuse(CLOSE.badData, 'frames are JSON text, not binary')
    else if (bytes.byteLength > ATTACH_FRAME_BYTES_MAX)
      this.#refuse(CLOSE.tooBig, `a frame has at most ${ATTACH_FRAME_BYTES_MAX} bytes`)
    else this.#read(Buffer.from(bytes).toString())
  }

  /** The listener answers pings by itself; they count all the same. */
  pinged(): void {
    if (this.#outlet.open && !this.#frames.takes(1)) this.#refuse(CLOSE.policy, TOO_FAST)
  }

  drained(): void {
    this.#outlet.drained()
  }

  closed(): void {
    this.#outlet.closed()
    this.#letGo()
  }

  #read(text: string): void {
    const parsed = parseJson(text)
    const frame = parsed.ok ? readInput(parsed.value) : parsed
    if (!frame.ok) this.#refuse(CLOSE.policy, frame.error.replace(/^\/: /, 'a frame '))
    else if (frame.value.type === 'input') this.#line?.input(frame.value.data)
    else this.#line?.resize(frame.value.cols, frame.value.rows)
  }

  #refuse(code: number, reason: string): void {
    this.#outlet.send(JSON.stringify({ type: 'error', message: reason.slice(0, TEXT_CHARS_MAX) }))
    this.#outlet.leave(code, reason)
    this.#letGo()
  }

  #letGo(): void {
    const line = this.#line
    this.#line = undefined
    line?.closed()
  }
}

const readInput = createChecker(AttachInput)

class Bucket {
  readonly #clock: Clock
  readonly #perSecond: number
  readonly #most: number
  #left: number
  #at: number

  constructor(clock: Clock, perSecond: number, most: number) {
    this.#clock = clock
    this.#perSecond = perSecond
    this.#most = most
    this.#left = most
    this.#at = clock.monotonic()
  }

  takes(count: number): boolean {
    const now = this.#clock.monotonic()
    this.#left = Math.min(this.#most, this.#left + ((now - this.#at) / 1000) * this.#perSecond)
    this.#at = now
    this.#left -= count
    return this.#left >= 0
  }
}
