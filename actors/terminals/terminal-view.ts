/**
 * TerminalView is one person's terminal: it relays input and output between the browser and the session's worker.
 *
 * Input goes to the worker connection at once, without a commit, and a long input in several frames. While the worker
 * cannot take it (sandbox booting, worker disconnected), the view buffers a bounded amount and sends it in order later.
 * The worker sends the serialized screen whenever the view is opened, so a reconnect neither loses nor repeats output.
 * After a reconnect the view asks how many input frames arrived and resends the missing ones first.
 */

import { splitTerminalData } from '../../core/daemon/terminal.ts'
import type { Cancel } from '../../core/ports/clock.ts'
import type { ViewReceiver, ViewSender } from '../../core/ports/connections.ts'
import { viewDataText } from '../../protocol/attach-text.ts'
import type { HostFrame } from '../../protocol/frames.ts'
import { ATTACH_FRAME_BYTES_MAX, TEXT_CHARS_MAX } from '../../protocol/limits.ts'
import type { WorkerConnections } from '../workers/worker-connections.ts'

/** Time in which a new view must report its size; after that a default size is used. */
const ATTACH_SIZE_MS_MAX = 200
/** Typed characters that are buffered while the worker cannot receive them: at least one paste. */
export const ATTACH_TYPED_CHARS_MAX = ATTACH_FRAME_BYTES_MAX
/** Typed characters kept after sending, in case the worker's connection was already dead: at least one paste. */
export const ATTACH_HANDED_OVER_CHARS_MAX = ATTACH_FRAME_BYTES_MAX

export interface TerminalViewPorts {
  readonly after: (ms: number, run: () => void) => Cancel
  readonly connections: Pick<WorkerConnections, 'sendToWorker'>
  /** Called once, when the view is closed by either side. */
  readonly onLeft: (view: TerminalView) => void
}

const CLOSE_DONE = 1000
const CLOSE_POLICY = 1008
const DEFAULT_SIZE = { cols: 80, rows: 24 }
/** Printed when the input buffer is full. */
const BELL = '\u0007'
/** Dim text on a line of its own. The serialized screen that the worker sends next overwrites it. */
const AWAY_NOTICE = '\r\n\u001b[0;2m[the worker is away; waiting for it to come back]\u001b[0m\r\n'

/**
 * `away`: the view is not open at the worker. `asking`: open, and the worker has been asked how many input frames arrived;
 * until it answers, new input is buffered. `open`: input is sent. `live`: output has arrived since.
 */
type ViewState = 'away' | 'asking' | 'open' | 'live' | 'closed'

export class TerminalView implements ViewReceiver {
  readonly runId: string
  readonly sessionId: string
  readonly #link: ViewSender
  readonly #ports: TerminalViewPorts
  /** The worker of the session that this view has joined. */
  #workerId: string | undefined
  #state: ViewState = 'away'
  #size: { readonly cols: number; readonly rows: number } | undefined
  #cancelOpening: Cancel | undefined
  #bufferedInput: string[] = []
  #bufferedChars = 0
  readonly #unacknowledged = new UnacknowledgedInput()

  constructor(runId: string, sessionId: string, link: ViewSender, ports: TerminalViewPorts) {
    this.runId = runId
    this.sessionId = sessionId
    this.#link = link
    this.#ports = ports
  }

  get workerId(): string | undefined {
    return this.#workerId
  }

  get isClosed(): boolean {
    return this.#state === 'closed'
  }

  /** Whether the worker has the view open and has sent output. */
  get isLive(): boolean {
    return this.#state === 'live'
  }

  // ---- called by the session

  /** Joins a booted session. A browser sends its size right after connecting, so opening waits briefly for it. */
  join(workerId: string): void {
    this.#workerId = workerId
    if (this.#size !== undefined) this.open()
    else this.#cancelOpening = this.#ports.after(ATTACH_SIZE_MS_MAX, () => this.open())
  }

  /** Opens the view at the worker; called again after each reconnect of the worker. */
  open(): void {
    if (this.#state === 'closed' || this.#workerId === undefined) return
    this.#stopWaitingForSize()
    // Ask first: a worker that counts input answers before it sends its screen.
    const isAsked =
      !this.#unacknowledged.isEmpty && this.#send({ type: 'attach-ask', sessionId: this.sessionId })
    const opened = this.#send({
      type: 'attach-open',
      sessionId: this.sessionId,
      runId: this.runId,
      ...(this.#size ?? DEFAULT_SIZE),
    })
    if (!opened) return
    this.#state = isAsked ? 'asking' : 'open'
    if (!isAsked) this.#sendBufferedInput()
  }

  /** Returns whether the worker's connection accepted the frame. */
  #send(frame: HostFrame): boolean {
    return this.#workerId !== undefined && this.#ports.connections.sendToWorker(this.#workerId, frame)
  }

