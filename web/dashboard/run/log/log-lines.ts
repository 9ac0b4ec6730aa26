/**
 * The lines of a log in memory: columns of numbers and texts instead of an object for each line, because a log may have
 * hundreds of thousands of lines.
 *
 * A line keeps its id while others come in front of it or go; ids count up from the oldest line to the newest.
 */
import { bisect } from '../../../bisect.ts'

export const LINE_KINDS = [
  'output',
  'error-output',
  'system',
  'words',
  'tool',
  'tool-output',
  'phase',
  'gap',
] as const
export type LineKind = (typeof LINE_KINDS)[number]

/** Lines that the page keeps at most. The oldest go when more come, and can be read again. */
export const LINES_MAX = 300_000
/** Characters that the page keeps at most. */
export const CHARS_MAX = 64 * 1024 * 1024
/** Lines go in large steps, because every step moves all others. */
const STEP_SHARE = 0.1

export interface NewLine {
  readonly kind: LineKind
  readonly text: string
  /** The index of the event, and the number of the line within it. */
  readonly event: number
  readonly part: number
  readonly at: number
  readonly isError: boolean
  /** Whether the text goes on where the line before it ended, if that line `continues` too. */
  readonly continues?: boolean
}

export class LogLines {
  #kinds: number[] = []
  #texts: string[] = []
  #events: number[] = []
  #parts: number[] = []
  #times: number[] = []
  #errors: boolean[] = []
  #chars = 0
  #firstId = 0
  /** Whether the last line may go on. */
  #isOpen = false

  get firstId(): number {
    return this.#firstId
  }

  /** The id of the next newer line. */
  get endId(): number {
    return this.#firstId + this.#texts.length
  }

  get count(): number {
    return this.#texts.length
  }

  get firstEvent(): number | undefined {
    return this.#events[0]
  }

  append(lines: readonly NewLine[]): void {
    for (const line of lines) {
      const isJoined = this.#isOpen && line.continues === true
      this.#isOpen = line.continues === true
      if (isJoined) {
        this.#texts.push((this.#texts.pop() ?? '') + line.text)
        this.#chars += line.text.length
        continue
      }
      this.#kinds.push(LINE_KINDS.indexOf(line.kind))
      this.#texts.push(line.text)
      this.#events.push(line.event)
      this.#parts.push(line.part)
      this.#times.push(line.at)
      this.#errors.push(line.isError)
      this.#chars += line.text.length
    }
  }

  prepend(lines: readonly NewLine[]): void {
    this.#kinds = lines.map(({ kind }) => LINE_KINDS.indexOf(kind)).concat(this.#kinds)
    this.#texts = lines.map(({ text }) => text).concat(this.#texts)
    this.#events = lines.map(({ event }) => event).concat(this.#events)
    this.#parts = lines.map(({ part }) => part).concat(this.#parts)
    this.#times = lines.map(({ at }) => at).concat(this.#times)
    this.#errors = lines.map(({ isError }) => isError).concat(this.#errors)
    this.#firstId -= lines.length
    for (const { text } of lines) this.#chars += text.length
  }

  get isFull(): boolean {
    return this.count > LINES_MAX || this.#chars > CHARS_MAX
  }

  /** Gives up the oldest lines, whole events at a time. */
  trim(): void {
    let count = Math.max(this.count - LINES_MAX, 0) + Math.floor(Math.min(this.count, LINES_MAX) * STEP_SHARE)
    while (count < this.count && this.#events[count] === this.#events[count - 1]) count++
    for (let at = 0; at < count; at++) this.#chars -= this.#texts[at]?.length ?? 0
    for (const column of [this.#kinds, this.#texts, this.#events, this.#parts, this.#times, this.#errors])
      column.splice(0, count)
    this.#firstId += count
  }

  clear(): void {
    this.#firstId += this.count
    this.#chars = 0
    this.#isOpen = false
    for (const column of [this.#kinds, this.#texts, this.#events, this.#parts, this.#times, this.#errors])
      column.length = 0
  }

  kind(id: number): LineKind {
    return LINE_KINDS[this.#kinds[id - this.#firstId] ?? 0] ?? 'output'
  }

  text(id: number): string {
    return this.#texts[id - this.#firstId] ?? ''
  }

  event(id: number): number {
    return this.#events[id - this.#firstId] ?? 0
  }

  part(id: number): number {
    return this.#parts[id - this.#firstId] ?? 0
  }

  at(id: number): number {
    return this.#times[id - this.#firstId] ?? 0
  }

  isError(id: number): boolean {
    return this.#errors[id - this.#firstId] ?? false
  }

  /** The id of a line of an event, or of the first line after it; undefined when the event is not here. */
  find(event: number, part = 0): number | undefined {
    if (this.count === 0 || event < (this.#events[0] ?? 0)) return undefined
    const isBefore = (at: number): boolean => {
      const found = this.#events[at] ?? 0
      return found < event || (found === event && (this.#parts[at] ?? 0) < part)
    }
    return this.#firstId + bisect(this.count - 1, isBefore)
  }
}
