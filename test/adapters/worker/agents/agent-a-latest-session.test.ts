/** Tests that a returning person continues the session used last. */
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import { findLatestSession } from '../../../../worker/agents/agent-a/agent-a.ts'
import { openAgentFiles } from '../../../../worker/agents/agent-files.ts'
import { tempFolder } from '../../../support/temp-folder.ts'

const id = (digit: string): string => `${digit.repeat(8)}-1111-4222-8333-444455556666`
const [OWN, SECOND, THIRD] = [id('a'), id('b'), id('c')]

const minute = (at: number): string => new Date(Date.UTC(2026, 2, 1, 10, at)).toISOString()

/** An answer at that minute in a headless session, unless `changes` say otherwise. */
const answer = (at: number, changes: object = {}): object => ({
  type: 'assistant',
  timestamp: minute(at),
  isSidechain: false,
  entrypoint: 'sdk-cli',
  message: { id: `msg_${at}`, model: 'claude-sonnet-4-5', usage: {} },
  ...changes,
})
const terminalAnswer = (at: number, changes: object = {}): object =>
  answer(at, { entrypoint: 'cli', ...changes })

type Sessions = Readonly<Record<string, readonly unknown[]>>

function homeWith(sessions: Sessions, project = '-work'): string {
  const home = tempFolder()
  for (const [name, lines] of Object.entries(sessions)) {
    const path = join(home, '.claude', 'projects', project, `${name}.jsonl`)
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(path, lines.map((line) => `${JSON.stringify(line)}\n`).join(''))
  }
  return home
}

const latestOf = (sessions: Sessions, own = OWN): Promise<string> =>
  findLatestSession(openAgentFiles(homeWith(sessions)), own)

const worked = { [OWN]: [answer(1), answer(2)] }

describe('the latest session', () => {
  test('is the run’s own when no other session exists', async () => {
    expect(await latestOf(worked)).toBe(OWN)
    expect(await latestOf({})).toBe(OWN)
    expect(await latestOf({ [SECOND]: [terminalAnswer(5)] })).toBe(OWN)
    expect(await findLatestSession(openAgentFiles('/nowhere/at/all'), OWN)).toBe(OWN)
  })

  test('is the one with the latest answer', async () => {
    const cleared = { ...worked, [SECOND]: [terminalAnswer(3)] }
    expect(await latestOf(cleared)).toBe(SECOND)
    expect(await latestOf({ ...cleared, [THIRD]: [terminalAnswer(4)] })).toBe(THIRD)
    // The person returned to it, or a follow-up continued it.
    expect(await latestOf({ ...cleared, [OWN]: [answer(1), terminalAnswer(5)] })).toBe(OWN)
    expect(await latestOf({ ...cleared, [OWN]: [answer(1), answer(5)] })).toBe(OWN)
    expect(await latestOf({ ...cleared, [THIRD]: [terminalAnswer(2)] })).toBe(SECOND)
  })

  const silent: readonly (readonly [string, readonly unknown[]])[] = [
    ['in which nothing was answered', [{ ...terminalAnswer(9), type: 'user' }]],
    ['that an agent began for its work', [answer(9)]],
    ['that is a nested agent’s', [terminalAnswer(9, { isSidechain: true })]],
    ['that is only a copy', [terminalAnswer(9, { forkedFrom: { sessionId: OWN } })]],
    ['in which only a failure was reported', [terminalAnswer(9, { message: { model: '<synthetic>' } })]],
    [
      'that does not say when',
      [terminalAnswer(9, { timestamp: 'soon' }), terminalAnswer(9, { timestamp: 7 })],
    ],
    ['that is no such file', ['assistant', null, ['assistant'], { type: 'assistant' }]],
    ['with nothing in it', []],
  ]
  test.each(silent)('is not a session %s', async (_, lines) => {
    expect(await latestOf({ ...worked, [SECOND]: lines })).toBe(OWN)
  })

  test('is a branch as soon as it has an answer', async () => {
    const branch = [terminalAnswer(3, { forkedFrom: { sessionId: SECOND } }), terminalAnswer(4)]
    expect(await latestOf({ ...worked, [SECOND]: [terminalAnswer(3)], [THIRD]: branch })).toBe(THIRD)
  })

  test('has a session id as its name, and is a regular file', async () => {
    const strange = {
      '--resume': [terminalAnswer(9)],
      [`-${SECOND}`]: [terminalAnswer(9)],
      'x y': [terminalAnswer(9)],
      notes: [terminalAnswer(9)],
    }
    expect(await latestOf({ ...worked, ...strange })).toBe(OWN)
    const home = homeWith(worked)
    const elsewhere = join(
      homeWith({ [SECOND]: [terminalAnswer(9)] }),
      '.claude/projects/-work',
      `${SECOND}.jsonl`,
    )
    symlinkSync(elsewhere, join(home, '.claude/projects/-work', `${SECOND}.jsonl`))
    expect(await findLatestSession(openAgentFiles(home), OWN)).toBe(OWN)
  })

  test('is searched only in the project folder of the run’s own', async () => {
    const home = homeWith(worked)
    const folder = join(home, '.claude', 'projects', '-elsewhere')
    mkdirSync(folder)
    writeFileSync(join(folder, `${SECOND}.jsonl`), `${JSON.stringify(terminalAnswer(9))}\n`)
    expect(await findLatestSession(openAgentFiles(home), OWN)).toBe(OWN)
  })
})
