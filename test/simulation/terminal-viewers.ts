/**
 * TerminalViewer is one terminal view of a person, with everything it shows.
 *
 * A view ends when its host process ends; its person then opens another one or leaves.
 */
import type { ViewReceiver, ViewSender } from '../../core/ports/connections.ts'
import type { AttachOutput } from '../../protocol/dashboard.ts'

/** The beginning of a simulated screen: its size; all printed output follows. */
const SCREEN_START = /\[\d+x\d+ /g

export interface TerminalViewerOptions {
  readonly runId: string
  readonly person: string
  readonly now: () => number
  readonly framesMax: number
  /** `again`: the screen was drawn before, and the worker's connection broke since. */
  readonly onScreen: (again: boolean) => void
}

export class TerminalViewer implements ViewSender {
  readonly runId: string
  readonly person: string
  receiver: ViewReceiver | undefined
  readonly openedAt: number
  /** When the current screen was drawn; undefined while its worker is away. */
  screenShownAt: number | undefined
  /** Since when the view waits without a screen. */
  blankSince: number
  closedAt: number | undefined
  /** How the session ended, as the view received it. */
  ended: AttachOutput | undefined
  readonly #now: () => number
  readonly #onScreen: (again: boolean) => void
  /** Frames that the view still accepts before its unread backlog is too large. */
  #framesLeft: number
  #screen = ''

  #hasShownScreen = false

  constructor({ runId, person, now, framesMax, onScreen }: TerminalViewerOptions) {
    this.runId = runId
    this.person = person
    this.openedAt = now()
    this.blankSince = this.openedAt
    this.#now = now
    this.#framesLeft = framesMax
    this.#onScreen = onScreen
  }

  get isOpen(): boolean {
    return this.closedAt === undefined
  }

  /** The text on its terminal. */
  get screen(): string {
    return this.#screen
  }

  send(frame: AttachOutput): boolean {
    if (!this.isOpen) return false
    this.#framesLeft -= 1
    if (this.#framesLeft < 0) {
      this.closedAt = this.#now()
      return false
    }
    if (frame.type === 'data') this.#render(frame.data)
    else this.ended = frame
    return true
  }

  close(): void {
    this.closedAt ??= this.#now()
  }

  /** The person closes the view. */
  leave(): void {
    if (!this.isOpen) return
    this.close()
    this.receiver?.onClosed()
  }

  #render(data: string): void {
    if (data.includes('worker is away')) {
      this.screenShownAt = undefined
      this.blankSince = this.#now()
      return
    }
    const [start] = [...data.matchAll(SCREEN_START)].slice(-1)
    if (start === undefined) {
      this.#screen += data
      return
    }
    this.screenShownAt = this.#now()
    this.#onScreen(this.#hasShownScreen)
    this.#hasShownScreen = true
    const drawn = data.slice(start.index + start[0].length)
    // The screen ends with a bracket, and later output follows it.
    this.#screen = drawn.endsWith(']') ? drawn.slice(0, -1) : drawn
  }
}
