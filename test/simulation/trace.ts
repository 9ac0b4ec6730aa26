/**
 * Everything that happens, as lines: hashed, so that two tellings of one seed can be compared, and the last of them
 * kept, so that a broken law comes with its story.
 */
import { createHash } from 'node:crypto'
import { clockText } from './plan.ts'

const HASHED_AT_ONCE = 512

export class Trace {
  readonly #hash = createHash('sha256')
  readonly #keep: number
  #fresh: string[] = []
  #kept: string[] = []

  /** @param keep how many of the last lines to remember */
  constructor(keep: number) {
    this.#keep = keep
  }

  add(at: number, line: string): void {
    this.#fresh.push(`${at} ${line}`)
    if (this.#fresh.length >= HASHED_AT_ONCE) this.#flush()
  }

  digest(): string {
    this.#flush()
    return this.#hash.copy().digest('hex').slice(0, 16)
  }

  /** The last lines, for people. `about`: only those that hold one of these. */
  story(about: readonly string[] = []): string[] {
    this.#flush()
    const lines = this.#kept.map((line) => {
      const space = line.indexOf(' ')
      return `${clockText(Number(line.slice(0, space)))} ${line.slice(space + 1)}`
    })
    return about.length === 0 ? lines : lines.filter((line) => about.some((word) => line.includes(word)))
  }

  #flush(): void {
    if (this.#fresh.length === 0) return
    this.#hash.update(this.#fresh.join('\n'))
    this.#kept = [...this.#kept, ...this.#fresh].slice(-this.#keep)
    this.#fresh = []
  }
}
