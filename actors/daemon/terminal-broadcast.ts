/**
 * One session's terminal, and those who look at it.
 *
 * Whoever comes, or comes again, is drawn the whole picture first and gets everything from there on: at that moment all
 * that was printed before is in the picture, and nothing that comes after it is. What the session prints goes no faster
 * than it can be drawn and sent, so a flood waits in the session and nowhere else. The size is that of the view that
 * typed last.
 */
import { isNativeError } from 'node:util/types'
import type { BootedSandbox, MakeScreen, Screen, Session, TerminalSize } from '../../core/daemon/terminal.ts'
import type { Log } from '../../core/ports.ts'
import { attachDataHead, attachDataText } from '../../protocol/attach-text.ts'
import { ATTACH_INPUT_BYTES_PER_SECOND } from '../../protocol/limits.ts'
import { Allowance } from './allowance.ts'
import type { Line } from './host-connection.ts'
import { type Piece, piecesOf } from './terminal-frames.ts'
import { Drawing } from './terminal-output-filter.ts'
import type { Timers } from './timers.ts'

export interface ShowingPorts {
  /** Whose timers these are. */
  readonly key: string
  readonly timers: Timers
  readonly line: Line
  readonly log: Log
  readonly makeScreen: MakeScreen
  /** The session's process has ended, and every view knows. */
  readonly ended: (ending: Ending) => void
}

/** The last that there was to see. */
export interface Ending {
  readonly code: number
  /** For those who come back, or whom a line took away; absent when somebody has seen it end. */
  readonly picture?: readonly Piece[]
}

/** What its views may have lying on the line: little enough that reports find room beside it. */
const BACKLOG_BYTES_MAX = 256 * 1024
/** Nobody says when there is room again: it is looked soon, and then later and later. */
const BACKLOG_LOOK_MS = 1
const BACKLOG_LOOK_MS_MAX = 8
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

interface View {
  readonly sessionId: string
  /** In front of each of its frames' data. */
  readonly head: string
  size: TerminalSize
  /** It has its picture. */
  isLive: boolean
}

export class Showing {
  readonly #ports: ShowingPorts
  readonly #screen: Screen
  /** undefined: on its way. */
  readonly #session: Session | undefined
  readonly #drawing = new Drawing()
  readonly #views = new Map<string, View>()
  /** By session id, which of them typed later; kept for those that a lost line took away, for they come back. */
  readonly #typed = new Map<string, number>()
  /** By session id, how much of what was typed there has come, over all lines: its host may have to know. */
  readonly #inputs = new Map<string, number>()
  readonly #input: Allowance
  readonly #answers: Allowance
  readonly #echo: Allowance
  #typings = 0
  #size: TerminalSize
  #fresh: string[] = []
  #freshChars = 0
  #unprintedChars = 0
  #code: number | undefined
  #isPaused = false
  #isLooking = false
  #lookMs = BACKLOG_LOOK_MS
  #isFitting = false
  #isOver = false

