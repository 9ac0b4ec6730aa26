/**
 * The rows of a log as the page shows them: its lines without those that a filter hides, with identical lines in a row
 * folded into one. What a tool printed is shown once somebody opens it.
 *
 * Rows are kept as numbers beside the lines. New lines add rows at the end; all rows are made again only after a change
 * of filter or folding, or when lines come in front.
 */

import type { IndexRange } from '../../../../client/run-log.ts'
import type { RunEvent } from '../../../../protocol/run.ts'
import { bisect } from '../../../bisect.ts'
import { EventReader, isEnd } from './lines-of-events.ts'
import { type LineKind, LogLines, type NewLine } from './log-lines.ts'
import type { ToolOutcome } from './tool-words.ts'

export const LOG_FILTERS = ['all', 'agent', 'output', 'system'] as const
export type LogFilter = (typeof LOG_FILTERS)[number]

const SHOWN: Readonly<Record<LogFilter, readonly LineKind[] | undefined>> = {
  all: undefined,
  agent: ['words', 'tool', 'tool-output', 'phase', 'gap'],
  output: ['output', 'error-output', 'tool-output', 'phase', 'gap'],
  system: ['system', 'phase', 'gap'],
}
/** Events between two pauses. */
const EVENTS_SLICE = 20
const FOLDED_KINDS: readonly LineKind[] = ['output', 'error-output', 'tool-output', 'system']

export class LogModel {
  readonly lines = new LogLines()
  readonly #reader = new EventReader()
  /** The first line of each row, and how many lines it stands for. */
  #rows: number[] = []
  #counts: number[] = []
  #shownLines = 0
  /** The lines that begin a phase, and the errors, oldest first. */
  #phases: number[] = []
  #errors: number[] = []
  #filter: LogFilter = 'all'
  #isFolding = true
  readonly #unfolded = new Set<number>()
  /** Lines that a folded row stands for. */
  readonly #folded = new Set<number>()
  /** The events whose outputs of tools are shown. */
  readonly #opened = new Set<number>()

