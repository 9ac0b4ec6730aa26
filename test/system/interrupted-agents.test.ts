/**
 * Agents whose worker ends while they work: real hosts, workers, sandboxes and git. The agent goes on in its session, in
 * the sandbox where it was; on another worker it begins anew, and the sandbox of the first is discarded.
 */
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import type { Run, RunEvent } from '../../protocol/run.ts'
import type { CommandProcess } from '../support/command-process.ts'
import { GATE, LocalSystem } from '../support/local-system.ts'
import { until } from '../support/until.ts'

const TEST_MS_MAX = 300_000
const BRANCH = 'switchyard/eng-1'
/** Each time that the agent begins leaves a line; the last step waits for the test. */
const SCRIPT = [
  'say I begin.',
  'run cat /proc/sys/kernel/random/uuid >> executions.txt',
  'artifact notes.txt',
  '  made before the end',
  'run touch uncommitted.txt',
  `run ${GATE}`,
  'commit Leave a mark',
]

interface Scene {
  readonly system: LocalSystem
  readonly worker: CommandProcess
  readonly run: Run
}

/** The agent of the run waits at its gate. */
async function begin(args: readonly string[] = []): Promise<Scene> {
  const system = await LocalSystem.open()
  const worker = await system.pairWorker(args)
  system.writeTicket('ENG-1', SCRIPT)
  const run = await system.waitForRun('ENG-1', 'in a session', (seen) => seen.agentSessionId !== undefined)
  await system.waitForGate(run)
  return { system, worker, run }
}

async function kill({ system, worker }: Scene): Promise<void> {
  worker.process.kill('SIGKILL')
  await worker.exit
  await system.waitForNoProcesses()
}

/** The second attempt is at the gate; then it may end. */
async function finish({ system }: Scene): Promise<Run> {
  const isAgain = ({ status, costs }: Run) => status === 'running' && costs.length === 1
  const again = await system.waitForRun('ENG-1', 'running again', isAgain)
  await system.waitForGate(again)
  system.openGates(again)
  return system.waitForEnd('ENG-1')
}

const logOf = (events: readonly RunEvent[]): string =>
  events.flatMap((event) => (event.type === 'log' ? [event.text] : [])).join('\n')

/** The agent began once, what it made before the end of its worker is in the pull request, and each part is paid once. */
async function expectGoneOn({ system, run: first }: Scene, run: Run): Promise<void> {
  expect(run).toMatchObject({ status: 'completed', agentSessionId: first.agentSessionId })
  expect(run.result?.artifacts).toContain('notes.txt')
  expect(system.git('plain', 'show', `${BRANCH}:executions.txt`).split('\n')).toHaveLength(1)
  expect(system.git('plain', 'ls-tree', '--name-only', BRANCH)).toContain('uncommitted.txt')
  expect([system.commits('plain', BRANCH), system.pulls('plain')]).toMatchObject([['Leave a mark'], [{}]])
  const events = await system.events(run)
  expect(logOf(events)).toContain(`session ${first.agentSessionId},`)
  expect(events.filter((event) => JSON.stringify(event).includes('I begin.'))).toHaveLength(1)
  const [before, after] = run.costs
  expect(run.costs.map(({ label }) => label)).toEqual(['run', 'attempt 2'])
  // The second part is the gate, the commit and the last words: none of the first part's messages.
  expect(after?.outputTokens).toBeLessThan(before?.outputTokens ?? 0)
}

test(
  'an agent goes on in its session after a kill −9 of its worker',
  async () => {
    const scene = await begin()
    await kill(scene)
    // The agent's git was killed, too.
    writeFileSync(join(scene.system.sandboxOf(scene.run) ?? '', 'work/.git/index.lock'), '')
    scene.system.startWorker(scene.worker.dataDir)
    await expectGoneOn(scene, await finish(scene))
    expect(scene.system.findLeaks()).toEqual([])
  },
  TEST_MS_MAX,
)

test(
  'an agent whose run is handed back goes on in its session when the worker is back',
  async () => {
    const scene = await begin(['--drain-seconds', '0'])
    scene.worker.process.kill('SIGTERM')
    expect(await scene.worker.exit).toBe(0)
    scene.system.startWorker(scene.worker.dataDir)
    await expectGoneOn(scene, await finish(scene))
  },
  TEST_MS_MAX,
)

test(
  'a run whose checkout is damaged begins anew, and its log says why',
  async () => {
    const scene = await begin()
    await kill(scene)
    const place = scene.system.sandboxOf(scene.run) ?? ''
    rmSync(join(place, 'work/.git/HEAD'))
    scene.system.startWorker(scene.worker.dataDir)
    const run = await finish(scene)
    expect([run.status, run.agentSessionId === scene.run.agentSessionId]).toEqual(['completed', false])
    expect(scene.system.git('plain', 'show', `${BRANCH}:executions.txt`).split('\n')).toHaveLength(1)
    const log = logOf(await scene.system.events(run))
    expect(log).toMatch(/cannot go on in its session, because its checkout is damaged: .*the run begins anew/)
  },
  TEST_MS_MAX,
)

test(
  'a run that another worker takes over begins anew, and the first worker discards its sandbox',
  async () => {
    const scene = await begin(['--drain-seconds', '0'])
    const { system, worker } = scene
    const place = system.sandboxOf(scene.run) ?? ''
    worker.process.kill('SIGTERM')
    await worker.exit
    await system.pairWorker()
    const run = await system.waitForRun(
      'ENG-1',
      'begun by another worker',
      ({ status, sandbox }) => status === 'running' && sandbox.workerId !== scene.run.sandbox.workerId,
    )
    expect(readFileSync(join(place, 'work/executions.txt'), 'utf8')).not.toBe('')
    system.startWorker(worker.dataDir)
    await until('the sandbox of the first worker is discarded', () => !existsSync(place))
    await system.waitForGate(run)
    system.openGates(run)
    const end = await system.waitForEnd('ENG-1')
    expect([end.status, end.agentSessionId === scene.run.agentSessionId]).toEqual(['completed', false])
    expect(logOf(await system.events(end))).not.toContain('its session')
  },
  TEST_MS_MAX,
)
