/**
 * Workers that end by themselves: real processes with real sandboxes, of which one is killed. Every ticket ends with one
 * pull request, and each worker takes one run.
 */
import { expect, test } from '@jest/globals'
import { runCommand } from '../support/command-process.ts'
import { GATE, LocalSystem } from '../support/local-system.ts'
import { tempFolder } from '../support/temp-folder.ts'
import { until } from '../support/until.ts'

/** A lost run is queued again soon. */
const FLEET = { heartbeatTimeoutSeconds: 20, reconnectGraceSeconds: 10 }
const AGAIN_MS_MAX = 120_000

test('workers that take one run exit with 0 after it; the run of a killed one is taken by the next', async () => {
  const system = await LocalSystem.open({ concurrency: 1, fleet: FLEET })
  for (const name of ['ONE-1', 'ONE-2', 'ONE-3'])
    system.writeTicket(name, [`run ${GATE}`, 'write a.txt', '  a', 'commit Add a'])
  const workers = [await system.pairWorker(['--once']), await system.pairWorker(['--once'])]
  const runs = await Promise.all(['ONE-1', 'ONE-2'].map((name) => system.waitForStatus(name, 'running')))
  await Promise.all(runs.map((run) => system.waitForGate(run)))
  const [victim, survivor] = workers
  victim?.process.kill('SIGKILL')
  await victim?.exit
  for (const run of runs) system.openGates(run)
  expect(await survivor?.exit).toBe(0)
  expect(survivor?.err()).toContain('its only run is over')
  // Nobody is left, so two runs wait: one that was never dispatched, and the killed worker's, once its grace is over.
  const more = [await system.pairWorker(['--once']), await system.pairWorker(['--once'])]
  const openAll = async (name: string) => {
    await system.waitForRun(
      name,
      'completed',
      (run) => {
        if (run.status === 'running') system.openGates(run)
        return run.status === 'completed'
      },
      AGAIN_MS_MAX,
    )
  }
  await Promise.all(['ONE-1', 'ONE-2', 'ONE-3'].map(openAll))
  expect(await Promise.all(more.map(({ exit }) => exit))).toEqual([0, 0])
  // The sandbox went away with its worker, so a resume is refused for good.
  const [first] = runs
  expect(await system.host.request(`/api/runs/${first?.id}/resume`, { method: 'POST' })).toMatchObject({
    status: 410,
  })
  expect(
    system
      .pulls('plain')
      .map(({ title }) => title)
      .toSorted(),
  ).toHaveLength(3)
  await system.waitForNoProcesses()
}, 300_000)

test('an idle worker exits with 0 after --idle-seconds, and not during a run', async () => {
  const system = await LocalSystem.open({ concurrency: 1 })
  const worker = await system.pairWorker(['--idle-seconds', '2'])
  system.writeTicket('IDLE-1', [`run ${GATE}`])
  const run = await system.waitForStatus('IDLE-1', 'running')
  await system.waitForGate(run)
  let isOver = false
  void worker.exit.then(() => (isOver = true))
  await until(
    'more than the idle time has passed',
    () => Date.now() - Date.parse(run.startedAt ?? '') > 4_000,
  )
  expect(isOver).toBe(false)
  system.openGates(run)
  expect(await worker.exit).toBe(0)
  expect(worker.err()).toContain('there was nothing to do')
  await system.waitForEnd('IDLE-1')
  await system.waitForOnlineWorkers(0)
}, 120_000)

test('--once with more than one run at once is wrong use', async () => {
  const folder = tempFolder()
  const command = runCommand(
    ['worker', '--host', 'http://127.0.0.1:1', '--once', '--concurrency', '2'],
    folder,
  )
  expect(await command.exit).toBe(2)
  expect(command.err()).toContain('--concurrency: a worker takes one run with --once')
})