  /** `json`: `data` as JSON text, when the caller already has it. */
  onOutput(data: string, json?: string): void {
    if (!this.#isOpen) return
    const wasAsking = this.#state === 'asking'
    this.#state = 'live'
    this.#print(data, json)
    if (!wasAsking) return
    // The worker does not count input frames, so drop what it may have missed: resending could repeat input.
    this.#unacknowledged.stop()
    this.#sendBufferedInput()
  }

  /** The worker has received this many input frames in total, over all connections. */
  onInputCount(received: number): void {
    if (this.#state !== 'asking') return
    this.#state = 'open'
    const missed = this.#unacknowledged.takeMissed(received)
    this.#bufferedInput = [...missed, ...this.#bufferedInput]
    this.#bufferedChars += countChars(missed)
    this.#sendBufferedInput()
  }

  onConnectionLost(): void {
    if (this.#state === 'closed') return
    this.#state = 'away'
    this.#stopWaitingForSize()
    this.#print(AWAY_NOTICE)
  }

  onExit(code: number): void {
    if (this.#state === 'closed') return
    this.#link.send({ type: 'exit', code })
    this.#closeLink(CLOSE_DONE, 'the session has ended')
  }

  closeWithError(reason: string, code = CLOSE_POLICY): void {
    if (this.#state === 'closed') return
    const message = reason.slice(0, TEXT_CHARS_MAX)
    this.#link.send({ type: 'error', message })
    this.#closeLink(code, message)
  }

  /** Closes without an error message; the close reason says why. */
  close(code: number, reason: string): void {
    if (this.#state !== 'closed') this.#closeLink(code, reason)
  }

  // ---- called by the socket listener

  onInput(data: string): void {
    // Ignore empty input: it has no size, so the buffer limit would never stop it.
    if (this.#state === 'closed' || data === '') return
    if (this.#cancelOpening !== undefined) this.open()
    const pieces = splitTerminalData(data)
    const mayGo = this.#isOpen && this.#state !== 'asking' && this.#sendBufferedInput()
    while (mayGo && pieces[0] !== undefined && this.#sendInput(pieces[0])) pieces.shift()
    this.#bufferInput(pieces)
  }

  onResize(cols: number, rows: number): void {
    if (this.#state === 'closed') return
    this.#size = { cols, rows }
    if (this.#cancelOpening !== undefined) this.open()
    else if (this.#isOpen) this.#send({ type: 'attach-resize', sessionId: this.sessionId, cols, rows })
  }

  onClosed(): void {
    this.#leave()
  }

  // ---- helpers

  get #isOpen(): boolean {
    return this.#state !== 'away' && this.#state !== 'closed'
  }

  #stopWaitingForSize(): void {
    this.#cancelOpening?.()
    this.#cancelOpening = undefined
  }

  #sendInput(data: string): boolean {
    const sent = this.#send({ type: 'attach-input', sessionId: this.sessionId, data })
    if (sent) this.#unacknowledged.add(data)
    return sent
  }

  /** Returns whether the buffer was sent completely. */
  #sendBufferedInput(): boolean {
    while (this.#bufferedInput[0] !== undefined) {
      if (!this.#sendInput(this.#bufferedInput[0])) return false
      this.#bufferedChars -= this.#bufferedInput[0].length
      this.#bufferedInput.shift()
    }
    return true
  }

  /** Keeps all pieces of one input or none, so that no part of a text is missing. */
  #bufferInput(pieces: readonly string[]): void {
    const chars = countChars(pieces)
    if (this.#bufferedChars + chars > ATTACH_TYPED_CHARS_MAX) {
      this.#print(BELL)
      return
    }
    this.#bufferedInput.push(...pieces)
    this.#bufferedChars += chars
  }

  /** Leaves when the browser does not read fast enough: the listener closes such sockets. */
  #print(data: string, json = JSON.stringify(data)): void {
    if (!this.#link.send({ type: 'data', data }, viewDataText(json))) this.#leave()
  }

  /** Closes the browser's socket. The worker needs no frame: it closed the view itself or gets a release. */
  #closeLink(code: number, reason: string): void {
    this.#link.close(code, reason)
    this.#dispose()
  }

  #leave(): void {
    if (this.#isOpen) this.#send({ type: 'attach-close', sessionId: this.sessionId })
    this.#dispose()
  }

  #dispose(): void {
    if (this.#state === 'closed') return
    this.#state = 'closed'
    this.#stopWaitingForSize()
    this.#bufferedInput = []
    this.#unacknowledged.stop()
    this.#ports.onLeft(this)
  }
}

const countChars = (pieces: readonly string[]): number =>
  pieces.reduce((chars, { length }) => chars + length, 0)

/**
 * UnacknowledgedInput keeps the input frames of one view that were sent but may have to be sent again.
 *
 * A dead connection accepts frames and delivers none, and the host notices only later. Host and worker both count the
 * input frames of a view. After a reconnect the worker reports its count, and the host resends exactly the frames that
 * are missing. The buffer keeps the newest frames up to a limit; older input sent into a dead connection is lost.
 */
class UnacknowledgedInput {
  readonly #frames: string[] = []
  #chars = 0
  /** Number of frames sent before the first one that is kept. */
  #droppedCount = 0
  #isStopped = false

  get isEmpty(): boolean {
    return this.#frames.length === 0
  }

  add(data: string): void {
    if (this.#isStopped) return
    this.#frames.push(data)
    this.#chars += data.length
    while (this.#chars > ATTACH_HANDED_OVER_CHARS_MAX) this.#dropOldest()
  }

  /** Returns and forgets the frames the worker missed. `receivedCount`: frames it received in total. */
  takeMissed(receivedCount: number): readonly string[] {
    const missed = this.#frames.slice(Math.max(0, receivedCount - this.#droppedCount))
    this.#clear()
    this.#droppedCount = receivedCount
    return missed
  }

  /** Keeps no more frames: the worker does not count them, or the view is closed. */
  stop(): void {
    this.#isStopped = true
    this.#clear()
  }

  #clear(): void {
    this.#frames.length = 0
    this.#chars = 0
  }

  #dropOldest(): void {
    this.#chars -= this.#frames.shift()?.length ?? 0
    this.#droppedCount += 1
  }
}
