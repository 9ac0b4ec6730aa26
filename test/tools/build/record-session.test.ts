/** The recorder of terminal sessions, with commands that need no build. */
import { describe, expect, test } from '@jest/globals'
import { recordSession, type TerminalKind } from '../../../build/recording/record-session.ts'
import { AT_PROMPT, type RecordedSession } from '../../../build/recording/recorded-session.ts'
import { renumber, replaceChanging } from '../../../build/recording/replacements.ts'
import { isTmuxInstalled } from '../../../build/recording/tmux-terminal.ts'
import { describeIf } from '../../support/skips.ts'

const session: RecordedSession = {
  name: 'example',
  title: 'Two commands',
  columns: [20],
  replacements: [(text) => text.replaceAll('secret', 'public')],
  steps: [
    { types: 'echo a secret that is too long', until: AT_PROMPT, caption: 'a wrapped line' },
    // One job: between two, Ctrl-C would reach neither.
    { types: '(seq 3; sleep 60)', until: /^3$/m, caption: 'while it goes on' },
    { presses: 'Ctrl-C', until: AT_PROMPT },
  ],
}

const recording = `# Two commands, in a terminal of 20 columns

## a wrapped line

$ echo a public that
 is too long
a public that is too
 long
$

## while it goes on

$ (seq 3; sleep 60)
1
2
3
`

const tmuxReason = 'needs tmux'
const record = (kind: TerminalKind) => recordSession(session, 20, process.cwd(), kind)

describe('a session', () => {
  test('is recorded in the emulator', async () => expect(await record('emulated')).toBe(recording))
})

describeIf(isTmuxInstalled(), tmuxReason)('where tmux is installed', () => {
  test('is recorded in it, as the same text', async () => expect(await record('tmux')).toBe(recording))
})

test('a step that never ends fails with what the terminal shows', async () => {
  const endless = { ...session, steps: [{ types: 'echo hello', until: /never/, withinMs: 1_000 }] }
  await expect(recordSession(endless, 20, process.cwd())).rejects.toThrow(
    /did not show \/never\/ but:\n\$ echo/,
  )
})

describe('what differs each time', () => {
  test.each([
    [' 0.7s GREET-1  queued', ' 1.2s GREET-1  queued'],
    ['12.7s GREET-1  queued', ' 1.2s GREET-1  queued'],
    ['  build       done, 14.1s', '  build       done, 1.2s'],
    ['at http://127.0.0.1:45678/x', 'at http://127.0.0.1:40000/x'],
    [`attach run-${'a'.repeat(32)} x`, 'attach run-01a20393fd407b3c9e01a4d8f2c60b17 x'],
    ['version 0.1.0 of src/s.js', 'version 0.1.0 of src/s.js'],
  ])('%j is replaced', (text, replaced) => {
    expect(replaceChanging(text, [])).toBe(replaced)
  })

  test('numbers follow the order of the text', () => {
    expect(renumber(/greeter#(\d+)/)('greeter#12 greeter#3 greeter#12 other#12')).toBe(
      'greeter#1 greeter#2 greeter#1 other#12',
    )
  })
})
