/**
 * Lists the terminal sessions that docs/recordings shows: which lines a person types, and when the screen is recorded.
 *
 * A session starts in a fresh checkout, at the prompt of a shell. It stays valid while the words it waits for are
 * printed; everything else on the screen is recorded, not stated here.
 */
import { FIRST_SESSION } from './first-session.ts'
import { AT_PROMPT, type RecordedSession } from './recorded-session.ts'
import { renumber } from './replacements.ts'

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
  FIRST_SESSION,
]
