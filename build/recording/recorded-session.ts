/** The types of a recorded session: the lines that a person types, and when the screen is recorded. */
import type { Replacement } from './replacements.ts'

export interface RecordedStep {
  /** A line to type at the prompt. A step without `types` and `presses` only waits. */
  readonly types?: string
  readonly presses?: 'Ctrl-C'
  /**
   * Ends the step: it matches what the terminal shows since the last typed line, that line included. A terminal may
   * show a part of a line for a moment, so it matches whole lines.
   */
  readonly until: RegExp
  /** Records what the terminal then shows since the last typed line, under this caption. */
  readonly caption?: string
  readonly withinMs?: number
  readonly replacements?: readonly Replacement[]
}

export interface RecordedSession {
  /** The name of its files. */
  readonly name: string
  readonly title: string
  readonly columns: readonly number[]
  /** Played first, in another terminal of the same checkout; what it started last is interrupted at the end. */
  readonly beside?: readonly RecordedStep[]
  readonly steps: readonly RecordedStep[]
  /** Replaces what differs from time to time, beyond what `replacements.ts` replaces everywhere. */
  readonly replacements: readonly Replacement[]
}

/** The shell waits for the next line. */
export const AT_PROMPT = /(^|\n)\$$/
