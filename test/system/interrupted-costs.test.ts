/**
 * Interrupted executions: their costs are in the run's record, its log and the archive of usage, once, however they
 * ended. Hosts, workers and sandboxes are real. The agent answers once, so it has spent something, and then waits.
 */
import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import type { Run } from '../../protocol/run.ts'
import type { CommandProcess } from '../support/command-process.ts'
import { GATE, hasAnswered, isOver, LocalSystem } from '../support/local-system.ts'
import { until } from '../support/until.ts'

const TEST_MS_MAX = 240_000
/** Longer than an agent needs to start on a busy machine. */
const STALL_MINUTES = '0.25'
const SPENT = ['say I begin.', `run ${GATE}`]

function story(title: string, body: () => Promise<void>): void {
  test(title, body, TEST_MS_MAX)
}

/** The second attempt goes on in the session of the first. */
const GONE_ON = 1

async function begin(system: LocalSystem, lines: readonly string[] = SPENT): Promise<Run> {
  system.writeTicket('ENG-1', lines)
  const run = await system.waitForStatus('ENG-1', 'running')
  await until('the agent has answered', async () => hasAnswered(await system.events(run)))
  return run
}

async function killProcess(process: CommandProcess): Promise<void> {
  process.process.kill('SIGKILL')
  await process.exit
}

/** Waits until the run's costs carry these labels, then compares its log and the archive with them. */
async function expectSpent(system: LocalSystem, labels: readonly string[], sessions = labels.length) {
  const run = await system.waitForRun(
    'ENG-1',
    `charged for ${labels}`,
    ({ costs }) => costs.length >= labels.length,
  )
  expect(run.costs.map(({ label }) => label)).toEqual(labels)
  for (const { outputTokens } of run.costs) expect(outputTokens).toBeGreaterThan(0)
  const events = (await system.events(run)).flatMap((event) => (event.type === 'cost' ? [event.entry] : []))
  expect(events.map(({ label }) => label).sort()).toEqual([...labels].sort())
  expect(archivedSessions(system)).toHaveLength(sessions)
  const sum = run.costs.reduce((tokens, { outputTokens }) => tokens + outputTokens, 0)
  expect(run.costTotals?.outputTokens).toBe(sum)
}

function archivedSessions(system: LocalSystem): string[] {
  const folder = join(system.dataDir, 'usage')
  if (!existsSync(folder)) return []
  return execFileSync('find', [folder, '-name', '*.json']).toString().split('\n').filter(Boolean)
}

async function finish(system: LocalSystem): Promise<Run> {
  return system.waitForRun('ENG-1', 'over', (run) => {
    system.openGates(run)
    return isOver(run)
  })
}

async function waitForSecond(system: LocalSystem): Promise<void> {
  const isAgain = ({ status, startedAt, costs }: Run) =>
    status === 'running' && startedAt !== undefined && costs.length === 1
  const run = await system.waitForRun('ENG-1', 'begun again and charged', isAgain)
  await system.waitForGate(run)
}

describe('the costs of an execution that did not come to its end', () => {
  story('of a host that is stopped in the middle and started again', async () => {
    const system = await LocalSystem.open({ local: true })
    await system.waitForOnlineWorkers(1)
    await begin(system)
    system.host.process.kill('SIGTERM')
    expect(await system.host.exit).toBe(0)
    await system.waitForNoProcesses()
    await system.startHost()
    await waitForSecond(system)
    await expectSpent(system, ['run'])
    expect((await finish(system)).status).toBe('completed')
    await expectSpent(system, ['run', 'attempt 2'], GONE_ON)
  })

  story('of a cancelled run', async () => {
    const system = await LocalSystem.open()
    await system.pairWorker()
    const { id } = await begin(system)
    await system.host.request(`/api/runs/${id}/cancel`, { method: 'POST' })
    expect((await system.waitForEnd('ENG-1')).status).toBe('cancelled')
    await expectSpent(system, ['run'])
  })

  story('of a cancelled run whose agent ignores the interrupt', async () => {
    const system = await LocalSystem.open()
    await system.pairWorker()
    const { id } = await begin(system, ['say I begin.', 'run true', 'hang deaf'])
    await system.host.request(`/api/runs/${id}/cancel`, { method: 'POST' })
    expect((await system.waitForEnd('ENG-1')).status).toBe('cancelled')
    await expectSpent(system, ['run'])
  })

  story('of an agent that says nothing any more', async () => {
    const system = await LocalSystem.open()
    await system.pairWorker(['--stall-minutes', STALL_MINUTES])
    await begin(system, ['say I begin.', 'run true', 'hang'])
    expect((await system.waitForEnd('ENG-1')).error).toMatch(/stalled/)
    await expectSpent(system, ['run'])
  })

  story('of a run that is handed back at the end of a drain', async () => {
    const system = await LocalSystem.open()
    const worker = await system.pairWorker(['--drain-seconds', '0'])
    await begin(system)
    worker.process.kill('SIGTERM')
    expect(await worker.exit).toBe(0)
    await system.waitForStatus('ENG-1', 'queued')
    await expectSpent(system, ['run'])
    system.startWorker(worker.dataDir)
    await waitForSecond(system)
    expect((await finish(system)).status).toBe('completed')
    await expectSpent(system, ['run', 'attempt 2'], GONE_ON)
  })

  story('of a worker that is stopped twice', async () => {
    const system = await LocalSystem.open()
    const worker = await system.pairWorker()
    await begin(system)
    worker.process.kill('SIGTERM')
    setTimeout(() => worker.process.kill('SIGTERM'), 1_500)
    await worker.exit
    system.startWorker(worker.dataDir)
    await waitForSecond(system)
    await expectSpent(system, ['run'])
    expect((await finish(system)).status).toBe('completed')
    await expectSpent(system, ['run', 'attempt 2'], GONE_ON)
  })

  story('of a worker that is killed and started again', async () => {
    const system = await LocalSystem.open()
    const worker = await system.pairWorker()
    await begin(system)
    await killProcess(worker)
    await system.waitForNoProcesses()
    system.startWorker(worker.dataDir)
    await waitForSecond(system)
    await expectSpent(system, ['run'])
    expect((await finish(system)).status).toBe('completed')
    await expectSpent(system, ['run', 'attempt 2'], GONE_ON)
  })

  story('of a worker that is killed and comes back after another one has done its run', async () => {
    const system = await LocalSystem.open({
      fleet: { heartbeatTimeoutSeconds: 20, reconnectGraceSeconds: 1 },
    })
    const worker = await system.pairWorker()
    const { sandbox } = await begin(system)
    await killProcess(worker)
    await system.pairWorker()
    // The state between the two workers may last for a few milliseconds only.
    const isMoved = (run: Run) => run.sandbox !== undefined && run.sandbox.workerId !== sandbox?.workerId
    await system.waitForRun('ENG-1', 'begun by another worker', isMoved)
    expect((await finish(system)).status).toBe('completed')
    system.startWorker(worker.dataDir)
    await expectSpent(system, ['run', 'attempt 2'])
  })
})
