/**
 * Where people sit: one terminal view each, with all that it has shown.
 *
 * A seat outlives no life of the host: whoever sat there when it went sees that, and sits down anew, or does not.
 */
import type { ViewReceiver, ViewSender } from '../../core/connection-ports.ts'
import type { AttachOutput } from '../../protocol/dashboard.ts'

/** How the picture of a simulated terminal begins: its size, then all that was printed. */
const SCREEN_START = /\[\d+x\d+ /g

export interface TerminalViewerOptions {
  readonly runId: string
  readonly person: string
  readonly now: () => number
  readonly framesMax: number
  /** `again`: after a break of the worker's line. */
  readonly onScreen: (again: boolean) => void
}

export class TerminalViewer implements ViewSender {
  readonly runId: string
  readonly person: string
  receiver: ViewReceiver | undefined
  readonly openedAt: number
  /** Since then it has not been told that its worker is away, and has had its picture. */
  screenShownAt: number | undefined
  /** Since when it waits, while it shows nothing. */
  blankSince: number
  closedAt: number | undefined
  /** What became of the session, as its person was told. */
  ended: AttachOutput | undefined
  readonly #now: () => number
  readonly #onScreen: (again: boolean) => void
  /** So many more frames until too much waits for one that does not read. */
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

  /** All that its terminal shows. */
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

  /** Its person goes. */
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
    // The picture ends with a bracket, and what is printed afterwards follows it.
    this.#screen = drawn.endsWith(']') ? drawn.slice(0, -1) : drawn
  }
}
