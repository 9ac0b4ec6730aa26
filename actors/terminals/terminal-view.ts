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
import { HandedOver } from './unacknowledged-input.ts'

/** What a view needs of the session that it looks at. */
export interface Mouth {
  readonly runId: string
  readonly workerId: string
  /** Answers whether the worker's line took it. */
  say(frame: HostFrame): boolean
}

export interface ViewPorts {
  readonly after: (ms: number, run: () => void) => Cancel
  /** The person is gone, or was sent away. Once. */
  readonly left: (view: View) => void
}

const CLOSE_DONE = 1000
const CLOSE_POLICY = 1008
const USUAL_SIZE = { cols: 80, rows: 24 }
/** There is no room for more of what is typed. */
const BELL = '\u0007'
/** Dim, and on a line of its own; the picture that comes next takes its place. */
const AWAY = '\r\n\u001b[0;2m[the worker is away; waiting for it to come back]\u001b[0m\r\n'

export class View implements ViewLine {
  readonly runId: string
  readonly sessionId: string
  readonly #link: ViewLink
  readonly #ports: ViewPorts
  #mouth: Mouth | undefined
  /** `away`: the worker does not know of it, or not any more. */
  #state: 'away' | 'open' | 'closed' = 'away'
  #size: { readonly cols: number; readonly rows: number } | undefined
  #cancelOpening: Cancel | undefined
  #typed: string[] = []
  #typedChars = 0
  readonly #handedOver = new HandedOver()
  /** The worker is being asked what it has had; meanwhile nothing that is typed goes there. */
  #isAsking = false
  /** Something was printed since it was opened last. */
  #live = false

  constructor(runId: string, sessionId: string, link: ViewLink, ports: ViewPorts) {
    this.runId = runId
    this.sessionId = sessionId
    this.#link = link
    this.#ports = ports
  }

  get workerId(): string | undefined {
    return this.#mouth?.workerId
  }

  get closedAlready(): boolean {
    return this.#state === 'closed'
  }

  /** The worker has it open, and has shown so. */
  get live(): boolean {
    return this.#live
  }

  // ---- as the session sees it

  /** Its sandbox is booted. A view says how large it is right after it comes; it is waited for that, but not long. */
  join(mouth: Mouth): void {
    this.#mouth = mouth
    if (this.#size !== undefined) this.open()
    else this.#cancelOpening = this.#ports.after(ATTACH_SIZE_MS_MAX, () => this.open())
  }

  /** Anew after each break of the worker's line. */
  open(): void {
    if (this.#state === 'closed' || this.#mouth === undefined) return
    this.#cancelOpening?.()
    this.#cancelOpening = undefined
    const { runId, say } = this.#mouth
    // First, so that a worker that counts has answered before its picture comes.
    this.#isAsking = !this.#handedOver.isEmpty && say({ type: 'attach-ask', sessionId: this.sessionId })
    const opened = say({
      type: 'attach-open',
      sessionId: this.sessionId,
      runId,
      ...(this.#size ?? USUAL_SIZE),
    })
    if (!opened) return
    this.#state = 'open'
    this.#live = false
    if (!this.#isAsking) this.#sayTyped()
  }

  /** `json`: the same as JSON, from whoever has it. */
  printed(data: string, json?: string): void {
    if (this.#state !== 'open') return
    this.#live = true
    this.#show(data, json)
    if (this.#isAsking) this.#giveUp()
  }

  /** So many frames of what was typed the worker has had, on all lines together. */
  taken(inputs: number): void {
    if (!this.#isAsking || this.#state !== 'open') return
    const missed = this.#handedOver.missed(inputs)
    this.#typed = [...missed, ...this.#typed]
    this.#typedChars += missed.reduce((chars, data) => chars + data.length, 0)
    this.#goOn()
  }

  lineLost(): void {
    if (this.#state === 'closed') return
    this.#state = 'away'
    this.#live = false
    this.#cancelWaits()
    this.#show(AWAY)
  }

  exited(code: number): void {
    if (this.#state === 'closed') return
    this.#link.send({ type: 'exit', code })
    this.#goodbye(CLOSE_DONE, 'the session has ended')
  }

  refused(reason: string, code = CLOSE_POLICY): void {
    if (this.#state === 'closed') return
    const message = reason.slice(0, TEXT_CHARS_MAX)
    this.#link.send({ type: 'error', message })
    this.#goodbye(code, message)
  }

  /** Without a word but the reason. */
  dismissed(code: number, reason: string): void {
    if (this.#state !== 'closed') this.#goodbye(code, reason)
  }

  // ---- as its door sees it

  input(data: string): void {
    // Nothing weighs nothing, and any number of them would be kept.
    if (this.#state === 'closed' || data === '') return
    if (this.#cancelOpening !== undefined) this.open()
    const mayGo = this.#state === 'open' && !this.#isAsking
    const taken = mayGo && this.#sayTyped() && this.#sayInput(data)
    if (!taken) this.#keep(data)
  }

  resize(cols: number, rows: number): void {
    if (this.#state === 'closed') return
    this.#size = { cols, rows }
    if (this.#cancelOpening !== undefined) this.open()
    else if (this.#state === 'open')
      this.#mouth?.say({ type: 'attach-resize', sessionId: this.sessionId, cols, rows })
  }

  closed(): void {
    this.#leave()
  }

  // ---- parts

  /** It does not count. What it never had is lost, and what it had must not come twice. */
  #giveUp(): void {
    this.#handedOver.giveUp()
    this.#goOn()
  }

  #goOn(): void {
    this.#isAsking = false
    this.#sayTyped()
  }

  #cancelWaits(): void {
    this.#cancelOpening?.()
    this.#cancelOpening = undefined
    this.#isAsking = false
  }

  #sayInput(data: string): boolean {
    const said = this.#mouth?.say({ type: 'attach-input', sessionId: this.sessionId, data }) === true
    if (said) this.#handedOver.note(data)
    return said
  }

  /** Answers whether nothing is left of it. */
  #sayTyped(): boolean {
    while (this.#typed[0] !== undefined) {
      if (!this.#sayInput(this.#typed[0])) return false
      this.#typedChars -= this.#typed[0].length
      this.#typed.shift()
    }
    return true
  }

  #keep(data: string): void {
    if (this.#typedChars + data.length > ATTACH_TYPED_CHARS_MAX) {
      this.#show(BELL)
      return
    }
    this.#typed.push(data)
    this.#typedChars += data.length
  }

  /** One that does not keep up is being cut off by its door, and must not hold up the others. */
  #show(data: string, json = JSON.stringify(data)): void {
    if (!this.#link.send({ type: 'data', data }, shownText(json))) this.#leave()
  }

  /** Its worker does not hear of it: it has said so itself, or is told by other means. */
  #goodbye(code: number, reason: string): void {
    this.#link.close(code, reason)
    this.#forget()
  }

  #leave(): void {
    if (this.#state === 'open') this.#mouth?.say({ type: 'attach-close', sessionId: this.sessionId })
    this.#forget()
  }

  #forget(): void {
    if (this.#state === 'closed') return
    this.#state = 'closed'
    this.#cancelWaits()
    this.#typed = []
    this.#handedOver.giveUp()
    this.#ports.left(this)
  }
}
