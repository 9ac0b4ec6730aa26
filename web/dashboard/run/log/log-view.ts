/**
 * The state of a log on the page: its rows, whether it follows its end, the search, the chosen lines.
 *
 * Events are taken over at once, and drawn at most every few milliseconds, because a busy run brings thousands of lines
 * a second.
 */
import { batch, signal } from '@preact/signals'
import type { IndexRange, RunLogListener, RunLogSource, RunLogState } from '../../../../client/run-log.ts'
import { RunLog } from '../../../../client/run-log.ts'
import type { RunEvent } from '../../../../protocol/run.ts'
import { LogFinder } from './log-finder.ts'
import { type LogFilter, LogModel } from './log-model.ts'

/** Scrolls the drawn rows; the component that draws them puts it in. */
export interface LogScroller {
  toRow(row: number): void
  toEnd(): void
  firstRow(): number
}

const BEGINNING: RunLogState = { isRead: false, isReadingOlder: false, older: 0, failure: undefined }
/** Drawing takes longer the more rows there are. */
const MANY_ROWS = 20_000
const DRAW_MS = 16
const DRAW_MANY_MS = 100
const SLICE_MS = 8

export class LogView implements RunLogListener {
  readonly model = new LogModel()
  /** Counts changes of the rows. */
  readonly version = signal(0)
  readonly state = signal<RunLogState>(BEGINNING)
  readonly isFollowing = signal(true)
  /** Lines that came since the log stopped following. */
  readonly unseen = signal(0)
  readonly isWrapping = signal(false)
  readonly chosen = signal<LineRange | undefined>(undefined)
  readonly finder = new LogFinder(this.model, (id) => this.#show(id))
  scroller: LogScroller | undefined
  readonly #log: RunLog
  #drawTimer: ReturnType<typeof setTimeout> | undefined
  #revealing: LineRange | undefined
  #isJumping = false
  #isPrepending = false

  constructor(source: RunLogSource) {
    this.#log = new RunLog(source, this)
  }

  close(): void {
    this.#log.close()
    clearTimeout(this.#drawTimer)
    this.finder.close()
  }

  // ---- events ------------------------------------------------------------------------------------------------------

  onEvents(
    events: readonly RunEvent[],
    end: 'older' | 'newer',
    range: IndexRange,
  ): Promise<void> | undefined {
    if (end === 'older') return this.#prepend(events, range)
    const before = this.model.lines.count
    const shown = this.model.shownLines
    this.model.append(events, range)
    if (!this.isFollowing.value) this.unseen.value += this.model.shownLines - shown
    else if (!this.#isPrepending) {
      const first = this.model.trim()
      if (first !== undefined) this.#log.forgetBefore(first)
    }
    if (before === 0) this.#draw()
    else this.#drawSoon()
    return undefined
  }

  async #prepend(events: readonly RunEvent[], range: IndexRange): Promise<void> {
    this.#isPrepending = true
    let began = performance.now()
    await this.model.prepend(events, range, () => {
      if (performance.now() - began < SLICE_MS) return undefined
      return new Promise((resolve) => {
        setTimeout(() => {
          began = performance.now()
          resolve()
        })
      })
    })
    this.#isPrepending = false
    this.#draw()
    this.finder.searchAgain()
  }

  onReset(): void {
    this.model.clear()
    this.#draw()
    this.finder.searchAgain()
  }

  onState(state: RunLogState): void {
    this.state.value = state
    if (this.#revealing !== undefined && state.isRead) void this.#reveal(this.#revealing)
  }

  #drawSoon(): void {
    const ms = this.model.rowCount > MANY_ROWS ? DRAW_MANY_MS : DRAW_MS
    this.#drawTimer ??= setTimeout(() => this.#draw(), ms)
  }

  #draw(): void {
    clearTimeout(this.#drawTimer)
    this.#drawTimer = undefined
    batch(() => {
      this.version.value += 1
      this.finder.searchOn()
    })
  }

  /** Whether older lines may be read: the page has a limit. */
  get canLoadOlder(): boolean {
    return this.state.value.older > 0 && !this.model.lines.isFull
  }

  loadOlder(until?: number): Promise<void> {
    return this.canLoadOlder ? this.#log.loadOlder(until) : Promise.resolve()
  }

  // ---- rows --------------------------------------------------------------------------------------------------------

  setFilter(filter: LogFilter): void {
    if (this.model.filter === filter) return
    this.model.filter = filter
    this.#draw()
    this.finder.searchAgain()
  }

  toggleFolding(): void {
    this.model.isFolding = !this.model.isFolding
    this.#draw()
    this.finder.searchAgain()
  }

  unfold(row: number): void {
    this.model.unfold(row)
    this.#draw()
    this.finder.searchAgain()
  }

  toggleOutput(event: number): void {
    this.isFollowing.value = false
    this.model.toggleOutput(event)
    this.#draw()
  }

  follow(): void {
    this.isFollowing.value = true
    this.unseen.value = 0
    this.scroller?.toEnd()
  }

  /** The person has scrolled. */
  onScroll(isAtEnd: boolean, isUpwards: boolean): void {
    if (isAtEnd) {
      this.isFollowing.value = true
      this.unseen.value = 0
    } else if (isUpwards) this.isFollowing.value = false
  }

  // ---- chosen lines ------------------------------------------------------------------------------------------------

  isChosen(id: number): boolean {
    const { value } = this.chosen
    if (value === undefined) return false
    const { lines } = this.model
    const point = { event: lines.event(id), part: lines.part(id) }
    return comparePoints(point, value.from) >= 0 && comparePoints(point, value.to) <= 0
  }

  /** Chooses lines and brings them into view, reading older events for them where they are not here. */
  reveal(range: LineRange): void {
    this.chosen.value = range
    if (this.state.value.isRead) void this.#reveal(range)
    else this.#revealing = range
  }

  async #reveal(range: LineRange): Promise<void> {
    this.#revealing = undefined
    if (range.from.event < this.#log.first) await this.loadOlder(range.from.event)
    const id = this.model.lines.find(range.from.event, range.from.part)
    if (id !== undefined) this.#show(id)
  }

  choose(id: number): void {
    const { lines } = this.model
    const point = { event: lines.event(id), part: lines.part(id) }
    this.chosen.value = { from: point, to: point }
    this.#show(id)
  }

  #show(id: number): void {
    this.isFollowing.value = false
    if (!this.model.open(id)) {
      this.scroller?.toRow(this.model.rowOf(id))
      return
    }
    this.#draw()
    // The rows that were closed are drawn first.
    setTimeout(() => this.scroller?.toRow(this.model.rowOf(id)))
  }

