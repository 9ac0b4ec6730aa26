/**
 * A stopped and restarted host costs no work: beside a worker that is a service of its own no run notices it, and the
 * host's own worker publishes what its agents have finished. No agent begins twice.
 */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import type { Run, RunEvent } from '../../protocol/run.ts'
import { type CommandProcess, runCommand } from '../support/command-process.ts'
import { GATE, LocalSystem, type RepoName } from '../support/local-system.ts'
import { readUnitWords } from '../support/read-unit.ts'
import { until } from '../support/until.ts'

const TEST_MS_MAX = 300_000
/** Each execution of the agent leaves a line. */
const EXECUTED = ['run cat /proc/sys/kernel/random/uuid >> executions.txt', 'commit Leave a mark']

/** The arguments with which the two services start their programs. */
async function serviceWords(dataDir: string): Promise<{ host: string[]; worker: string[] }> {
  const dry = runCommand(['service', 'install', '--dry-run', '--json', '--data-dir', dataDir])
  expect(await dry.exit).toBe(0)
  const { content, worker } = JSON.parse(dry.out())
  const wordsOf = (unit: string) => readUnitWords(/^ExecStart=(.*)$/m.exec(unit)?.[1] ?? '', true).slice(2)
  return { host: wordsOf(content), worker: wordsOf(worker.content) }
}

async function startPairedWorker(system: LocalSystem, words: readonly string[]): Promise<CommandProcess> {
  const { body } = await system.host.request('/api/workers/pairing-tokens', { method: 'POST' })
  const folder = join(system.dataDir, 'worker')
  mkdirSync(folder, { mode: 0o700 })
  writeFileSync(join(folder, 'token'), (body as { token: string }).token, { mode: 0o600 })
  const worker = runCommand(words, folder)
  await system.waitForOnlineWorkers(1)
  return worker
}

async function stopHost(system: LocalSystem): Promise<void> {
  system.host.process.kill('SIGTERM')
  expect(await system.host.exit).toBe(0)
}

const statusesOf = (events: readonly RunEvent[]): string[] =>
  events.flatMap((event) => (event.type === 'status' ? [event.to] : []))

/** The run was executed and published once, and its agent was paid once. */
function expectOneExecution(system: LocalSystem, run: Run, repo: RepoName): void {
  const branch = run.result?.branch ?? ''
  expect([run.ticket.identifier, run.status, run.costs.length]).toEqual([
    run.ticket.identifier,
    'completed',
    1,
  ])
  expect(system.git(repo, 'show', `${branch}:executions.txt`).split('\n')).toHaveLength(1)
  expect(system.pushes(repo).filter((ref) => ref === `refs/heads/${branch}`)).toHaveLength(1)
  expect(system.pulls(repo).filter(({ headBranch }) => headBranch === branch)).toHaveLength(1)
}

test(
  'a host whose worker is a service of its own restarts during four runs, and none of them begins again',
  async () => {
    const system = await LocalSystem.open({ local: true, hostArgs: ['--no-local-worker'] })
    const words = await serviceWords(system.dataDir)
    expect(words.host).toEqual(['serve', '--data-dir', system.dataDir, '--no-local-worker'])
    const worker = await startPairedWorker(system, words.worker)
    const work: readonly (readonly [string, RepoName, Run['status']])[] = [
      ['CHECKOUT-1', 'slow-setup', 'preparing'],
      ['AGENT-1', 'plain', 'running'],
      ['AGENT-2', 'plain', 'running'],
      ['PUSH-1', 'slow-push', 'finalizing'],
    ]
    for (const [name, repo, status] of work)
      system.writeTicket(name, [...EXECUTED, ...(status === 'running' ? [`run ${GATE}`] : [])], { repo })
    const runs = await Promise.all(work.map(([name, , status]) => system.waitForStatus(name, status)))
    await system.waitForPush()
    for (const run of runs.slice(0, -1)) await system.waitForGate(run)

    await stopHost(system)
    // Two of them end while there is no host.
    const [checkout, agent] = runs as [Run, Run]
    system.openPushGate()
    system.openGates(agent)
    await until('the push is through', () => system.pushes('slow-push').length > 0)
    await system.startHost()
    await system.waitForOnlineWorkers(1)
    for (const run of runs) system.openGates(run)

    for (const [name, repo] of work) {
      const run = await system.waitForEnd(name)
      expectOneExecution(system, run, repo)
      expect(statusesOf(await system.events(run))).toEqual([
        ...['queued', 'preparing', 'running', 'finalizing', 'completed'],
      ])
    }
    expect(checkout.sandbox.workerId).toBe((await system.findRun('AGENT-1'))?.sandbox.workerId)
    worker.process.kill('SIGTERM')
    expect(await worker.exit).toBe(0)
  },
  TEST_MS_MAX,
)

test(
  'a stopping host lets its own worker publish what its agent has finished, and knows it before it ends',
  async () => {
    const system = await LocalSystem.open({ local: true })
    system.writeTicket('PUSH-1', EXECUTED, { repo: 'slow-push' })
    await system.waitForStatus('PUSH-1', 'finalizing')
    await system.waitForPush()
    system.host.process.kill('SIGTERM')
    await until('the host stops', () => system.host.err().includes('SIGTERM'))
    system.openPushGate()
    expect(await system.host.exit).toBe(0)
    const { startedAt } = await (await system.startHost()).waitForLaunch()
    const run = await system.waitForStatus('PUSH-1', 'completed')
    expect(Date.parse(run.finishedAt ?? '')).toBeLessThan(Date.parse(startedAt))
    expectOneExecution(system, run, 'slow-push')
  },
  TEST_MS_MAX,
)

test(
  'work that the last seconds can not publish is published after the restart from its sandbox, without another agent',
  async () => {
    const system = await LocalSystem.open({ local: true })
    system.writeTicket('PUSH-1', EXECUTED, { repo: 'slow-push' })
    const { costs } = await system.waitForStatus('PUSH-1', 'finalizing')
    expect(costs.length).toBeLessThanOrEqual(1)
    await system.waitForPush()
    await stopHost(system)
    expect(system.pulls('slow-push')).toEqual([])
    system.openPushGate()
    await system.startHost()
    const run = await system.waitForEnd('PUSH-1')
    expectOneExecution(system, run, 'slow-push')
    const statuses = statusesOf(await system.events(run))
    expect(statuses.filter((status) => status === 'running')).toHaveLength(1)
    expect(statuses.at(-1)).toBe('completed')
  },
  TEST_MS_MAX,
)
