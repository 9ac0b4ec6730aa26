/**
 * Lists the terminal sessions that docs/recordings shows: which lines a person types, and when the screen is recorded.
 *
 * A session starts in a fresh checkout, at the prompt of a shell. It stays valid while the words it waits for are
 * printed; everything else on the screen is recorded, not stated here.
 */
import { type Replacement, renumber } from './replacements.ts'

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
  readonly steps: readonly RecordedStep[]
  /** Replaces what differs from time to time, beyond what `replacements.ts` replaces everywhere. */
  readonly replacements: readonly Replacement[]
}

/** The shell waits for the next line. */
export const AT_PROMPT = /(^|\n)\$$/

const EXAMPLE_TICKETS = 3
const EXAMPLE_RUN = String.raw`^ *\d+\.\ds GREET-\d +`
const EXAMPLE_RUN_STATE = new RegExp(`(${EXAMPLE_RUN}).*$`, 'gm')

export const SESSIONS: readonly RecordedSession[] = [
  {
    name: 'quickstart',
    title: 'npm start in a fresh checkout',
    columns: [60, 120],
    replacements: [renumber(/greeter#(\d+)/), renumber(/pulls\/example\/(\d+)/)],
    steps: [
      {
        types: 'npm start',
        until: new RegExp(`(${EXAMPLE_RUN}[^]*){${EXAMPLE_TICKETS}}`, 'm'),
        caption: 'while the three runs go on',
        // Each run may be in any state at this moment.
        replacements: [(text) => text.replace(EXAMPLE_RUN_STATE, '$1running')],
      },
      { until: /^Everything lies in \.data$/m, caption: 'when the pull requests are open' },
      { presses: 'Ctrl-C', until: AT_PROMPT },
    ],
  },
]
