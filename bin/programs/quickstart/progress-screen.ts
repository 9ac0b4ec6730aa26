/**
 * Shows the course of the example: steps, and one line for each run.
 *
 * On a terminal the lines are redrawn in place and cut at its width, so that no line wraps. Elsewhere each change is a
 * line of its own, whole.
 */

import { mayRedraw } from '../../output/progress-line.ts'
import { createGlyphs } from '../../output/styled-stream.ts'
import { truncateEnd } from '../../output/text-width.ts'

export interface ScreenOutput {
  readonly isTTY?: boolean
  readonly columns?: number
  readonly rows?: number
  write(text: string): unknown
}

const COLUMNS_DEFAULT = 80
const ROWS_DEFAULT = 24
const TICK_MS = 250
const ERASE_TO_END = '\x1b[J'

export class ProgressScreen {
  readonly #out: ScreenOutput
  readonly #isRedrawn: boolean
  readonly #ellipsis: string
  /** The lines that the next drawing replaces, by key. */
  readonly #lines = new Map<string, string>()
  #drawnLines = 0
  #stopTicking: () => void = () => {}

  constructor(out: ScreenOutput, env: NodeJS.ProcessEnv) {
    this.#out = out
    this.#ellipsis = createGlyphs(env, process.platform).ellipsis
    this.#isRedrawn = mayRedraw(out, env)
  }

  /** The width at which lines are cut; undefined when they stay whole. A terminal that does not know its size reports 0. */
  get width(): number | undefined {
    return this.#out.isTTY === true ? this.#out.columns || COLUMNS_DEFAULT : undefined
  }

  /** Prints text that stays. Cut lines before they are coloured (`truncate`). */
  print(text: string): void {
    this.settle()
    this.#out.write(`${text}\n`)
  }

  truncate(text: string): string {
    return this.width === undefined ? text : truncateEnd(text, this.width, this.#ellipsis)
  }

  /** Says that a step goes on, with its seconds on a terminal. Returns the function that prints its end. */
  beginStep(name: string): (result: string) => void {
    const began = performance.now()
    const seconds = () => ((performance.now() - began) / 1000).toFixed(1)
    const draw = () => this.update(name, stepLine(name, `${seconds()}s`))
    if (this.#isRedrawn) {
      draw()
      const timer = setInterval(draw, TICK_MS)
      this.#stopTicking = () => clearInterval(timer)
    }
    return (result) => {
      this.#stopTicking()
      if (this.#isRedrawn) this.#lines.set(name, this.truncate(stepLine(name, `${result}, ${seconds()}s`)))
      else this.print(stepLine(name, `${result}, ${seconds()}s`))
      this.settle()
    }
  }

  printStep(name: string, text: string): void {
    this.print(this.truncate(stepLine(name, text)))
  }

  /** Sets the line of `key`: in place on a terminal, below the others elsewhere. */
  update(key: string, line: string): void {
    this.#lines.set(key, this.truncate(line))
    if (!this.#isRedrawn || this.#lines.size >= (this.#out.rows || ROWS_DEFAULT)) {
      this.#out.write(`${this.truncate(line)}\n`)
      this.#drawnLines = 0
    } else this.#draw()
  }

  /** Ends redrawing: what is drawn stays, and the next text follows below. */
  settle(): void {
    this.#stopTicking()
    if (this.#isRedrawn && this.#drawnLines > 0) this.#draw()
    this.#lines.clear()
    this.#drawnLines = 0
  }

  #draw(): void {
    const up = this.#drawnLines === 0 ? '' : `\x1b[${this.#drawnLines}A`
    this.#out.write(`${up}\r${ERASE_TO_END}${[...this.#lines.values()].join('\n')}\n`)
    this.#drawnLines = this.#lines.size
  }
}

/** The column of a step's text. */
const NAME_COLUMNS = 11

const stepLine = (name: string, text: string): string => `  ${name.padEnd(NAME_COLUMNS)} ${text}`
