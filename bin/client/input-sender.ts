/**
 * What is typed, on its way to the host: at once while a person types, and paced when much comes in one go.
 *
 * The host puts a limit on how often and how much a view may send, and cuts off one that goes beyond. So the first key
 * goes out the moment it is struck, and what follows closely waits for its turn and goes together. While there is no
 * line it waits for the next one, in order; whoever types is asked to pause when too much waits.
 */
import type { Cancel, Clock } from '../../core/ports.ts'
import type { AttachInput } from '../../protocol/dashboard.ts'
import { ATTACH_FRAMES_PER_SECOND, ATTACH_INPUT_BYTES_PER_SECOND } from '../../protocol/limits.ts'
import type { TerminalConnection } from './dial-terminal.ts'

export interface WindowSize {
  readonly cols: number
  readonly rows: number
}

const FRAME_CHARS_MAX = 4 * 1024
/**
 * Beyond this no more is read from the person's terminal, nor are the keys to detach. So it is more than anybody pastes,
 * and whoever pasted the wrong thing, or pasted while there is no line, need not wait for it to go out.
 */
const WAITING_CHARS_MAX = 4 * 1024 * 1024
/** Of what the host lets through, we take so much. */
const RATE_SHARE = 0.7
const SEND_INTERVAL_MS = Math.ceil(1_000 / (RATE_SHARE * ATTACH_FRAMES_PER_SECOND))
const BYTES_PER_MS = (RATE_SHARE * ATTACH_INPUT_BYTES_PER_SECOND) / 1_000
/** Handed over and not yet on its way; more, and the line is waited for. */
const BACKLOG_BYTES_MAX = 64 * 1024

export class InputSender {
  readonly #clock: Pick<Clock, 'after'>
  readonly #onFull: (isFull: boolean) => void
  #connection: TerminalConnection | undefined
  #waiting = ''
  #size: WindowSize | undefined
  #cancelWait: Cancel | undefined
  #isFull = false

  /** `pause`: told when too much waits, and when there is room again. */
  constructor(clock: Pick<Clock, 'after'>, pause: (isFull: boolean) => void) {
    this.#clock = clock
    this.#onFull = pause
  }

  get isIdle(): boolean {
    return this.#waiting === ''
  }

  send(text: string): void {
    this.#waiting += text
    this.#trySend()
  }

  /** Of several that wait, the last counts. */
  resize(size: WindowSize): void {
    this.#size = size
    this.#trySend()
  }

  /** A new line is told the size first. */
  connect(line: TerminalConnection, size: WindowSize): void {
    this.#connection = line
    this.#size = size
    this.#trySend()
  }

  disconnect(): void {
    this.#connection = undefined
    this.#cancelWait?.()
    this.#cancelWait = undefined
  }

  #trySend(): void {
    if (this.#cancelWait === undefined && this.#connection !== undefined) this.#sendFrames(this.#connection)
    this.#reportFull()
  }

  /** One frame, or two when the size is one of them; the rest has to wait for its turn. */
  #sendFrames(line: TerminalConnection): void {
    const frames = line.backlog() > BACKLOG_BYTES_MAX ? [] : this.#frames()
    for (const frame of frames) line.send(frame)
    if (frames.length === 0 && this.#waiting === '' && this.#size === undefined) return
    const bytes = frames.reduce((sum, frame) => sum + Buffer.byteLength(JSON.stringify(frame)), 0)
    const ms = Math.max(SEND_INTERVAL_MS * Math.max(1, frames.length), Math.ceil(bytes / BYTES_PER_MS))
    this.#cancelWait = this.#clock.after(ms, () => {
      this.#cancelWait = undefined
      this.#trySend()
    })
  }

  #frames(): AttachInput[] {
    const frames: AttachInput[] = []
    if (this.#size !== undefined) frames.push({ type: 'resize', ...this.#size })
    this.#size = undefined
    const data = this.#takeChunk()
    if (data !== '') frames.push({ type: 'input', data })
    return frames
  }

  #takeChunk(): string {
    let end = Math.min(FRAME_CHARS_MAX, this.#waiting.length)
    // Never between the two halves of a character.
    if (end < this.#waiting.length && /[\ud800-\udbff]/.test(this.#waiting[end - 1] ?? '')) end -= 1
    const data = this.#waiting.slice(0, end)
    this.#waiting = this.#waiting.slice(end)
    return data
  }

  #reportFull(): void {
    const isFull = this.#waiting.length > WAITING_CHARS_MAX
    if (isFull === this.#isFull) return
    this.#isFull = isFull
    this.#onFull(isFull)
  }
}