  constructor(ports: ShowingPorts, sandbox: BootedSandbox, size: TerminalSize) {
    this.#ports = ports
    this.#size = size
    const now = () => ports.timers.now()
    this.#input = new Allowance(now, INPUT_CHARS_BURST_MAX, INPUT_CHARS_PER_SECOND_MAX)
    this.#answers = new Allowance(now, ANSWER_CHARS_BURST_MAX, ANSWER_CHARS_PER_SECOND_MAX)
    this.#echo = new Allowance(now, ECHO_CHARS_BURST_MAX, ECHO_CHARS_PER_SECOND_MAX)
    this.#screen = ports.makeScreen(size, (answer) => this.#answer(answer))
    this.#session = sandbox.open(size, {
      printed: (data) => this.#printed(data),
      ended: (code) => {
        this.#code = code
        this.#flow()
      },
    })
  }

  get views(): number {
    return this.#views.size
  }

  has(sessionId: string): boolean {
    return this.#views.has(sessionId)
  }

  // ---- views -------------------------------------------------------------------------------------------------------

  /** Again: the picture again. */
  open(sessionId: string, size: TerminalSize): void {
    this.#views.set(sessionId, { sessionId, head: attachDataHead(sessionId), size, isLive: false })
    this.#fitSoon()
    this.#flow()
  }

  /** Answers whether it was here. */
  close(sessionId: string): boolean {
    this.#typed.delete(sessionId)
    this.#inputs.delete(sessionId)
    const wasHere = this.#views.delete(sessionId)
    if (wasHere) this.#fitSoon()
    if (wasHere) this.#flow()
    return wasHere
  }

  /** The line is gone, and with it all of them. */
  cutOff(): void {
    this.#views.clear()
    this.#flow()
  }

  /** They are told why; nothing is shown any more. */
  dismiss(message: string): void {
    for (const { sessionId } of this.#views.values())
      this.#ports.line.send({ type: 'attach-error', sessionId, message })
    this.#end()
  }

  // ---- inwards -----------------------------------------------------------------------------------------------------

  /** What is more than anybody types is not taken in; whoever typed it hears that. */
  input(sessionId: string, data: string): void {
    const view = this.#views.get(sessionId)
    if (view === undefined) return
    this.#count(sessionId)
    if (!this.#input.take(data.length)) {
      this.#ring(view)
      return
    }
    this.#typings += 1
    this.#typed.set(sessionId, this.#typings)
    if (!sameSize(view.size, this.#size)) this.#fitSoon()
    this.#session?.input(data)
  }

  #count(sessionId: string): void {
    if (this.#inputs.size >= TYPISTS_MAX && !this.#inputs.has(sessionId)) this.#forgetOne()
    this.#inputs.set(sessionId, this.inputsOf(sessionId) + 1)
  }

  #forgetOne(): void {
    for (const sessionId of this.#inputs.keys())
      if (!this.#views.has(sessionId)) {
        this.#typed.delete(sessionId)
        this.#inputs.delete(sessionId)
        return
      }
  }

  /** Frames, those included that were too much. */
  inputsOf(sessionId: string): number {
    return this.#inputs.get(sessionId) ?? 0
  }

  /** Behind its picture only: that begins with a clean start. */
  #ring({ head, isLive }: View): void {
    if (isLive) for (const piece of piecesOf(BELL)) this.#ports.line.sendText(attachDataText(head, piece))
  }

  resize(sessionId: string, size: TerminalSize): void {
    const view = this.#views.get(sessionId)
    if (view === undefined) return
    view.size = size
    this.#fitSoon()
  }

  /** A session that asks without end, and does not read what it is told, is not told everything. */
  #answer(answer: string): void {
    if (this.#isOver || !this.#answers.take(answer.length)) return
    this.#session?.input(answer)
  }

  // ---- size --------------------------------------------------------------------------------------------------------

  #fitSoon(): void {
    if (this.#isFitting || this.#isOver) return
    this.#isFitting = true
    this.#ports.timers.in(this.#ports.key, 'size', RESIZE_MS)
  }

  #fit(): void {
    this.#isFitting = false
    const size = this.#owner()?.size
    if (size === undefined || sameSize(size, this.#size)) return
    this.#size = size
    this.#screen.resize(size)
    this.#session?.resize(size)
  }

  /** Who typed last; the first who came, if none of them has. */
  #owner(): View | undefined {
    let owner: View | undefined
    for (const view of this.#views.values())
      if (owner === undefined || this.#typedAt(view) > this.#typedAt(owner)) owner = view
    return owner
  }

  #typedAt({ sessionId }: View): number {
    return this.#typed.get(sessionId) ?? 0
  }

  // ---- outwards ----------------------------------------------------------------------------------------------------

  #printed(data: string): void {
    if (this.#isOver) return
    this.#fresh.push(data)
    this.#freshChars += data.length
    this.#flow()
  }

  rang(name: string): void {
    if (this.#isOver) return
    if (name === 'size') {
      this.#fit()
      return
    }
    this.#isLooking = false
    this.#flow()
  }

  /** Everything that can go on now does. */
  #flow(): void {
    // It may tell something before it is here.
    if (this.#isOver || this.#session === undefined) return
    const hasNewcomers = this.#welcome()
    // Until those have their picture nothing goes by them: it would be neither in it nor behind it.
    if (!hasNewcomers && this.#freshChars > 0 && this.#mayPass()) this.#pass()
    this.#throttle(hasNewcomers)
    if (this.#code !== undefined && !hasNewcomers && this.#freshChars === 0 && this.#unprintedChars === 0)
      this.#finish(this.#code)
  }

  /** Answers whether somebody still waits for his picture. */
  #welcome(): boolean {
    const newcomers = [...this.#views.values()].filter(({ isLive }) => !isLive)
    if (newcomers.length === 0) return false
    // Drawing it is too dear to be done for nothing.
    if (this.#unprintedChars > 0 || !this.#hasRoom()) return true
    const picture = piecesOf(this.#screen.picture())
    return newcomers.some((view) => {
      if (!this.#hasRoom()) return true
      view.isLive = true
      for (const piece of picture) this.#ports.line.sendText(attachDataText(view.head, piece))
      return false
    })
  }

  #hasRoom(): boolean {
    return this.#views.size === 0 || this.#ports.line.backlog() < BACKLOG_BYTES_MAX
  }

  #mayPass(): boolean {
    if (this.#hasRoom()) return true
    if (this.#ports.line.backlog() >= ECHO_BACKLOG_BYTES_MAX) return false
    return this.#echo.take(this.#freshChars * this.#views.size)
  }

  #pass(): void {
    const printed = this.#fresh.join('')
    this.#fresh = []
    this.#freshChars = 0
    for (const piece of piecesOf(this.#drawing.only(printed)))
      for (const { head } of this.#views.values()) this.#ports.line.sendText(attachDataText(head, piece))
    void this.#draw(printed)
  }

  async #draw(printed: string): Promise<void> {
    this.#unprintedChars += printed.length
    try {
      await this.#screen.print(printed)
    } catch (error) {
      const reason = isNativeError(error) ? error.message : String(error)
      this.#ports.log.error({ reason }, 'a part of a terminal could not be drawn')
    }
    this.#unprintedChars -= printed.length
    this.#flow()
  }

  #throttle(hasNewcomers: boolean): void {
    const isStuck = (hasNewcomers || this.#freshChars > 0) && !this.#hasRoom()
    const isFull = isStuck || this.#freshChars + this.#unprintedChars > WAITING_CHARS_MAX
    if (!isStuck) this.#lookMs = BACKLOG_LOOK_MS
    else if (!this.#isLooking) this.#lookLater()
    if (isFull === this.#isPaused) return
    this.#isPaused = isFull
    if (isFull) this.#session?.pause()
    else this.#session?.resume()
  }

  #lookLater(): void {
    this.#isLooking = true
    this.#ports.timers.in(this.#ports.key, 'look', this.#lookMs)
    this.#lookMs = Math.min(2 * this.#lookMs, BACKLOG_LOOK_MS_MAX)
  }

  // ---- the end -----------------------------------------------------------------------------------------------------

  #finish(code: number): void {
    for (const { sessionId } of this.#views.values())
      this.#ports.line.send({ type: 'attach-exit', sessionId, code })
    const isSeen = this.#views.size > 0
    const ending = isSeen ? { code } : { code, picture: piecesOf(this.#screen.picture()) }
    this.#end()
    this.#ports.ended(ending)
  }

  #end(): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#views.clear()
    this.#fresh = []
    this.#ports.timers.cancelAll(this.#ports.key)
    this.#screen.close()
  }
}

const sameSize = (a: TerminalSize, b: TerminalSize): boolean => a.cols === b.cols && a.rows === b.rows
