/**
 * Shows the step that a command waits for: a line on standard error that is redrawn in place and gone when it is over.
 *
 * The line appears after 400 ms and is redrawn at most four times a second. Without a terminal only the lines of
 * finished steps are printed, and nothing when notes are off.
 */
import type { Cancel } from '../../core/ports/clock.ts'
import type { StreamFacts } from './colors.ts'
import type { Output } from './output.ts'
import { formatAge } from './times.ts'

export interface ProgressClock {
  monotonic(): number
  after(ms: number, run: () => void): Cancel
}

const SHOWN_AFTER_MS = 400
const REDRAW_MS = 250
const ERASE_LINE = '\r\x1b[K'

/** A stream in which a line may be drawn again: a terminal that can move its cursor, and no log of a build. */
export const mayRedraw = (stream: StreamFacts, env: NodeJS.ProcessEnv): boolean =>
  stream.isTTY === true && env.TERM !== 'dumb' && (env.CI ?? '') === ''

interface Step {
  readonly name: string
  readonly began: number
  what: string
}

export class ProgressLine {
  readonly #output: Output
  readonly #clock: ProgressClock
  readonly #isRedrawn: boolean
  #step: Step | undefined
  #isDrawn = false
  #cancel: Cancel = () => {}

  constructor(output: Output, env: NodeJS.ProcessEnv, clock: ProgressClock = processClock) {
    this.#output = output
    this.#clock = clock
    this.#isRedrawn = output.hasNotes && mayRedraw({ isTTY: output.stderr.isTerminal }, env)
    output.onErase(() => this.#erase())
  }

  /** Begins a step, like `3/6 copy`; the step before it is gone. */
  begin(name: string, what = ''): void {
    this.finish()
    this.#step = { name, what, began: this.#clock.monotonic() }
    if (this.#isRedrawn) this.#cancel = this.#clock.after(SHOWN_AFTER_MS, () => this.#draw())
  }

  /** Sets what is done, like `12 of 21 MiB`; the next redraw shows it. */
  update(what: string): void {
    if (this.#step !== undefined) this.#step.what = what
  }

  /** Ends the step. The line that stays is printed where notes are. */
  finish(line?: string): void {
    this.#cancel()
    this.#erase()
    this.#step = undefined
    if (line !== undefined && this.#output.hasNotes) this.#output.writeError(`${line}\n`)
  }

  #draw(): void {
    if (this.#step === undefined) return
    const { name, what, began } = this.#step
    const { stderr } = this.#output
    const parts = [name, what, formatAge(this.#clock.monotonic() - began)].filter((part) => part !== '')
    // A text in the last column would wrap on some terminals.
    const text = stderr.truncate(stderr.clean(parts.join('  ')), stderr.width - 1)
    this.#output.writeError(stderr.colors.dim(text))
    this.#isDrawn = true
    this.#cancel = this.#clock.after(REDRAW_MS, () => this.#draw())
  }

  #erase(): void {
    if (!this.#isDrawn) return
    this.#isDrawn = false
    this.#output.writeError(ERASE_LINE)
  }
}

const processClock: ProgressClock = {
  monotonic: () => performance.now(),
  after(ms, run) {
    const timer = setTimeout(run, ms)
    // A drawing keeps no command alive.
    timer.unref()
    return () => clearTimeout(timer)
  },
}
