/**
 * Trace records everything that happens as lines: hashed, to compare two runs of a seed, and with the last lines
 * kept for a report. Recording costs a tenth of a seed's time, so most seeds run without it.
 */
import { createHash } from 'node:crypto'
import { clockText } from './plan.ts'

const HASHED_AT_ONCE = 512

export class Trace {
  readonly #hash = createHash('sha256')
  readonly #keepMax: number
  #unhashed: string[] = []
  /** Hashed lines, in groups: the first group may be older than what is kept. */
  #recentGroups: (readonly string[])[] = []

  /** @param keep how many of the last lines to keep; 0: record nothing */
  constructor(keep: number) {
    this.#keepMax = keep
  }

  add(at: number, text: string): void {
    if (this.#keepMax === 0) return
    this.#unhashed.push(`${at} ${text}`)
    if (this.#unhashed.length >= HASHED_AT_ONCE) this.#flush()
  }

  digest(): string {
    this.#flush()
    return this.#hash.copy().digest('hex').slice(0, 16)
  }

  /** The last lines for people. `about`: only lines that contain one of these texts. */
  recent(about: readonly string[] = []): string[] {
    this.#flush()
    const lines = this.#recentGroups
      .flat()
      .slice(-this.#keepMax)
      .map((text) => {
        const space = text.indexOf(' ')
        return `${clockText(Number(text.slice(0, space)))} ${text.slice(space + 1)}`
      })
    return about.length === 0 ? lines : lines.filter((text) => about.some((word) => text.includes(word)))
  }

  #flush(): void {
    if (this.#unhashed.length === 0) return
    this.#hash.update(this.#unhashed.join('\n'))
    this.#recentGroups.push(this.#unhashed)
    this.#unhashed = []
    // Calls of `recent` may have left groups that are not full, so the sizes are added.
    let kept = this.#recentGroups.reduce((sum, { length }) => sum + length, 0)
    for (let first = this.#recentGroups[0]; first !== undefined; first = this.#recentGroups[0]) {
      kept -= first.length
      if (kept < this.#keepMax) break
      this.#recentGroups.shift()
    }
  }
}
