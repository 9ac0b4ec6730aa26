/**
 * Sends the output of one terminal session to all of its views, and their input to the session.
 *
 * A view that opens, or opens again, first receives the whole screen and then all later output: the serialized screen
 * contains exactly what was printed before. The session is paused when its output cannot be drawn and sent fast enough,
 * so a flood waits in the session, not in memory. The terminal has the size of the view that typed last.
 */

import {
  type BootedSandbox,
  type CreateScreen,
  type Screen,
  splitTerminalData,
  type TerminalSession,
  type TerminalSize,
} from '../../core/daemon/terminal.ts'
import type { Log } from '../../core/ports/log.ts'
import { TokenBucket } from '../../core/token-bucket.ts'
import { attachDataPrefix, attachDataText } from '../../protocol/attach-text.ts'
import { ATTACH_INPUT_BYTES_AT_ONCE, ATTACH_INPUT_BYTES_PER_SECOND } from '../../protocol/limits.ts'
import { messageOf } from '../../protocol/message-of.ts'
import { TerminalOutputFilter } from '../../protocol/terminal-output-filter.ts'
import { type TimerKey, timerKind } from '../runtime/timer-kind.ts'
import type { DaemonContext } from './daemon-context.ts'

type TerminalTimer = 'poll' | 'size'
export const TERMINAL_TIMER = timerKind<TerminalTimer>('shown')

export interface TerminalBroadcastPorts extends Pick<DaemonContext, 'timers' | 'hostSender'> {
  /** The timer key of this terminal. */
  readonly key: TimerKey<TerminalTimer>
  readonly log: Log
  readonly makeScreen: CreateScreen
  /** Called when the session's process has ended and every view has been informed. */
  readonly onEnded: (ending: SessionEnding) => void
}

/** How a session ended. */
export interface SessionEnding {
  readonly code: number
  /** The final screen, for views that open again; absent when a view was open at the end. */
  readonly serializedScreen?: readonly EncodedChunk[]
}

/** Output stops above this socket backlog, which leaves capacity for reports. */
const BACKLOG_BYTES_MAX = 256 * 1024
/** The socket does not signal free capacity, so poll it: first soon, then with growing pauses. */
const BACKLOG_POLL_MS = 1
const BACKLOG_POLL_MS_MAX = 8
/** Small output (the echo of typing) is sent even above the backlog limit, within this burst and rate. */
const ECHO_CHARS_BURST_MAX = 16 * 1024
const ECHO_CHARS_PER_SECOND_MAX = 16 * 1024
const ECHO_BACKLOG_BYTES_MAX = 2 * 1024 * 1024
/** Output that is not drawn or not sent yet; above this limit the session is paused. */
const WAITING_CHARS_MAX = 4 * 1024 * 1024
/** Resizes are collected for this long, because dragging a window causes a hundred of them a second. */
const RESIZE_MS = 50
/**
 * The limit of input from all views together, because input that the session does not read stays in memory. The burst
 * is what the host lets one view type at once.
 */
const INPUT_CHARS_BURST_MAX = ATTACH_INPUT_BYTES_AT_ONCE
const INPUT_CHARS_PER_SECOND_MAX = ATTACH_INPUT_BYTES_PER_SECOND
/** The terminal's own answers have a separate limit, so that a session that queries without end can still be interrupted. */
const ANSWER_CHARS_BURST_MAX = 64 * 1024
const ANSWER_CHARS_PER_SECOND_MAX = 16 * 1024
/** How many typists are remembered. Views that closed while disconnected are never reported as closed. */
const TYPISTS_MAX = 256
/** The bell tells a person that input was dropped. */
const BELL = '\u0007'

interface BroadcastView {
  readonly sessionId: string
  /** The text in front of the data in each of the view's frames. */
  readonly framePrefix: string
  size: TerminalSize
  /** The view has received the whole screen. */
  isLive: boolean
}

interface Typist {
  /** How many input frames have arrived, also dropped ones; the host may ask for it. */
  inputs: number
  /** Orders views by their last input that was passed on. */
  lastTyped: number
}

export class TerminalBroadcast {
  readonly #ports: TerminalBroadcastPorts
  readonly #screen: Screen
  /** undefined while the constructor opens it. */
  readonly #session: TerminalSession | undefined
  readonly #filter = new TerminalOutputFilter()
  readonly #views = new Map<string, BroadcastView>()
  /** By session id, who has typed, over all connections. */
  readonly #typists = new Map<string, Typist>()
  readonly #inputBucket: TokenBucket
  readonly #answerBucket: TokenBucket
  readonly #echoBucket: TokenBucket
  #inputsTaken = 0
  #size: TerminalSize
  #pendingOutput: string[] = []
  #pendingChars = 0
  #undrawnChars = 0
  #exitCode: number | undefined
  #isPaused = false
  #isPollScheduled = false
  #pollMs = BACKLOG_POLL_MS
  #isResizeScheduled = false
  #isOver = false

