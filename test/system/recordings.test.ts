/**
 * The sessions of docs/recordings, played in real terminals: what the pages show is what a person sees.
 *
 * `npm run test:update -- test/system/recordings` or `npm run record` rewrites the recordings.
 */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from '@jest/globals'
import { recordingPath, recordSession, usualTerminal } from '../../build/recording/record-session.ts'
import { SESSIONS } from '../../build/recording/sessions.ts'

const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))))
const isUpdating = process.env.UPDATE_EXPECTATIONS === '1'
// Every terminal shows the same, so each session is played once in tmux, where it is installed.
const recordings = SESSIONS.flatMap((session) =>
  session.columns.map((columns, at) => ({
    session,
    columns,
    name: session.name,
    terminal: at === 0 ? usualTerminal() : ('emulated' as const),
  })),
)

test.each(recordings)(
  '$name at $columns columns',
  async ({ session, columns, terminal }) => {
    const path = recordingPath(root, session, columns)
    const recording = await recordSession(session, columns, root, terminal)
    if (isUpdating) {
      if (process.env.CI === 'true') throw new Error('recordings are not rewritten in CI')
      mkdirSync(dirname(path), { recursive: true })
      writeFileSync(path, recording)
    }
    expect(recording.split('\n')).toEqual(readFileSync(path, 'utf8').split('\n'))
  },
  300_000,
)

test('every recording belongs to a session', () => {
  const known = recordings.map(({ session, columns }) => basename(recordingPath(root, session, columns)))
  expect(readdirSync(join(root, 'docs/recordings')).sort()).toEqual(known.sort())
})
