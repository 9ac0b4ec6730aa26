/** A real host is paused from its first moment: what would run is seen before anything is dispatched. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { expect, test } from '@jest/globals'
import type { ServiceConfig } from '../../protocol/config.ts'
import type { RunEvent } from '../../protocol/run.ts'
import { runCommand } from '../support/command-process.ts'
import { GATE, LocalSystem } from '../support/local-system.ts'
import { until } from '../support/until.ts'

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

test(
  'pause --wait returns when the last run has ended, and nothing was dispatched meanwhile',
  async () => {
    const system = await LocalSystem.open({ concurrency: 1 })
    await system.pairWorker()
    system.writeTicket('ENG-1', [`run ${GATE}`, 'write hello.txt', '  Hello!', 'commit Say hello'])
    const run = await system.waitForStatus('ENG-1', 'running')
    await system.waitForGate(run)
    const early = runCommand(['pause', '--wait', '--timeout', '1s', '--data-dir', system.dataDir])
    expect([await early.exit, early.err()]).toEqual([1, expect.stringMatching(/1 left: ENG-1 running/)])
    const waiting = runCommand(['pause', '--wait', '--data-dir', system.dataDir])
    await until('it waits', () => /1 left: ENG-1 running/.test(waiting.err()))
    system.writeTicket('ENG-2', ['write hello.txt', '  Hello!', 'commit Say hello'])
    system.openGates(run)
    expect([await waiting.exit, waiting.out()]).toEqual([0, expect.stringMatching(/nothing runs any more/)])
    expect((await system.findRun('ENG-1'))?.status).toBe('completed')
    const held = await system.waitForRun('ENG-2', 'paused', ({ queueReason }) => queueReason === 'paused')
    expect(held.status).toBe('queued')
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
