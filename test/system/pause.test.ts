/** A real host is paused from its first moment: what would run is seen before anything is dispatched. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { expect, test } from '@jest/globals'
import type { ServiceConfig } from '../../protocol/config.ts'
import type { RunEvent } from '../../protocol/run.ts'
import { LocalSystem } from '../support/local-system.ts'

const TEST_MS_MAX = 300_000
/** Longer than three polls of the tracker. */
const QUIET_MS = 3_500
const NAMES = ['ENG-1', 'ENG-2']

const statusesOf = (events: readonly RunEvent[]): string[] =>
  events.flatMap((event) => (event.type === 'status' ? event.to : []))

test(
  'tickets are queued with the reason, also after a restart, and run once the host is resumed',
  async () => {
    const system = await LocalSystem.open({ policy: { paused: true }, tracker: { startedState: 'Doing' } })
    for (const name of NAMES) system.writeTicket(name, ['write hello.txt', '  Hello!', 'commit Say hello'])
    await system.pairWorker()
    await expectQueued(system)
    expect(await system.host.request('/api/pause', { method: 'POST' })).toMatchObject({
      status: 200,
      body: { paused: true },
    })
    system.host.process.kill('SIGTERM')
    await system.host.exit
    await system.startHost()
    await system.waitForOnlineWorkers(1)
    await expectQueued(system)
    expect(await system.host.request('/api/resume', { method: 'POST' })).toMatchObject({
      status: 200,
      body: { paused: false },
    })
    const stored = JSON.parse(readFileSync(join(system.dataDir, 'config.json'), 'utf8')) as ServiceConfig
    expect(stored.policy).toEqual({ paused: false })
    for (const name of NAMES) {
      const run = await system.waitForEnd(name)
      expect([run.status, run.queueReason]).toEqual(['completed', undefined])
    }
  },
  TEST_MS_MAX,
)

/** Both tickets have a queued run with the reason, and nothing was dispatched. */
async function expectQueued(system: LocalSystem): Promise<void> {
  for (const name of NAMES)
    await system.waitForRun(name, 'paused', ({ queueReason }) => queueReason === 'paused')
  await pause(QUIET_MS)
  expect((await system.host.request('/api/tracker/status')).body).toMatchObject({
    state: 'connected',
    lastPollAt: expect.any(String),
    seen: NAMES.length,
    eligible: NAMES.length,
  })
  for (const name of NAMES) {
    const run = await system.waitForStatus(name, 'queued')
    expect([run.queueReason, statusesOf(await system.events(run))]).toEqual(['paused', ['queued']])
    expect(readFileSync(join(system.tickets, `${name}.md`), 'utf8')).toContain('state: Todo')
  }
}