  constructor(ports: TerminalBroadcastPorts, sandbox: BootedSandbox, size: TerminalSize) {
    this.#ports = ports
    this.#size = size
    const now = () => ports.timers.now()
    this.#inputBucket = new TokenBucket(now, INPUT_CHARS_BURST_MAX, INPUT_CHARS_PER_SECOND_MAX)
    this.#answerBucket = new TokenBucket(now, ANSWER_CHARS_BURST_MAX, ANSWER_CHARS_PER_SECOND_MAX)
    this.#echoBucket = new TokenBucket(now, ECHO_CHARS_BURST_MAX, ECHO_CHARS_PER_SECOND_MAX)
    this.#screen = ports.makeScreen(size, (answer) => this.#sendAnswer(answer))
    this.#session = sandbox.open(size, {
      onOutput: (data) => this.#onOutput(data),
      onExit: (code) => {
        this.#exitCode = code
        this.#advance()
      },
    })
  }

  get viewCount(): number {
    return this.#views.size
  }

  has(sessionId: string): boolean {
    return this.#views.has(sessionId)
  }

  // ---- views -------------------------------------------------------------------------------------------------------

  /** Opening a view again sends the whole screen again. */
  open(sessionId: string, size: TerminalSize): void {
    this.#views.set(sessionId, { sessionId, framePrefix: attachDataPrefix(sessionId), size, isLive: false })
    this.#scheduleResize()
    this.#advance()
  }

  /** Returns whether the view was open. */
  close(sessionId: string): boolean {
    this.#typists.delete(sessionId)
    const hadView = this.#views.delete(sessionId)
    if (hadView) this.#scheduleResize()
    if (hadView) this.#advance()
    return hadView
  }

  /** The connection was lost, and all views with it. */
  dropViews(): void {
    this.#views.clear()
    this.#advance()
  }

  /** Sends the reason to all views, and ends the broadcast. */
  dismiss(message: string): void {
    for (const { sessionId } of this.#views.values())
      this.#ports.hostSender.send({ type: 'attach-error', sessionId, message })
    this.#end()
  }

  // ---- input -----------------------------------------------------------------------------------------------------

  /** Input above the limit is dropped, and the view's bell rings. */
  input(sessionId: string, data: string): void {
    const view = this.#views.get(sessionId)
    if (view === undefined) return
    const typist = this.#typistOf(sessionId)
    typist.inputs += 1
    if (!this.#inputBucket.take(data.length)) {
      this.#sendBell(view)
      return
    }
    this.#inputsTaken += 1
    typist.lastTyped = this.#inputsTaken
    if (!sameSize(view.size, this.#size)) this.#scheduleResize()
    this.#session?.input(data)
  }

  #typistOf(sessionId: string): Typist {
    const known = this.#typists.get(sessionId)
    if (known === undefined && this.#typists.size >= TYPISTS_MAX) this.#forgetOldestTypist()
    const typist = known ?? { inputs: 0, lastTyped: 0 }
    this.#typists.set(sessionId, typist)
    return typist
  }

  #forgetOldestTypist(): void {
    const oldest = [...this.#typists.keys()].find((sessionId) => !this.#views.has(sessionId))
    if (oldest !== undefined) this.#typists.delete(oldest)
  }

  /** The number of input frames, including dropped ones. */
  inputCount(sessionId: string): number {
    return this.#typists.get(sessionId)?.inputs ?? 0
  }

  /** Only for a live view, because the whole screen begins with a reset. */
  #sendBell({ framePrefix, isLive }: BroadcastView): void {
    if (isLive)
      for (const chunk of encodeChunks(BELL))
        this.#ports.hostSender.sendText(attachDataText(framePrefix, chunk))
  }

  resize(sessionId: string, size: TerminalSize): void {
    const view = this.#views.get(sessionId)
    if (view === undefined) return
    view.size = size
    this.#scheduleResize()
  }

  /** Answers a query of the session. Answers above the limit are dropped, because an endless querier does not read them. */
  #sendAnswer(answer: string): void {
    if (this.#isOver || !this.#answerBucket.take(answer.length)) return
    this.#session?.input(answer)
  }

  // ---- size --------------------------------------------------------------------------------------------------------

  #scheduleResize(): void {
    if (this.#isResizeScheduled || this.#isOver) return
    this.#isResizeScheduled = true
    this.#ports.timers.in(this.#ports.key, 'size', RESIZE_MS)
  }

  #applySize(): void {
    this.#isResizeScheduled = false
    const size = this.#sizeOwner()?.size
    if (size === undefined || sameSize(size, this.#size)) return
    this.#size = size
    this.#screen.resize(size)
    this.#session?.resize(size)
  }

  /** The view that typed last; if none has, the first that opened. */
  #sizeOwner(): BroadcastView | undefined {
    let owner: BroadcastView | undefined
    for (const view of this.#views.values())
      if (owner === undefined || this.#lastTyped(view) > this.#lastTyped(owner)) owner = view
    return owner
  }

  #lastTyped({ sessionId }: BroadcastView): number {
    return this.#typists.get(sessionId)?.lastTyped ?? 0
  }

  // ---- output ----------------------------------------------------------------------------------------------------

  #onOutput(data: string): void {
    if (this.#isOver) return
    this.#pendingOutput.push(data)
    this.#pendingChars += data.length
    this.#advance()
  }

  onTimer(name: TerminalTimer): void {
    if (this.#isOver) return
    if (name === 'size') {
      this.#applySize()
      return
    }
    this.#isPollScheduled = false
    this.#advance()
  }

  /** Makes all progress that is possible now: new views, output, flow control, the end. */
  #advance(): void {
    // The session may print while the constructor is still opening it.
    if (this.#isOver || this.#session === undefined) return
    const hasWaitingViews = this.#drawNewViews()
    // Hold output back until new views have the screen. Otherwise they would miss it.
    if (!hasWaitingViews && this.#pendingChars > 0 && this.#mayForward()) this.#forwardOutput()
    this.#pauseOrResume(hasWaitingViews)
    if (
      this.#exitCode !== undefined &&
      !hasWaitingViews &&
      this.#pendingChars === 0 &&
      this.#undrawnChars === 0
    )
      this.#finish(this.#exitCode)
  }

  /** Returns whether a new view still waits for the screen. */
  #drawNewViews(): boolean {
    const newViews = [...this.#views.values()].filter(({ isLive }) => !isLive)
    if (newViews.length === 0) return false
    // Serializing the screen is expensive, so do it only when it can be sent.
    if (this.#undrawnChars > 0 || !this.#hasCapacity()) return true
    const screen = encodeChunks(this.#screen.serialize())
    return newViews.some((view) => {
      if (!this.#hasCapacity()) return true
      view.isLive = true
      for (const chunk of screen) this.#ports.hostSender.sendText(attachDataText(view.framePrefix, chunk))
      return false
    })
  }

  #hasCapacity(): boolean {
    return this.#views.size === 0 || this.#ports.hostSender.backlog() < BACKLOG_BYTES_MAX
  }

  #mayForward(): boolean {
    if (this.#hasCapacity()) return true
    if (this.#ports.hostSender.backlog() >= ECHO_BACKLOG_BYTES_MAX) return false
    return this.#echoBucket.take(this.#pendingChars * this.#views.size)
  }

  #forwardOutput(): void {
    const output = this.#pendingOutput.join('')
    this.#pendingOutput = []
    this.#pendingChars = 0
    for (const chunk of encodeChunks(this.#filter.filter(output)))
      for (const { framePrefix } of this.#views.values())
        this.#ports.hostSender.sendText(attachDataText(framePrefix, chunk))
    void this.#drawOnScreen(output)
  }

  async #drawOnScreen(output: string): Promise<void> {
    this.#undrawnChars += output.length
    try {
      await this.#screen.write(output)
    } catch (error) {
      const reason = messageOf(error)
      this.#ports.log.error({ reason }, 'could not draw output on the virtual terminal')
    }
    this.#undrawnChars -= output.length
    this.#advance()
  }

  #pauseOrResume(hasWaitingViews: boolean): void {
    const isStuck = (hasWaitingViews || this.#pendingChars > 0) && !this.#hasCapacity()
    const isFull = isStuck || this.#pendingChars + this.#undrawnChars > WAITING_CHARS_MAX
    if (!isStuck) this.#pollMs = BACKLOG_POLL_MS
    else if (!this.#isPollScheduled) this.#schedulePoll()
    if (isFull === this.#isPaused) return
    this.#isPaused = isFull
    if (isFull) this.#session?.pause()
    else this.#session?.resume()
  }

  #schedulePoll(): void {
    this.#isPollScheduled = true
    this.#ports.timers.in(this.#ports.key, 'poll', this.#pollMs)
    this.#pollMs = Math.min(2 * this.#pollMs, BACKLOG_POLL_MS_MAX)
  }

  // ---- the end -----------------------------------------------------------------------------------------------------

  #finish(code: number): void {
    for (const { sessionId } of this.#views.values())
      this.#ports.hostSender.send({ type: 'attach-exit', sessionId, code })
    const hasViews = this.#views.size > 0
    const ending: SessionEnding = hasViews
      ? { code }
      : { code, serializedScreen: encodeChunks(this.#screen.serialize()) }
    this.#end()
    this.#ports.onEnded(ending)
  }

  #end(): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#views.clear()
    this.#pendingOutput = []
    this.#ports.timers.cancelAll(this.#ports.key)
    this.#screen.close()
  }
}

const sameSize = (a: TerminalSize, b: TerminalSize): boolean => a.cols === b.cols && a.rows === b.rows

/** The data of one frame, as a JSON string. */
type EncodedChunk = string

/** Splits terminal output into the data of frames, encoded once for all views. */
function encodeChunks(data: string): EncodedChunk[] {
  return splitTerminalData(data).map((piece) => JSON.stringify(piece))
}