  append(events: readonly RunEvent[], range: IndexRange): void {
    const from = this.lines.endId
    this.lines.append(this.#reader.lines(events, range))
    this.#addRows(from)
  }

  /** Takes long where there are many. @param pause called between slices */
  async prepend(
    events: readonly RunEvent[],
    range: IndexRange,
    pause: () => Promise<void> | undefined = () => undefined,
  ): Promise<void> {
    const lines: NewLine[] = []
    let { from } = range
    for (let at = 0; at < events.length; at += EVENTS_SLICE) {
      const slice = events.slice(at, at + EVENTS_SLICE)
      const isLast = at + EVENTS_SLICE >= events.length
      const to = isLast ? range.to : (slice.at(-1)?.index ?? from) + 1
      for (const line of this.#reader.lines(slice, { from, to })) lines.push(line)
      from = to
      await pause()
    }
    this.lines.prepend(events.length === 0 ? this.#reader.lines([], range) : lines)
    this.#makeRows()
  }

  /** Gives up old lines when there are too many. Returns the first event that is left. */
  trim(): number | undefined {
    if (!this.lines.isFull) return undefined
    this.lines.trim()
    this.#makeRows()
    return this.lines.firstEvent
  }

  clear(): void {
    this.lines.clear()
    this.#reader.clear()
    this.#makeRows()
  }

  get filter(): LogFilter {
    return this.#filter
  }

  set filter(filter: LogFilter) {
    this.#filter = filter
    this.#makeRows()
  }

  get isFolding(): boolean {
    return this.#isFolding
  }

  set isFolding(isFolding: boolean) {
    this.#isFolding = isFolding
    this.#unfolded.clear()
    this.#makeRows()
  }

  unfold(row: number): void {
    const end = row + 1 < this.rowCount ? this.lineOf(row + 1) : this.lines.endId
    for (let id = this.lineOf(row); id < end; id++) this.#unfolded.add(id)
    this.#makeRows()
  }

  /** @param event of the tool's output */
  isOpen(event: number): boolean {
    return this.#opened.has(event)
  }

  toggleOutput(event: number): void {
    if (!this.#opened.delete(event)) this.#opened.add(event)
    this.#makeRows()
  }

  /** Opens the output that the line is a part of. Returns whether it was closed. */
  open(id: number): boolean {
    if (!this.#isKept(id) || this.#isShown(id)) return false
    this.toggleOutput(this.lines.event(id))
    return true
  }

  // ---- rows --------------------------------------------------------------------------------------------------------

  get rowCount(): number {
    return this.#rows.length
  }

  /** The id of a row's line. */
  lineOf(row: number): number {
    return this.#rows[row] ?? this.lines.endId
  }

  /** The lines of all rows. */
  get shownLines(): number {
    return this.#shownLines
  }

  /** How many identical lines the row stands for. */
  repeats(row: number): number {
    return this.#counts[row] ?? 1
  }

  /** The time of the last of the identical lines. */
  repeatedUntil(row: number): number {
    const next = row + 1 < this.#rows.length ? this.lineOf(row + 1) : this.lines.endId
    let id = next - 1
    while (id > this.lineOf(row) && !this.#isShown(id)) id--
    return this.lines.at(id)
  }

  /** The row that shows the line, or the next one after it. */
  rowOf(id: number): number {
    const low = bisect(this.#rows.length, (at) => (this.#rows[at] ?? 0) <= id)
    const row = Math.max(0, low - 1)
    // A hidden line has no row, unless a folded row stands for it.
    const isWithin =
      this.lineOf(row) === id || this.repeats(row) > 1 || this.#isShown(id) || low === this.#rows.length
    return isWithin ? row : low
  }

  outcomeOf(id: number): ToolOutcome | undefined {
    return this.#reader.outcomes.get(`${this.lines.event(id)}.${this.lines.part(id)}`)
  }

  /** The beginning of the next phase, for the length of this one. */
  endOfPhase(id: number): number | undefined {
    if (isEnd(this.lines.text(id))) return undefined
    const next = this.#phases.find((phase) => phase > id)
    return next === undefined ? undefined : this.lines.at(next)
  }

  /** Whether the phase goes on for as long as the run does. */
  isOpenPhase(id: number): boolean {
    return this.lines.kind(id) === 'phase' && !isEnd(this.lines.text(id))
  }

  /** Whether a search looks at the line: of folded ones only at the first, and at outputs of tools before they are open. */
  isSearched(id: number): boolean {
    return this.#isKept(id) && !this.#folded.has(id)
  }

  /** The next error in a direction, among the lines that the filter leaves. */
  findError(from: number | undefined, step: 1 | -1): number | undefined {
    const shown = this.#errors.filter((id) => this.#isKept(id))
    if (from === undefined) return step === 1 ? shown[0] : shown.at(-1)
    return step === 1 ? shown.find((id) => id > from) : shown.findLast((id) => id < from)
  }

  get errorCount(): number {
    return this.#errors.length
  }

  #makeRows(): void {
    this.#rows = []
    this.#counts = []
    this.#phases = []
    this.#errors = []
    this.#folded.clear()
    this.#shownLines = 0
    this.#addRows(this.lines.firstId)
  }

  #addRows(from: number): void {
    for (let id = from; id < this.lines.endId; id++) {
      const kind = this.lines.kind(id)
      if (kind === 'phase') this.#phases.push(id)
      if (this.lines.isError(id)) this.#errors.push(id)
      if (!this.#isShown(id)) continue
      this.#shownLines += 1
      if (this.#isRepeat(id, kind)) {
        this.#counts[this.#counts.length - 1] = (this.#counts.at(-1) ?? 0) + 1
        this.#folded.add(id)
      } else {
        this.#rows.push(id)
        this.#counts.push(1)
      }
    }
  }

  #isShown(id: number): boolean {
    if (!this.#isKept(id)) return false
    // The lines of a tool's call are not there to open its output.
    return (
      this.lines.kind(id) !== 'tool-output' ||
      this.#filter === 'output' ||
      this.#opened.has(this.lines.event(id))
    )
  }

  /** Whether the filter leaves the line. */
  #isKept(id: number): boolean {
    return SHOWN[this.#filter]?.includes(this.lines.kind(id)) ?? true
  }

  #isRepeat(id: number, kind: LineKind): boolean {
    const before = this.#rows.at(-1)
    if (
      !this.#isFolding ||
      before === undefined ||
      this.#unfolded.has(before) ||
      !FOLDED_KINDS.includes(kind)
    )
      return false
    const text = this.lines.text(id)
    return text !== '' && this.lines.kind(before) === kind && this.lines.text(before) === text
  }
}
