/** `switchyard worker drain` of a worker's own machine, and an operator's `workers drain`, with real processes. */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import type { FleetResponse, WorkerView } from '../../protocol/worker.ts'
import { runCommand } from '../support/command-process.ts'
import { GATE, LocalSystem } from '../support/local-system.ts'
import { until } from '../support/until.ts'

async function onlyWorker(system: LocalSystem): Promise<WorkerView | undefined> {
  const { body } = await system.host.request('/api/workers')
  return (body as FleetResponse).workers[0]
}

test('an operator’s drain waits until the last lease has ended', async () => {
  const system = await LocalSystem.open()
  await system.pairWorker()
  system.writeTicket('ENG-1', [`run ${GATE}`])
  const run = await system.waitForStatus('ENG-1', 'running')
  await system.waitForGate(run)
  const { id = '' } = (await onlyWorker(system)) ?? {}
  const drain = runCommand([
    'workers',
    'drain',
    id,
    '--wait',
    '--timeout',
    '60s',
    '--data-dir',
    system.dataDir,
  ])
  await until('it shows what is left', () => drain.err().includes('1 left: ENG-1 running'))
  system.openGates(run)
  expect([await drain.exit, drain.out()]).toEqual([0, expect.stringMatching(/ is empty after /)])
  expect((await system.waitForEnd('ENG-1')).status).toBe('completed')
  expect(await onlyWorker(system)).toMatchObject({ state: 'draining', activeRuns: 0 })
}, 120_000)

test('waits for runs, survives Ctrl-C and a timeout, and ends when the worker starts again', async () => {
  const system = await LocalSystem.open()
  const worker = await system.pairWorker()
  const drain = (...args: readonly string[]) =>
    runCommand(['worker', 'drain', '--data-dir', worker.dataDir, ...args])
  system.writeTicket('ENG-1', [`run ${GATE}`])
  const run = await system.waitForStatus('ENG-1', 'running')
  await system.waitForGate(run)

  const interrupted = drain('--wait')
  await until('it shows what is left', () => interrupted.err().includes('1 run and 0 terminals left'))
  interrupted.process.kill('SIGINT')
  expect(await interrupted.exit).toBe(130)
  expect(interrupted.err()).toContain('Stopped watching')
  expect(await onlyWorker(system)).toMatchObject({ state: 'draining', drainedBy: ['worker'] })

  const late = drain('--wait', '--timeout', '1s')
  expect(await late.exit).toBe(1)
  expect(late.err()).toContain('1 run and 0 terminals left; its drain goes on')

  const waiting = drain('--wait')
  await until('it waits', () => waiting.err().includes('1 run and 0 terminals left'))
  system.host.process.kill('SIGKILL')
  await system.host.exit
  await until('it asks on', () => waiting.err().includes('The host does not answer'))
  await system.startHost()
  await system.waitForOnlineWorkers(1)
  system.openGates(run)
  expect([await waiting.exit, waiting.out()]).toEqual([
    0,
    expect.stringMatching(/^This worker is empty after /),
  ])
  expect((await system.waitForEnd('ENG-1')).status).toBe('completed')

  worker.process.kill('SIGTERM')
  expect(await worker.exit).toBe(0)
  const asleep = drain('--wait')
  expect(await asleep.exit).toBe(0)
  system.startWorker(worker.dataDir)
  await until('the worker takes runs again', async () => (await onlyWorker(system))?.state === 'active')
  await until('the note is gone', () => !existsSync(join(worker.dataDir, 'drained.json')))
}, 120_000)
