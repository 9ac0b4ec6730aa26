/**
 * One terminal view: a person's end of a session, whatever lies between them and the sandbox.
 *
 * What is typed goes straight to the worker's line, without a disk or a turn of the loop between. While there is
 * nobody to take it (the sandbox is being booted, the worker is away) it is kept, within bounds, and goes there in
 * order as soon as there is. Each time the view is opened at the worker it is sent the whole picture of the terminal
 * first, so after a break of the worker's line nothing is missing and nothing comes twice.
 */
import type { Cancel } from '../../core/ports.ts'
import type { HostFrame } from '../../protocol/frames.ts'
import { ATTACH_SIZE_MS_MAX, ATTACH_TYPED_CHARS_MAX, TEXT_CHARS_MAX } from '../../protocol/limits.ts'
import type { ViewLine, ViewLink } from '../root/front-desk.ts'

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
    const opened = say({
      type: 'attach-open',
      sessionId: this.sessionId,
      runId,
      ...(this.#size ?? USUAL_SIZE),
    })
    if (!opened) return
    this.#state = 'open'
    this.#live = false
    this.#sayTyped()
  }

  printed(data: string): void {
    if (this.#state !== 'open') return
    this.#live = true
    this.#show(data)
  }

  lineLost(): void {
    if (this.#state === 'closed') return
    this.#state = 'away'
    this.#live = false
    this.#cancelOpening?.()
    this.#cancelOpening = undefined
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
    if (this.#state === 'closed') return
    if (this.#cancelOpening !== undefined) this.open()
    const taken = this.#state === 'open' && this.#sayTyped() && this.#sayInput(data)
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

  #sayInput(data: string): boolean {
    return this.#mouth?.say({ type: 'attach-input', sessionId: this.sessionId, data }) === true
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
  #show(data: string): void {
    if (!this.#link.send({ type: 'data', data })) this.#leave()
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
    this.#cancelOpening?.()
    this.#typed = []
    this.#ports.left(this)
  }
}