  /** The id of the chosen line, or of the first one in view. */
  #current(): number | undefined {
    const { value } = this.chosen
    if (value !== undefined) return this.model.lines.find(value.from.event, value.from.part)
    return undefined
  }

  stepLine(step: 1 | -1): void {
    const current = this.#current()
    const row = current === undefined ? (this.scroller?.firstRow() ?? 0) : this.model.rowOf(current) + step
    if (row >= 0 && row < this.model.rowCount) this.choose(this.model.lineOf(row))
  }

  /** Returns false when there is no error in that direction. */
  stepError(step: 1 | -1): boolean {
    const id = this.model.findError(this.#current(), step)
    if (id !== undefined) this.choose(id)
    return id !== undefined
  }

  /** Reads the whole log first: the first error may stand in what is not here. Returns false when no line is one. */
  async showFirstError(): Promise<boolean> {
    if (this.#isJumping) return true
    this.#isJumping = true
    await this.loadOlder(0).finally(() => {
      this.#isJumping = false
    })
    const id = this.model.findError(undefined, 1)
    if (id !== undefined) this.choose(id)
    return id !== undefined
  }

  /** The chosen lines as text. */
  chosenText(): string {
    const { value } = this.chosen
    if (value === undefined) return ''
    const { lines } = this.model
    const texts: string[] = []
    for (
      let id = lines.find(value.from.event, value.from.part) ?? lines.endId;
      id < lines.endId && this.isChosen(id);
      id++
    )
      texts.push(lines.text(id))
    return texts.join('\n')
  }
}

// ---- lines in the address ------------------------------------------------------------------------------------------

interface LinePoint {
  readonly event: number
  readonly part: number
}

interface LineRange {
  readonly from: LinePoint
  readonly to: LinePoint
}

const POINT = /^L(\d{1,12})(?:\.(\d{1,7}))?$/

/**
 * Lines in the address: `L12`, `L12-L18`, and `L12.3` for the third line of an event with several.
 *
 * Numbers count events of the run from 1, because those never change, whatever part of the log is loaded.
 */
export function parseLines(fragment: string): LineRange | undefined {
  const [first = '', last = first, ...more] = fragment.split('-')
  const [from, to] = [parsePoint(first), parsePoint(last)]
  if (from === undefined || to === undefined || more.length > 0) return undefined
  return comparePoints(from, to) <= 0 ? { from, to } : { from: to, to: from }
}

function parsePoint(text: string): LinePoint | undefined {
  const found = POINT.exec(text)
  if (found === null || Number(found[1]) === 0) return undefined
  return { event: Number(found[1]) - 1, part: Math.max(0, Number(found[2] ?? 1) - 1) }
}

export function formatLines({ from, to }: LineRange): string {
  return comparePoints(from, to) === 0 ? formatPoint(from) : `${formatPoint(from)}-${formatPoint(to)}`
}

const formatPoint = (point: LinePoint): string => `L${lineNumber(point)}`

/** `12`, `12.3`. */
export const lineNumber = ({ event, part }: LinePoint): string =>
  part === 0 ? String(event + 1) : `${event + 1}.${part + 1}`

const comparePoints = (a: LinePoint, b: LinePoint): number => a.event - b.event || a.part - b.part

/** The range that reaches from the chosen lines to another one. */
export function extendLines(range: LineRange | undefined, point: LinePoint): LineRange {
  if (range === undefined) return { from: point, to: point }
  return comparePoints(point, range.from) < 0
    ? { from: point, to: range.to }
    : { from: range.from, to: point }
}
