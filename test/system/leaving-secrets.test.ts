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

const HARMLESS = ['write a.txt', '  a', 'remember the tests pass', 'say Done.']
const FOLLOW_UPS: typeof EXITS = [
  [
    'AGAIN-1',
    ['write b.txt', `  ${base64}`, 'say Done.'],
    /^the follow-up failed: the file b\.txt holds the agent’s/,
  ],
  ['AGAIN-2', [`say I used ${backwards}.`], /^the follow-up failed: the agent’s last message holds /],
]

test(
  'every exit is closed, of a follow-up too, and harmless runs are published beside them',
  async () => {
    const system = await LocalSystem.open({ local: true, concurrency: 3, agent: { agentAApiKey: KEY } })
    for (const [exit, script] of EXITS) system.writeTicket(exit, script)
    for (const [ticket] of FOLLOW_UPS) system.writeTicket(ticket, HARMLESS)
    for (const [exit, , error] of EXITS) {
      const run = await system.waitForEnd(exit)
      expect([exit, run.status, run.error]).toEqual([exit, 'failed', expect.stringMatching(error)])
      expect(run.error).toMatch(/so nothing was published; replace that credential, and try again$/)
      expect([run.prUrl, run.result?.artifacts]).toEqual([undefined, []])
      await expectNoKey(system, run)
    }
    for (const [ticket] of FOLLOW_UPS) await system.waitForStatus(ticket, 'completed')
    expect([system.branches('plain').length, system.pulls('plain').length]).toEqual([2, 2])
    await expectHarmlessFollowUps(system)
  },
  TEST_MS_MAX,
)

/** A follow-up's commits and its comment would both bring the key to the pull request of a harmless run. */
async function expectHarmlessFollowUps(system: LocalSystem): Promise<void> {
  const heads = () => system.branches('plain').map((branch) => system.git('plain', 'rev-parse', branch))
  const before = [heads(), JSON.stringify(system.pulls('plain'))]
  for (const [ticket, script, error] of FOLLOW_UPS) {
    const { id } = await system.waitForStatus(ticket, 'completed')
    const body = { instructions: ['```switchyard', ...script, '```'].join('\n') }
    expect(await system.host.request(`/api/runs/${id}/followup`, { method: 'POST', body })).toMatchObject({
      status: 200,
    })
    const ended = await system.waitForRun(ticket, 'refused', (run) => run.error !== undefined)
    expect(ended.error).toMatch(error)
  }
  expect([heads(), JSON.stringify(system.pulls('plain'))]).toEqual(before)
}

/** The ticket itself names the key here, so only what the run has added counts. */
async function expectNoKey(system: LocalSystem, run: Run): Promise<void> {
  const { ticket: _, ...added } = run
  const published = `${JSON.stringify(added)} ${(await system.events(run)).map((event) => JSON.stringify(event)).join()}`
  expect(published).not.toContain(KEY)
  expect(published).not.toContain(base64)
  expect(published).not.toContain(hex)
}
