/** The search in a log: its words, its matches so far, and the match that is in view. */
import { signal } from '@preact/signals'
import { plainText } from './clean-text.ts'
import type { LogModel } from './log-model.ts'

/** The time of a slice, short of a frame. */
const SLICE_MS = 12

export class LogFinder {
  readonly search = signal<LogSearch | undefined>(undefined)
  /** Counts slices, because a search grows while it goes on. */
  readonly version = signal(0)
  /** The position of the current match. */
  readonly position = signal(0)
  readonly #model: LogModel
  readonly #show: (id: number) => void
  /** The line of the match to come back to, when the search has begun again. */
  #kept: number | undefined
  /** Whether the first match is to be shown, which may be in lines that are still read. */
  #isFirstWanted = false
  #timer: ReturnType<typeof setTimeout> | undefined

  /** @param show brings a line into view */
  constructor(model: LogModel, show: (id: number) => void) {
    this.#model = model
    this.#show = show
  }

  close(): void {
    clearTimeout(this.#timer)
  }

  setQuery(query: string, isFirstWanted = true): void {
    clearTimeout(this.#timer)
    this.#isFirstWanted = isFirstWanted
    this.#timer = undefined
    this.position.value = 0
    this.search.value = query === '' ? undefined : new LogSearch(this.#model, query)
    this.searchOn()
  }

  /** After a change of the rows that were searched. */
  searchAgain(): void {
    const query = this.search.value?.query
    if (query === undefined) return
    this.#kept = this.line
    this.setQuery(query, this.#isFirstWanted)
  }

  /** Searches new rows, a slice at a time. */
  searchOn(): void {
    const search = this.search.value
    if (search === undefined || search.isDone || this.#timer !== undefined) return
    const end = performance.now() + SLICE_MS
    search.step(() => performance.now() > end)
    this.version.value += 1
    if (this.#kept !== undefined) this.position.value = search.positionFrom(this.#kept)
    if (this.#isFirstWanted && search.matches.length > 0) {
      this.#isFirstWanted = false
      this.step(0)
    }
    if (search.isDone) {
      if (this.#model.lines.count > 0) this.#isFirstWanted = false
      this.#kept = undefined
      return
    }
    this.#timer = setTimeout(() => {
      this.#timer = undefined
      this.searchOn()
    })
  }

  step(step: 0 | 1 | -1): void {
    const matches = this.search.value?.matches ?? []
    if (matches.length === 0) return
    this.position.value = (this.position.value + step + matches.length) % matches.length
    const id = matches[this.position.value]
    if (id !== undefined) this.#show(id)
  }

  /** The line of the current match. */
  get line(): number | undefined {
    return this.search.value?.matches[this.position.value]
  }
}

export type MatchRange = readonly [from: number, to: number]

/** Lines between two looks at the clock. */
const STRIDE = 2_000

/**
 * Searches the lines of a log, a slice at a time, so that the page answers meanwhile. New lines are searched when they
 * come.
 */
export class LogSearch {
  readonly query: string
  readonly #model: LogModel
  readonly #pattern: RegExp
  /** The lines with a match, oldest first. */
  readonly matches: number[] = []
  #nextId: number

  /** Upper case in the words makes their case count. */
  constructor(model: LogModel, query: string) {
    this.query = query
    this.#model = model
    this.#nextId = model.lines.firstId
    const text = query.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')
    this.#pattern = new RegExp(text, /\p{Lu}/u.test(query) ? 'gu' : 'giu')
  }

  get isDone(): boolean {
    return this.#nextId >= this.#model.lines.endId
  }

  /** Searches until all lines are done or the time is over. @param isOver asked now and then */
  step(isOver: () => boolean): void {
    const { lines } = this.#model
    while (!this.isDone) {
      const end = Math.min(lines.endId, this.#nextId + STRIDE)
      for (; this.#nextId < end; this.#nextId++) {
        const id = this.#nextId
        this.#pattern.lastIndex = 0
        if (this.#model.isSearched(id) && this.#pattern.test(plainText(lines.text(id)))) this.matches.push(id)
      }
      if (isOver()) return
    }
  }

  /** The matches within a text without colours. */
  rangesIn(text: string): readonly MatchRange[] {
    this.#pattern.lastIndex = 0
    return [...text.matchAll(this.#pattern)].map(({ 0: found, index }) => [index, index + found.length])
  }

  /** The position among the matches of the first match at or after a line. */
  positionFrom(id: number): number {
    const position = this.matches.findIndex((match) => match >= id)
    return position === -1 ? 0 : position
  }
}
