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
import type { WorkerLine, WorkerLink } from '../../actors/api/host-api.ts'
import type { Clock } from '../../core/ports.ts'
import { WORKER_UNREGISTERED_FRAME_BYTES_MAX } from '../../protocol/limits.ts'
import { CLOSE, Outlet } from './bounded-sender.ts'

/** What the listener carries for each socket. */
export interface Wired {
  wire?: Wire
}

export class Wire implements WorkerLink {
  readonly address: string
  readonly #socket: WebSocket<Wired>
  /** Said in this breath. Mostly nothing, so nothing is kept for it. */
  #breath: string[] | undefined
  #breathChars = 0
  readonly #outlet: Outlet
  readonly #tooSlow: () => void
  #line: WorkerLine | undefined

  /** `tooSlow` is told of each line that is cut for its backlog; one function for all wires. */
  constructor(socket: WebSocket<Wired>, clock: Clock, tooSlow: () => void) {
    this.address = addressOf(socket.getRemoteAddressAsText())
    this.#socket = socket
    this.#outlet = new Outlet(socket, clock, nothing)
    this.#tooSlow = tooSlow
  }

  // ---- as the host sees it

  send(text: string): boolean {
    if (!this.#outlet.open) return false
    if (this.#breath === undefined) {
      this.#breath = [text]
      queueMicrotask(() => this.#exhale())
    } else this.#breath.push(text)
    this.#breathChars += text.length
    if (this.#breathChars >= BREATH_CHARS_MAX) this.#exhale()
    return this.#outlet.open
  }

  close(code: number, reason: string): void {
    this.#exhale()
    this.#outlet.leave(code, reason)
  }

  #exhale(): void {
    const breath = this.#breath
    this.#breath = undefined
    this.#breathChars = 0
    if (breath === undefined || !this.#outlet.open) return
    let taken = true
    this.#socket.cork(() => {
      for (const text of breath) taken = taken && this.#outlet.send(text)
    })
    if (taken) return
    this.#tooSlow()
    this.#outlet.leave(
      CLOSE.tryAgainLater,
      'too slow: more than the backlog limit was waiting; connect again',
    )
  }

  // ---- as the listener sees it

  join(line: WorkerLine): void {
    this.#line = line
  }

  /** Whether nobody knows yet who is at the other end. */
  get stranger(): boolean {
    return (this.#line?.frameBytesMax() ?? 0) <= WORKER_UNREGISTERED_FRAME_BYTES_MAX
  }

  /** The listener has made sure that a text frame is UTF-8; it hangs up on one that is not. */
  receive(bytes: ArrayBuffer, isBinary: boolean): void {
    const line = this.#line
    if (line === undefined || !this.#outlet.open) return
    const bytesMax = line.frameBytesMax()
    if (isBinary) line.unreadable('frames are JSON text, not binary')
    else if (bytes.byteLength > bytesMax) line.unreadable(`a frame has at most ${bytesMax} bytes`)
    else line.receive(Buffer.from(bytes).toString())
  }

  drained(): void {
    this.#outlet.drained()
  }

  closed(): void {
    this.#outlet.closed()
    this.#line?.closed()
    this.#line = undefined
  }
}

/** A longer breath leaves in several pieces, so that what waits is counted against the backlog. */
const BREATH_CHARS_MAX = 256 * 1024

const nothing = (): void => {}

const MAPPED_IPV4 = /^::ffff:([0-9a-f]{1,4}):([0-9a-f]{1,4})$/

/** As people write it: IPv6 without its zeros, and IPv4 as IPv4 however it arrived. */
export function addressOf(text: ArrayBuffer): string {
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
