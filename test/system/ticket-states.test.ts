/** Real hosts and workers move tickets: back when their run leaves nothing, and onward when their pull request is merged. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { expect, test } from '@jest/globals'
import type { Run } from '../../protocol/run.ts'
import { SYSTEM_WAIT_MS_MAX } from '../support/dashboard-client.ts'
import { GATE, LocalSystem } from '../support/local-system.ts'
import { connectByDevice } from '../support/oauth-consent.ts'
import { OWNER, ProviderSystem } from '../support/system-with-providers.ts'
import { until } from '../support/until.ts'

const TEST_MS_MAX = 300_000
/** Longer than three polls of the tracker. */
const QUIET_MS = 3_500
const STATES = { startedState: 'Doing', reviewState: 'Review', doneState: 'Done' } as const
const WORK = ['write hello.txt', '  Hello!', 'commit Say hello']

function story(title: string, body: () => Promise<void>): void {
  test(title, body, TEST_MS_MAX)
}

story('a failed, a cancelled and an idle run put their tickets back, and start none again', async () => {
  const system = await LocalSystem.open({ local: true, tracker: STATES })
  await system.waitForOnlineWorkers(1)
  const stateOf = (name: string) => {
    const text = readFileSync(join(system.tickets, `${name}.md`), 'utf8')
    return /^state: (.*)$/m.exec(text)?.[1]
  }
  const names = ['FAIL-1', 'STOP-1', 'IDLE-1']
  system.writeTicket('FAIL-1', ['fail it broke'])
  system.writeTicket('IDLE-1', ['say There is nothing to do.'])
  system.writeTicket('STOP-1', [`run ${GATE}`])
  await until('STOP-1 is started', () => stateOf('STOP-1') === 'Doing', SYSTEM_WAIT_MS_MAX)
  const running = await system.waitForStatus('STOP-1', 'running')
  await system.host.request(`/api/runs/${running.id}/cancel`, { method: 'POST' })
  const ends = []
  for (const name of names) ends.push((await system.waitForEnd(name)).status)
  expect(ends).toEqual(['failed', 'cancelled', 'completed'])
  const areBack = () => names.every((name) => stateOf(name) === 'Todo')
  await until('all tickets are back', areBack, SYSTEM_WAIT_MS_MAX)
  await pause(QUIET_MS)
  expect((await system.host.request('/api/runs')).body).toHaveLength(names.length)
  expect(names.map(stateOf)).toEqual(['Todo', 'Todo', 'Todo'])
})

story('the pull request of an issue closes it, and the merge takes its state label away', async () => {
  const system = await ProviderSystem.open({
    tracker: { driver: 'github', ...STATES },
  })
  const { github } = system
  const confirm = ['tracker.apiUrl']
  await system.send('PUT', '/api/settings', { patch: { tracker: { apiUrl: null } }, confirm })
  await connectByDevice(system)
  const body = ['Please.', '```switchyard', ...WORK, '```', ''].join('\n')
  const issue = github.addIssue('acme/app', { title: 'Say hello', body, author: OWNER, labels: ['Todo'] })
  const findRun = async () =>
    (await system.get<readonly Run[]>('/api/runs')).find(({ ticket }) => ticket.id === 'acme/app#1')
  await until(
    'the run is completed',
    async () => (await findRun())?.status === 'completed',
    SYSTEM_WAIT_MS_MAX,
  )
  await until('the issue is in review', () => issue.labels.includes('Review'), SYSTEM_WAIT_MS_MAX)
  expect(github.pull('acme/app', 2).body).toContain('\n\nCloses #1\n\n')
  const merged = await system.send('POST', '/api/pulls/app/2/merge', { method: 'squash' })
  expect(merged.body).toMatchObject({ merged: true })
  await until('the issue is closed', () => issue.state === 'closed', SYSTEM_WAIT_MS_MAX)
  await until('its labels are gone', () => issue.labels.length === 0, SYSTEM_WAIT_MS_MAX)
})
