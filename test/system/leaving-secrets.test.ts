/**
 * An agent that has its own key tries every exit of its sandbox with it: a real host, worker, sandbox and git. Each
 * run fails with the name of the place, and neither the code host nor the run's record receives the key.
 */
import { expect, test } from '@jest/globals'
import type { Run } from '../../protocol/run.ts'
import { LocalSystem } from '../support/local-system.ts'

const TEST_MS_MAX = 300_000
const KEY = 'sk-ant-api03-Zx9qLmT7vB2nR5wK8dJ4sH1fGc6YpE3u'
const base64 = Buffer.from(`key=${KEY}`).toString('base64')
const backwards = [...KEY].reverse().join('')
const hex = Buffer.from(KEY).toString('hex')

const EXITS: readonly (readonly [exit: string, script: readonly string[], error: RegExp])[] = [
  [
    'COMMIT',
    ['write src/a.txt', `  ${base64}`, 'commit Add a', 'say Done.'],
    /^the file src\/a\.txt holds the agent’s/,
  ],
  [
    'MESSAGE',
    ['write a.txt', '  a', `commit See ${base64}`, 'say Done.'],
    /^the message of commit [0-9a-f]{12} holds /,
  ],
  ['NAME', [`run echo a > ${hex}`, 'say Done.'], /^the name of a file holds /],
  [
    'ARTIFACT',
    ['write a.txt', '  a', 'artifact report.txt', `  ${hex}`, 'say Done.'],
    /^the artifact report\.txt holds /,
  ],
  [
    'PACKED',
    [`run echo ${hex} | gzip > "$SWITCHYARD_ARTIFACTS/log.gz"`, 'say Done.'],
    /^the artifact log\.gz holds /,
  ],
  ['MEMORY', ['write a.txt', '  a', `remember the key is ${base64}`, 'say Done.'], /^a memory holds /],
  ['TEXT', ['write a.txt', '  a', `say I used ${backwards}.`], /^the agent’s last message holds /],
]

test(
  'every exit is closed, and a harmless run is published beside them',
  async () => {
    const system = await LocalSystem.open({ local: true, concurrency: 3, agent: { agentAApiKey: KEY } })
    for (const [exit, script] of EXITS) system.writeTicket(exit, script)
    system.writeTicket('HARMLESS', ['write a.txt', '  a', 'remember the tests pass', 'say Done.'])
    for (const [exit, , error] of EXITS) {
      const run = await system.waitForEnd(exit)
      expect([exit, run.status, run.error]).toEqual([exit, 'failed', expect.stringMatching(error)])
      expect(run.error).toMatch(/so nothing was published; replace that credential, and try again$/)
      expect([run.prUrl, run.result?.artifacts]).toEqual([undefined, []])
      await expectNoKey(system, run)
    }
    expect((await system.waitForEnd('HARMLESS')).status).toBe('completed')
    expect(system.branches('plain').length).toBe(1)
    expect(system.pulls('plain').length).toBe(1)
  },
  TEST_MS_MAX,
)

/** The ticket itself names the key here, so only what the run has added counts. */
async function expectNoKey(system: LocalSystem, run: Run): Promise<void> {
  const { ticket: _, ...added } = run
  const published = `${JSON.stringify(added)} ${(await system.events(run)).map((event) => JSON.stringify(event)).join()}`
  expect(published).not.toContain(KEY)
  expect(published).not.toContain(base64)
  expect(published).not.toContain(hex)
}
