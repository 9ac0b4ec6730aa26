/**
 * One session's terminal, and those who look at it.
 *
 * Whoever comes, or comes again, is drawn the whole picture first and gets everything from there on: at that moment all
 * that was printed before is in the picture, and nothing that comes after it is. What the session prints goes no faster
 * than it can be drawn and sent, so a flood waits in the session and nowhere else. The size is that of the view that
 * typed last.
 */
import { isNativeError } from 'node:util/types'
import type {
  BootedSandbox,
  CreateScreen,
  Screen,
  TerminalSession,
  TerminalSize,
} from '../../core/daemon/terminal.ts'
import type { Log } from '../../core/ports.ts'
import { attachDataHead, attachDataText } from '../../protocol/attach-text.ts'
import { ATTACH_INPUT_BYTES_PER_SECOND } from '../../protocol/limits.ts'
import type { HostConnection } from './host-connection.ts'
import type { SleepAwareTimers } from './sleep-aware-timers.ts'
import { type EncodedChunk, encodeChunks } from './terminal-frames.ts'
import { TerminalOutputFilter } from './terminal-output-filter.ts'
import { TokenBucket } from './token-bucket.ts'

export interface TerminalBroadcastPorts {
  /** Whose timers these are. */
  readonly key: string
  readonly timers: SleepAwareTimers
  readonly hostConnection: HostConnection
  readonly log: Log
  readonly makeScreen: CreateScreen
  /** The session's process has ended, and every view knows. */
  readonly onEnded: (ending: SessionEnding) => void
}

/** The last that there was to see. */
export interface SessionEnding {
  readonly code: number
  /** For those who come back, or whom a line took away; absent when somebody has seen it end. */
  readonly serializedScreen?: readonly EncodedChunk[]
}

/** What its views may have lying on the line: little enough that reports find room beside it. */
const BACKLOG_BYTES_MAX = 256 * 1024
/** Nobody says when there is room again: it is looked soon, and then later and later. */
const BACKLOG_POLL_MS = 1
const BACKLOG_POLL_MS_MAX = 8
/** What is printed while somebody types goes on a line that is full of reports, too: so much at once, so much a second. */
const ECHO_CHARS_BURST_MAX = 16 * 1024
const ECHO_CHARS_PER_SECOND_MAX = 16 * 1024
const ECHO_BACKLOG_BYTES_MAX = 2 * 1024 * 1024
/** Printed and not yet in the picture, or not yet sent. */
const WAITING_CHARS_MAX = 4 * 1024 * 1024
/** Whoever drags a window's corner asks for a hundred sizes a second. */
const RESIZE_MS = 50
/** Typed and pasted, by all of them together, in the long run as much as the host lets through of one: what the session does not read lies in memory. */
const INPUT_CHARS_BURST_MAX = 1024 * 1024
const INPUT_CHARS_PER_SECOND_MAX = ATTACH_INPUT_BYTES_PER_SECOND
/** What the session is answered by itself: apart, or one that asks without end could not be interrupted any more. */
const ANSWER_CHARS_BURST_MAX = 64 * 1024
const ANSWER_CHARS_PER_SECOND_MAX = 16 * 1024
/** Who typed once and has left while the line was down, which nobody tells: the oldest are forgotten. */
const TYPISTS_MAX = 256
/** There is no room for more of what is typed. */
const BELL = '\u0007'

interface TerminalView {
  readonly sessionId: string
  /** In front of each of its frames' data. */
  readonly head: string
  size: TerminalSize
  /** It has its picture. */
  isLive: boolean
}

export class TerminalBroadcast {
  readonly #ports: TerminalBroadcastPorts
  readonly #screen: Screen
  /** undefined: on its way. */
  readonly #session: TerminalSession | undefined
  readonly #filter = new TerminalOutputFilter()
  readonly #views = new Map<string, TerminalView>()
  /** By session id, which of them typed later; kept for those that a lost line took away, for they come back. */
  readonly #typedOrder = new Map<string, number>()
  /** By session id, how much of what was typed there has come, over all lines: its host may have to know. */
  readonly #inputCounts = new Map<string, number>()
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

  /** Again: the picture again. */
  open(sessionId: string, size: TerminalSize): void {
    this.#views.set(sessionId, { sessionId, head: attachDataHead(sessionId), size, isLive: false })
    this.#scheduleResize()
    this.#advance()
  }

  /** Answers whether it was here. */
  close(sessionId: string): boolean {
    this.#typedOrder.delete(sessionId)
    this.#inputCounts.delete(sessionId)
    const hadView = this.#views.delete(sessionId)
    if (hadView) this.#scheduleResize()
    if (hadView) this.#advance()
    return hadView
  }

  /** The line is gone, and with it all of them. */
  dropViews(): void {
    this.#views.clear()
    this.#advance()
  }

