/**
 * Searches the rows of a log, a slice at a time, so that the page answers meanwhile. New rows are searched when they
 * come.
 */
import { plainText } from './clean-text.ts'
import type { LogModel } from './log-model.ts'

export type MatchRange = readonly [from: number, to: number]

/** Rows between two looks at the clock. */
const STRIDE = 2_000

export class LogSearch {
  readonly query: string
  readonly #model: LogModel
  readonly #pattern: RegExp
  /** The lines with a match, oldest first. */
  readonly matches: number[] = []
  #nextRow = 0

  /** Upper case in the words makes their case count. */
  constructor(model: LogModel, query: string) {
    this.query = query
    this.#model = model
    const text = query.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')
    this.#pattern = new RegExp(text, /\p{Lu}/u.test(query) ? 'gu' : 'giu')
  }

  get isDone(): boolean {
    return this.#nextRow >= this.#model.rowCount
  }

  /** The rows that were searched, for a share. */
  get searched(): number {
    return this.#nextRow
  }

  /** Searches until all rows are done or the time is over. @param isOver asked now and then */
  step(isOver: () => boolean): void {
    const { rowCount, lines } = this.#model
    while (this.#nextRow < rowCount) {
      const end = Math.min(rowCount, this.#nextRow + STRIDE)
      for (; this.#nextRow < end; this.#nextRow++) {
        const id = this.#model.lineOf(this.#nextRow)
        this.#pattern.lastIndex = 0
        if (this.#pattern.test(plainText(lines.text(id)))) this.matches.push(id)
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
