/**
 * One terminal view: a person's end of a session, whatever lies between them and the sandbox.
 *
 * What is typed goes straight to the worker's line, without a disk or a turn of the loop between. While there is
 * nobody to take it (the sandbox is being booted, the worker is away) it is kept, within bounds, and goes there in
 * order as soon as there is. Each time the view is opened at the worker it is sent the whole picture of the terminal
 * first, so after a break of the worker's line nothing is missing and nothing comes twice. Nor is what was typed into a
 * line that was dead already: the worker is asked what it has had, and is told the rest before anything else.
 */
import type { Cancel } from '../../core/ports.ts'
import { shownText } from '../../protocol/attach-text.ts'
import type { HostFrame } from '../../protocol/frames.ts'
import { ATTACH_SIZE_MS_MAX, ATTACH_TYPED_CHARS_MAX, TEXT_CHARS_MAX } from '../../protocol/limits.ts'
import type { ViewLine, ViewLink } from '../api/host-api.ts'
import { UnacknowledgedInput } from './unacknowledged-input.ts'

/** What a view needs of the session that it looks at. */
export interface SessionSender {
  readonly runId: string
  readonly workerId: string
  /** Answers whether the worker's line took it. */
  send(frame: HostFrame): boolean
}

export interface TerminalViewPorts {
  readonly after: (ms: number, run: () => void) => Cancel
  /** The person is gone, or was sent away. Once. */
  readonly onLeft: (view: TerminalView) => void
}

const CLOSE_DONE = 1000
const CLOSE_POLICY = 1008
const DEFAULT_SIZE = { cols: 80, rows: 24 }
/** There is no room for more of what is typed. */
const BELL = '\u0007'
/** Dim, and on a line of its own; the picture that comes next takes its place. */
const AWAY_NOTICE = '\r\n\u001b[0;2m[the worker is away; waiting for it to come back]\u001b[0m\r\n'

export class TerminalView implements ViewLine {
  readonly runId: string
  readonly sessionId: string
  readonly #link: ViewLink
  readonly #ports: TerminalViewPorts
  #sender: SessionSender | undefined
  /** `away`: the worker does not know of it, or not any more. */
  #state: 'away' | 'open' | 'closed' = 'away'
  #size: { readonly cols: number; readonly rows: number } | undefined
  #cancelOpening: Cancel | undefined
  #bufferedInput: string[] = []
  #bufferedChars = 0
  readonly #unacknowledged = new UnacknowledgedInput()
  /** The worker is being asked what it has had; meanwhile nothing that is typed goes there. */
  #isAwaitingCount = false
  /** Something was printed since it was opened last. */
  #isLive = false

  constructor(runId: string, sessionId: string, link: ViewLink, ports: TerminalViewPorts) {
    this.runId = runId
    this.sessionId = sessionId
    this.#link = link
    this.#ports = ports
  }

  get workerId(): string | undefined {
    return this.#sender?.workerId
  }

  get isClosed(): boolean {
    return this.#state === 'closed'
  }

  /** The worker has it open, and has shown so. */
  get isLive(): boolean {
    return this.#isLive
  }

  // ---- as the session sees it

