/**
 * Where people sit: one terminal view each, with all that it has shown.
 *
 * A seat outlives no life of the host: whoever sat there when it went sees that, and sits down anew, or does not.
 */
import type { ViewReceiver, ViewSender } from '../../core/connection-ports.ts'
import type { AttachOutput } from '../../protocol/dashboard.ts'

/** How the picture of a simulated terminal begins: its size, then all that was printed. */
const PICTURE = /\[\d+x\d+ /g

export interface SeatParts {
  readonly runId: string
  readonly person: string
  readonly now: () => number
  readonly takes: number
  /** `again`: after a break of the worker's line. */
  readonly onPicture: (again: boolean) => void
}

export class Seat implements ViewSender {
  readonly runId: string
  readonly person: string
  line: ViewReceiver | undefined
  readonly openedAt: number
  /** Since then it has not been told that its worker is away, and has had its picture. */
  shownAt: number | undefined
  /** Since when it waits, while it shows nothing. */
  blankSince: number
  closedAt: number | undefined
  /** What became of the session, as its person was told. */
  ended: AttachOutput | undefined
  readonly #now: () => number
  readonly #onPicture: (again: boolean) => void
  /** So many more frames until too much waits for one that does not read. */
  #takes: number
  #screen = ''

  #hasSeenOne = false

  constructor({ runId, person, now, takes, onPicture }: SeatParts) {
    this.runId = runId
    this.person = person
    this.openedAt = now()
    this.blankSince = this.openedAt
    this.#now = now
    this.#takes = takes
    this.#onPicture = onPicture
  }

  get isOpen(): boolean {
    return this.closedAt === undefined
  }

  /** All that its terminal shows. */
  get shown(): string {
    return this.#screen
  }

  send(frame: AttachOutput): boolean {
    if (!this.isOpen) return false
    this.#takes -= 1
    if (this.#takes < 0) {
      this.closedAt = this.#now()
      return false
    }
    if (frame.type === 'data') this.#draw(frame.data)
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
    this.line?.onClosed()
  }

  #draw(data: string): void {
    if (data.includes('worker is away')) {
      this.shownAt = undefined
      this.blankSince = this.#now()
      return
    }
    const [start] = [...data.matchAll(PICTURE)].slice(-1)
    if (start === undefined) {
      this.#screen += data
      return
    }
    this.shownAt = this.#now()
    this.#onPicture(this.#hasSeenOne)
    this.#hasSeenOne = true
    const drawn = data.slice(start.index + start[0].length)
    // The picture ends with a bracket, and what is printed afterwards follows it.
    this.#screen = drawn.endsWith(']') ? drawn.slice(0, -1) : drawn
  }
}
