/**
 * Searches the lines of a log, a slice at a time, so that the page answers meanwhile. New lines are searched when they
 * come.
 */
import { plainText } from './clean-text.ts'
import type { LogModel } from './log-model.ts'

export type MatchRange = readonly [from: number, to: number]

/** Lines between two looks at the clock. */
const STRIDE = 2_000

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