  /** Its sandbox is booted. A view says how large it is right after it comes; it is waited for that, but not long. */
  join(sender: SessionSender): void {
    this.#sender = sender
    if (this.#size !== undefined) this.open()
    else this.#cancelOpening = this.#ports.after(ATTACH_SIZE_MS_MAX, () => this.open())
  }

  /** Anew after each break of the worker's line. */
  open(): void {
    if (this.#state === 'closed' || this.#sender === undefined) return
    this.#cancelOpening?.()
    this.#cancelOpening = undefined
    const { runId, send } = this.#sender
    // First, so that a worker that counts has answered before its picture comes.
    this.#isAwaitingCount =
      !this.#unacknowledged.isEmpty && send({ type: 'attach-ask', sessionId: this.sessionId })
    const opened = send({
      type: 'attach-open',
      sessionId: this.sessionId,
      runId,
      ...(this.#size ?? DEFAULT_SIZE),
    })
    if (!opened) return
    this.#state = 'open'
    this.#isLive = false
    if (!this.#isAwaitingCount) this.#sendBufferedInput()
  }

  /** `json`: the same as JSON, from whoever has it. */
  onOutput(data: string, json?: string): void {
    if (this.#state !== 'open') return
    this.#isLive = true
    this.#print(data, json)
    if (this.#isAwaitingCount) this.#stopResending()
  }

  /** So many frames of what was typed the worker has had, on all lines together. */
  onInputCount(received: number): void {
    if (!this.#isAwaitingCount || this.#state !== 'open') return
    const missed = this.#unacknowledged.takeMissed(received)
    this.#bufferedInput = [...missed, ...this.#bufferedInput]
    this.#bufferedChars += missed.reduce((chars, data) => chars + data.length, 0)
    this.#resumeInput()
  }

  onConnectionLost(): void {
    if (this.#state === 'closed') return
    this.#state = 'away'
    this.#isLive = false
    this.#cancelWaits()
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

  /** Without a word but the reason. */
  close(code: number, reason: string): void {
    if (this.#state !== 'closed') this.#closeLink(code, reason)
  }

  // ---- as its door sees it

  input(data: string): void {
    // Nothing weighs nothing, and any number of them would be kept.
    if (this.#state === 'closed' || data === '') return
    if (this.#cancelOpening !== undefined) this.open()
    const mayGo = this.#state === 'open' && !this.#isAwaitingCount
    const taken = mayGo && this.#sendBufferedInput() && this.#sendInput(data)
    if (!taken) this.#bufferInput(data)
  }

  resize(cols: number, rows: number): void {
    if (this.#state === 'closed') return
    this.#size = { cols, rows }
    if (this.#cancelOpening !== undefined) this.open()
    else if (this.#state === 'open')
      this.#sender?.send({ type: 'attach-resize', sessionId: this.sessionId, cols, rows })
  }

  closed(): void {
    this.#leave()
  }

  // ---- parts

  /** It does not count. What it never had is lost, and what it had must not come twice. */
  #stopResending(): void {
    this.#unacknowledged.stop()
    this.#resumeInput()
  }

  #resumeInput(): void {
    this.#isAwaitingCount = false
    this.#sendBufferedInput()
  }

  #cancelWaits(): void {
    this.#cancelOpening?.()
    this.#cancelOpening = undefined
    this.#isAwaitingCount = false
  }

  #sendInput(data: string): boolean {
    const sent = this.#sender?.send({ type: 'attach-input', sessionId: this.sessionId, data }) === true
    if (sent) this.#unacknowledged.add(data)
    return sent
  }

  /** Answers whether nothing is left of it. */
  #sendBufferedInput(): boolean {
    while (this.#bufferedInput[0] !== undefined) {
      if (!this.#sendInput(this.#bufferedInput[0])) return false
      this.#bufferedChars -= this.#bufferedInput[0].length
      this.#bufferedInput.shift()
    }
    return true
  }

  #bufferInput(data: string): void {
    if (this.#bufferedChars + data.length > ATTACH_TYPED_CHARS_MAX) {
      this.#print(BELL)
      return
    }
    this.#bufferedInput.push(data)
    this.#bufferedChars += data.length
  }

  /** One that does not keep up is being cut off by its door, and must not hold up the others. */
  #print(data: string, json = JSON.stringify(data)): void {
    if (!this.#link.send({ type: 'data', data }, shownText(json))) this.#leave()
  }

  /** Its worker does not hear of it: it has said so itself, or is told by other means. */
  #closeLink(code: number, reason: string): void {
    this.#link.close(code, reason)
    this.#dispose()
  }

  #leave(): void {
    if (this.#state === 'open') this.#sender?.send({ type: 'attach-close', sessionId: this.sessionId })
    this.#dispose()
  }

  #dispose(): void {
    if (this.#state === 'closed') return
    this.#state = 'closed'
    this.#cancelWaits()
    this.#bufferedInput = []
    this.#unacknowledged.stop()
    this.#ports.onLeft(this)
  }
}
