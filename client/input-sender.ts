/**
 * Sends typed input to the host: at once while a person types, and at a limited rate for large pastes.
 *
 * The host limits the frames and bytes of a view and disconnects a view that exceeds them. So the first key is sent
 * immediately, and input that follows closely is collected into the next frame. Without a connection input waits in
 * order; `onFull` asks the caller to pause when too much waits.
 */
import type { AttachInput } from '../protocol/dashboard.ts'
import { ATTACH_FRAMES_PER_SECOND, ATTACH_INPUT_BYTES_PER_SECOND } from '../protocol/limits.ts'

/** The connection that takes frames. */
export interface InputConnection {
  send(frame: AttachInput): void
  /** Bytes that are not sent yet. */
  backlog(): number
}

export interface InputClock {
  /** Calls once after so many milliseconds, unless it is cancelled. */
  after(ms: number, run: () => void): () => void
}

export interface WindowSize {
  readonly cols: number
  readonly rows: number
}

const FRAME_CHARS_MAX = 4 * 1024
/**
 * Above this limit the terminal is not read any more, detach keys included. The limit is larger than any paste, so a
 * person who pasted the wrong text, or pasted while disconnected, can still detach at once.
 */
const WAITING_CHARS_MAX = 4 * 1024 * 1024
/** The share of the host's limits that is used. */
const RATE_SHARE = 0.7
const SEND_INTERVAL_MS = Math.ceil(1_000 / (RATE_SHARE * ATTACH_FRAMES_PER_SECOND))
const BYTES_PER_MS = (RATE_SHARE * ATTACH_INPUT_BYTES_PER_SECOND) / 1_000
/** Sending waits while more bytes than this are unsent in the socket. */
const BACKLOG_BYTES_MAX = 64 * 1024

const ENCODER = new TextEncoder()

export class InputSender {
  readonly #clock: InputClock
  readonly #onFull: (isFull: boolean) => void
  #connection: InputConnection | undefined
  #waiting = ''
  #size: WindowSize | undefined
  #cancelWait: (() => void) | undefined
  #isFull = false

  /** @param onFull called with true when too much input waits, and with false when there is capacity again */
  constructor(clock: InputClock, onFull: (isFull: boolean) => void) {
    this.#clock = clock
    this.#onFull = onFull
  }

  get isIdle(): boolean {
    return this.#waiting === ''
  }

  send(text: string): void {
    this.#waiting += text
    this.#trySend()
  }

  /** Only the last waiting size is sent. */
  resize(size: WindowSize): void {
    this.#size = size
    this.#trySend()
  }

  /** Uses a new connection, and sends the size first. */
  connect(connection: InputConnection, size: WindowSize): void {
    this.#connection = connection
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

  /** Sends one input frame, and a pending size before it; the rest waits for the next interval. */
  #sendFrames(connection: InputConnection): void {
    const frames = connection.backlog() > BACKLOG_BYTES_MAX ? [] : this.#frames()
    for (const frame of frames) connection.send(frame)
    if (frames.length === 0 && this.#waiting === '' && this.#size === undefined) return
    const bytes = frames.reduce((sum, frame) => sum + ENCODER.encode(JSON.stringify(frame)).byteLength, 0)
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
    // Do not split a surrogate pair.
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