  /** They are told why; nothing is shown any more. */
  dismiss(message: string): void {
    for (const { sessionId } of this.#views.values())
      this.#ports.hostConnection.send({ type: 'attach-error', sessionId, message })
    this.#end()
  }

  // ---- inwards -----------------------------------------------------------------------------------------------------

  /** What is more than anybody types is not taken in; whoever typed it hears that. */
  input(sessionId: string, data: string): void {
    const view = this.#views.get(sessionId)
    if (view === undefined) return
    this.#countInput(sessionId)
    if (!this.#inputBucket.take(data.length)) {
      this.#sendBell(view)
      return
    }
    this.#inputsTaken += 1
    this.#typedOrder.set(sessionId, this.#inputsTaken)
    if (!sameSize(view.size, this.#size)) this.#scheduleResize()
    this.#session?.input(data)
  }

  #countInput(sessionId: string): void {
    if (this.#inputCounts.size >= TYPISTS_MAX && !this.#inputCounts.has(sessionId)) this.#forgetOldestTypist()
    this.#inputCounts.set(sessionId, this.inputCount(sessionId) + 1)
  }

  #forgetOldestTypist(): void {
    for (const sessionId of this.#inputCounts.keys())
      if (!this.#views.has(sessionId)) {
        this.#typedOrder.delete(sessionId)
        this.#inputCounts.delete(sessionId)
        return
      }
  }

  /** Frames, those included that were too much. */
  inputCount(sessionId: string): number {
    return this.#inputCounts.get(sessionId) ?? 0
  }

  /** Behind its picture only: that begins with a clean start. */
  #sendBell({ head, isLive }: TerminalView): void {
    if (isLive)
      for (const piece of encodeChunks(BELL)) this.#ports.hostConnection.sendText(attachDataText(head, piece))
  }

  resize(sessionId: string, size: TerminalSize): void {
    const view = this.#views.get(sessionId)
    if (view === undefined) return
    view.size = size
    this.#scheduleResize()
  }

  /** A session that asks without end, and does not read what it is told, is not told everything. */
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

  /** Who typed last; the first who came, if none of them has. */
  #sizeOwner(): TerminalView | undefined {
    let owner: TerminalView | undefined
    for (const view of this.#views.values())
      if (owner === undefined || this.#lastTyped(view) > this.#lastTyped(owner)) owner = view
    return owner
  }

  #lastTyped({ sessionId }: TerminalView): number {
    return this.#typedOrder.get(sessionId) ?? 0
  }

  // ---- outwards ----------------------------------------------------------------------------------------------------

  #onOutput(data: string): void {
    if (this.#isOver) return
    this.#pendingOutput.push(data)
    this.#pendingChars += data.length
    this.#advance()
  }

  onTimer(name: string): void {
    if (this.#isOver) return
    if (name === 'size') {
      this.#applySize()
      return
    }
    this.#isPollScheduled = false
    this.#advance()
  }

  /** Everything that can go on now does. */
  #advance(): void {
    // It may tell something before it is here.
    if (this.#isOver || this.#session === undefined) return
    const hasNewcomers = this.#drawNewViews()
    // Until those have their picture nothing goes by them: it would be neither in it nor behind it.
    if (!hasNewcomers && this.#pendingChars > 0 && this.#mayForward()) this.#forwardOutput()
    this.#pauseOrResume(hasNewcomers)
    if (this.#exitCode !== undefined && !hasNewcomers && this.#pendingChars === 0 && this.#undrawnChars === 0)
      this.#finish(this.#exitCode)
  }

  /** Answers whether somebody still waits for his picture. */
  #drawNewViews(): boolean {
    const newViews = [...this.#views.values()].filter(({ isLive }) => !isLive)
    if (newViews.length === 0) return false
    // Drawing it is too dear to be done for nothing.
    if (this.#undrawnChars > 0 || !this.#hasCapacity()) return true
    const screen = encodeChunks(this.#screen.serialize())
    return newViews.some((view) => {
      if (!this.#hasCapacity()) return true
      view.isLive = true
      for (const piece of screen) this.#ports.hostConnection.sendText(attachDataText(view.head, piece))
      return false
    })
  }

  #hasCapacity(): boolean {
    return this.#views.size === 0 || this.#ports.hostConnection.backlog() < BACKLOG_BYTES_MAX
  }

  #mayForward(): boolean {
    if (this.#hasCapacity()) return true
    if (this.#ports.hostConnection.backlog() >= ECHO_BACKLOG_BYTES_MAX) return false
    return this.#echoBucket.take(this.#pendingChars * this.#views.size)
  }

  #forwardOutput(): void {
    const output = this.#pendingOutput.join('')
    this.#pendingOutput = []
    this.#pendingChars = 0
    for (const piece of encodeChunks(this.#filter.filter(output)))
      for (const { head } of this.#views.values())
        this.#ports.hostConnection.sendText(attachDataText(head, piece))
    void this.#drawOnScreen(output)
  }

  async #drawOnScreen(output: string): Promise<void> {
    this.#undrawnChars += output.length
    try {
      await this.#screen.write(output)
    } catch (error) {
      const reason = isNativeError(error) ? error.message : String(error)
      this.#ports.log.error({ reason }, 'a part of a terminal could not be drawn')
    }
    this.#undrawnChars -= output.length
    this.#advance()
  }

  #pauseOrResume(hasNewcomers: boolean): void {
    const isStuck = (hasNewcomers || this.#pendingChars > 0) && !this.#hasCapacity()
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
    this.#ports.timers.in(this.#ports.key, 'look', this.#pollMs)
    this.#pollMs = Math.min(2 * this.#pollMs, BACKLOG_POLL_MS_MAX)
  }

  // ---- the end -----------------------------------------------------------------------------------------------------

  #finish(code: number): void {
    for (const { sessionId } of this.#views.values())
      this.#ports.hostConnection.send({ type: 'attach-exit', sessionId, code })
    const hasViews = this.#views.size > 0
    const ending = hasViews ? { code } : { code, picture: encodeChunks(this.#screen.serialize()) }
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
