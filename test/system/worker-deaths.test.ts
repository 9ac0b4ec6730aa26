/**
 * Runs whose worker dies, is disconnected or is asked to stop: real hosts, workers, sandboxes and git. Three runs are
 * blocked, one in each phase; a fourth is finished but its host does not know yet. A ticket always gets at most one pull
 * request with each commit once; events have no gap; no process and no secret is left. `LONG_CUTS=1` disconnects for the
 * default lease time; `WORKER_KILLS=200` kills more often, `SEED=…` repeats a failure.
 */
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { describe, expect, test } from '@jest/globals'
/*
 * | what happens                                     | preparing, running, finalizing            | done, unknown  |
 * | ------------------------------------------------ | ----------------------------------------- | -------------- |
 * | kill −9 of the worker, which is started again    | executed again, completed                 | completed      |
 * | kill −9 of host and worker, both started again   | executed again, completed                 | completed      |
 * | kill −9 of the worker that the host runs itself  | executed again, completed                 |                |
 * | kill −9 of the host alone                        | completed                                 | completed      |
 * | the connection broken for a moment               | completed                                 | completed      |
 * | the connection silent for longer than the grace  | completed by another worker, once         |                |
 * | SIGTERM                                          | completed, then the worker ends; the first is queued again | |
 * | SIGTERM, and again                               | executed again, completed                 |                |
 * | SIGTERM, and the drain takes too long            | queued again, completed when it is back   |                |
 * | cancel                                           | cancelled                                 |                |
 */
import type { Run } from '../../protocol/run.ts'
import type { CommandProcess } from '../support/command-process.ts'
import { GATE, isOver, LocalSystem, type RepoName } from '../support/local-system.ts'
import { drawSeed, Random } from '../support/random.ts'
import { testIf } from '../support/skips.ts'
import { TcpRelay } from '../support/tcp-relay.ts'
import { until } from '../support/until.ts'

const TEST_MS_MAX = 400_000
const LONG = process.env.LONG_CUTS === '1'

const PHASES = ['preparing', 'running', 'finalizing'] as const
type Phase = (typeof PHASES)[number]
const REPO_OF: Readonly<Record<Phase, RepoName>> = {
  preparing: 'slow-setup',
  running: 'plain',
  finalizing: 'slow-push',
}
const nameOf = (phase: Phase): string => `${phase.toUpperCase()}-1`
const EXECUTED = ['run cat /proc/sys/kernel/random/uuid >> executions.txt', 'commit Leave a mark']

/** Starts a run per phase and blocks each in its phase. */
async function blockRuns(system: LocalSystem, phases: readonly Phase[] = PHASES): Promise<Run[]> {
  for (const phase of phases) {
    const work = phase === 'running' ? [...EXECUTED, `run ${GATE}`] : EXECUTED
    system.writeTicket(nameOf(phase), work, { repo: REPO_OF[phase] })
  }
  return Promise.all(phases.map((phase) => blockRun(system, phase)))
}

async function blockRun(system: LocalSystem, phase: Phase): Promise<Run> {
  const run = await system.waitForStatus(nameOf(phase), phase)
  await (phase === 'finalizing' ? system.waitForPush() : system.waitForGate(run))
  return run
}

/** The newest attempt of each run. */
async function finishRuns(system: LocalSystem, runs: readonly Run[]): Promise<Run[]> {
  system.openPushGate()
  return Promise.all(
    runs.map(({ ticket }) =>
      system.waitForRun(ticket.identifier, 'over', (run) => {
        system.openGates(run)
        return isOver(run)
      }),
    ),
  )
}

/** The run is finished on the worker: its sandbox is retained. */
async function waitUntilRetained(system: LocalSystem, run: Run): Promise<void> {
  const record = () => JSON.parse(readFileSync(join(system.sandboxOf(run) ?? '', 'sandbox.json'), 'utf8'))
  await until(`${run.ticket.identifier} is done`, () => record().retainedUntil !== undefined, DONE_MS_MAX)
  // The outcome is written a moment later; a worker that dies before recovers the same from its record.
  await pause(LAST_WORD_MS)
}

const statuses = (runs: readonly Run[]): string[] =>
  runs.map(({ status, error }) => `${status}${error === undefined ? '' : `, ${error}`}`)

/** The number of executions of each run. */
async function countExecutions(system: LocalSystem, run: Run): Promise<number> {
  const events = await system.events(run)
  expect(events.map(({ index }) => index)).toEqual(events.map((_, index) => index))
  return events.filter((event) => event.type === 'status' && event.to === 'preparing').length
}

/** Invariants at the end of each story. */
async function expectNothingLeft(system: LocalSystem, runs: readonly Run[]): Promise<void> {
  await system.waitForNoProcesses()
  for (const run of runs) expectPublication(system, run)
  expect(system.findLeaks()).toEqual([])
}

/** A completed run has one pull request, one push and one commit; any other run has none. */
function expectPublication(system: LocalSystem, { ticket, status, result, prUrl }: Run): void {
  const repo = ticket.repo as RepoName
  const branch = `switchyard/${ticket.identifier.toLowerCase()}`
  const heads = system.pulls(repo).map(({ headBranch }) => headBranch)
  const seen = { heads, branches: system.branches(repo), pushes: system.pushes(repo) }
  if (status !== 'completed') {
    expect(seen).toEqual({ heads: [], branches: [], pushes: [] })
    return
  }
  expect(seen).toEqual({ heads: [branch], branches: [branch], pushes: [`refs/heads/${branch}`] })
  expect(system.commits(repo, branch)).toEqual(['Leave a mark'])
  expect(system.git(repo, 'show', `${branch}:executions.txt`).split('\n')).toHaveLength(1)
  expect([result?.branch, result?.prUrl === prUrl, prUrl?.startsWith('file://')]).toEqual([
    branch,
    true,
    true,
  ])
}

async function killProcess(process: CommandProcess): Promise<void> {
  process.process.kill('SIGKILL')
  await process.exit
}

/** A second signal within one second counts as the first. */
const SECOND_SIGNAL_MS = 1_100
const KILL_PAUSE_MS_MAX = 3_000
const LAST_WORD_MS = 300
const MINUTE_MS = 60_000
const DONE_MS_MAX = 60_000
const BEGUN_AGAIN_MS_MAX = 120_000
/** The worker's timers, plus the delay of a busy machine. */
const STOPPED_MS_MAX = LONG ? 220_000 : 60_000
const COMPLETED = PHASES.map(() => 'completed')

/** Freezes the host during the run's last step, so that it does not learn of the end. */
async function finishUnnoticed(system: LocalSystem): Promise<Run> {
  system.writeTicket(nameOf('finalizing'), EXECUTED, { repo: REPO_OF.finalizing })
  const run = await blockRun(system, 'finalizing')
  system.host.process.kill('SIGSTOP')
  system.openPushGate()
  await waitUntilRetained(system, run)
  return run
}

function story(title: string, body: () => Promise<void>): void {
  test(title, body, TEST_MS_MAX)
}

const long: typeof story = (title, body) =>
  testIf(LONG, 'a long round, run by LONG_CUTS=1')(title, body, TEST_MS_MAX)

describe('kill −9 in the middle of runs', () => {
  story('of their worker: they are executed again when it is back', async () => {
    const system = await LocalSystem.open()
    const worker = await system.pairWorker()
    const runs = await blockRuns(system)
    await killProcess(worker)
    await system.waitForNoProcesses()
    system.startWorker(worker.dataDir)
    await expectEnds(system, runs, COMPLETED, 2)
  })

  story(
    'of their worker just when the agent is done: the work is published, and no agent is asked again',
    async () => {
      const system = await LocalSystem.open()
      const worker = await system.pairWorker()
      const many = 'run head -c 30000000 /dev/urandom > "$SWITCHYARD_ARTIFACTS/many.bin"'
      system.writeTicket('DONE-1', [...EXECUTED, many])
      await system.waitForStatus('DONE-1', 'finalizing')
      await killProcess(worker)
      await system.waitForNoProcesses()
      system.startWorker(worker.dataDir)
      const run = await system.waitForEnd('DONE-1')
      const events = await system.events(run)
      expect([run.status, run.costs.length]).toEqual(['completed', 1])
      expect(events.filter((event) => event.type === 'status' && event.to === 'running')).toHaveLength(1)
      expect(run.result?.artifacts).toEqual(['many.bin'])
      expect(system.git('plain', 'show', 'switchyard/done-1:executions.txt').split('\n')).toHaveLength(1)
    },
  )

  story('of host and worker: the same, once both are back', async () => {
    const system = await LocalSystem.open()
    const worker = await system.pairWorker()
    const runs = await blockRuns(system)
    await Promise.all([killProcess(worker), killProcess(system.host)])
    await system.waitForNoProcesses()
    await system.startHost()
    system.startWorker(worker.dataDir)
    await expectEnds(system, runs, COMPLETED, 2)
  })

  story('of the local worker: the host starts it again, and it executes them again', async () => {
    const system = await LocalSystem.open({ local: true })
    await system.waitForOnlineWorkers(1)
    const runs = await blockRuns(system)
    const [, pid] = /"workerPid":(\d+),"msg":"the local worker was started"/.exec(system.host.err()) ?? []
    process.kill(Number(pid), 'SIGKILL')
    await system.waitForNoProcesses()
    await expectEnds(system, runs, COMPLETED, 2)
  })

  story('of the host alone: its workers continue, and the runs are completed', async () => {
    const system = await LocalSystem.open()
    await system.pairWorker()
    const runs = await blockRuns(system)
    await killProcess(system.host)
    system.openPushGate()
    for (const run of runs) system.openGates(run)
    await Promise.all(runs.map((run) => waitUntilRetained(system, run)))
    await system.startHost()
    await expectEnds(system, runs, COMPLETED)
  })
})

const KILLS = Number(process.env.WORKER_KILLS ?? 2)
const seed = drawSeed()

describe('kill −9 at any moment', () => {
  story(
    `of either or both, ${KILLS} times: nothing is published twice, and what is interrupted too often can be retried (SEED=${seed})`,
    async () => {
      const random = new Random(seed)
      const system = await LocalSystem.open()
      let worker = await system.pairWorker()
      const names = Array.from({ length: KILLS * 2 }, (_, n) => `ANY-${n + 1}`)
      for (const name of names) system.writeTicket(name, EXECUTED)
      for (let n = 0; n < KILLS; n++) {
        // A random time between its first steps and a few runs later.
        await pause(random.below(KILL_PAUSE_MS_MAX))
        const victims = random.pick([['worker'], ['host'], ['worker', 'host']])
        if (victims.includes('worker')) await killProcess(worker)
        if (victims.includes('host')) await killProcess(system.host)
        if (victims.includes('host')) await system.startHost()
        if (victims.includes('worker')) worker = system.startWorker(worker.dataDir)
      }
      const ended = await Promise.all(names.map((name) => system.waitForEnd(name)))
      const interrupted = ended.filter(({ status }) => status !== 'completed')
      for (const { id, error } of interrupted) {
        expect(error).toMatch(/^interrupted: /)
        await system.host.request(`/api/runs/${id}/retry`, { method: 'POST' })
      }
      const runs = await Promise.all(names.map((name) => system.waitForEnd(name)))
      expect(new Set(statuses(runs))).toEqual(new Set(['completed']))
      const branches = names.map((name) => `switchyard/${name.toLowerCase()}`).sort()
      expect(
        system
          .pulls('plain')
          .map(({ headBranch }) => headBranch)
          .sort(),
      ).toEqual(branches)
      expect(system.branches('plain')).toEqual(branches)
      for (const { id, result } of ended.filter((run) => !interrupted.includes(run)))
        expect([id, system.commits('plain', result?.branch ?? '')]).toEqual([id, ['Leave a mark']])
      for (const run of runs) await countExecutions(system, run)
      await system.waitForNoProcesses()
      expect(system.findLeaks()).toEqual([])
    },
  )
})

describe('kill −9 after a run, before the host knows', () => {
  story('of its worker: the run is completed when it is back', async () => {
    const system = await LocalSystem.open()
    const worker = await system.pairWorker()
    const run = await finishUnnoticed(system)
    await killProcess(worker)
    system.host.process.kill('SIGCONT')
    system.startWorker(worker.dataDir)
    await expectEnds(system, [run], ['completed'])
  })

  story('of host and worker: the run is completed when both are back', async () => {
    const system = await LocalSystem.open()
    const worker = await system.pairWorker()
    const run = await finishUnnoticed(system)
    await Promise.all([killProcess(worker), killProcess(system.host)])
    await system.startHost()
    system.startWorker(worker.dataDir)
    await expectEnds(system, [run], ['completed'])
  })
})

describe('a broken connection', () => {
  story('for a moment: runs continue, and nothing is lost', async () => {
    const system = await LocalSystem.open()
    const relay = await TcpRelay.startFor(system.fleetPort)
    await system.pairWorker([], relay.url)
    const runs = await blockRuns(system)
    relay.disconnect()
    await system.waitForOnlineWorkers(0)
    system.openPushGate()
    for (const run of runs) system.openGates(run)
    await Promise.all(runs.map((run) => waitUntilRetained(system, run)))
    relay.restore()
    await expectEnds(system, runs, COMPLETED)
  })

  long('for a minute, unnoticed by both sides: the same', async () => {
    const system = await LocalSystem.open()
    const relay = await TcpRelay.startFor(system.fleetPort)
    await system.pairWorker([], relay.url)
    const runs = await blockRuns(system)
    const frozenAt = Date.now()
    relay.freeze()
    await system.waitForOnlineWorkers(0, 60_000)
    await pause(MINUTE_MS - (Date.now() - frozenAt))
    relay.restore()
    await expectEnds(system, runs, COMPLETED)
  })

  story(
    'for longer than the grace: another worker executes the run, and the first stops by itself',
    async () => {
      const system = await LocalSystem.open({
        fleet: LONG ? {} : { heartbeatTimeoutSeconds: 20, reconnectGraceSeconds: 10 },
      })
      const relay = await TcpRelay.startFor(system.fleetPort)
      const lonely = await system.pairWorker([], relay.url)
      const [run] = (await blockRuns(system, ['running'])) as [Run]
      const place = system.sandboxOf(run) ?? ''
      const itsSandboxes = dirname(dirname(place))
      relay.freeze()
      await system.pairWorker()
      // The other worker starts soon after, so check the first worker's processes right now.
      let isLeftInTime: boolean | undefined
      const isBegunAgain = async () => {
        const again = (await countExecutions(system, run)) === 2
        if (again) isLeftInTime ??= system.hasNoProcesses(itsSandboxes)
        return again
      }
      await until('it is begun again', isBegunAgain, STOPPED_MS_MAX)
      expect(isLeftInTime).toBe(true)
      await until('the log has the reason', () => lonely.err().includes('the lease expired'))
      // The lonely worker does not know yet that another one has begun the run anew.
      expect(existsSync(place)).toBe(true)
      await system.waitForRun(
        nameOf('running'),
        'begun again',
        ({ status }) => status === 'running',
        BEGUN_AGAIN_MS_MAX,
      )
      relay.restore()
      await until('its disk is taken back', () => !existsSync(place))
      await expectEnds(system, [run], ['completed'], 2)
    },
  )
})

describe('a worker that is asked to stop', () => {
  const started = async (args: readonly string[] = []) => {
    const system = await LocalSystem.open()
    const worker = await system.pairWorker(args)
    return { system, worker, runs: await blockRuns(system) }
  }

  story('once, finishes the runs whose agents have begun and accepts no new ones', async () => {
    const { system, worker, runs } = await started()
    const [prepared, ...begun] = runs as [Run, Run, Run]
    worker.process.kill('SIGTERM')
    await until('the worker received the signal', () => worker.err().includes('SIGTERM'))
    system.writeTicket('LATE-1', EXECUTED)
    const waiting = [prepared.ticket.identifier, 'LATE-1']
    for (const identifier of waiting) await system.waitForStatus(identifier, 'queued')
    expect(statuses(await finishRuns(system, begun))).toEqual(['completed', 'completed'])
    expect(await worker.exit).toBe(0)
    for (const identifier of waiting) expect((await system.findRun(identifier))?.status).toBe('queued')
    system.startWorker(worker.dataDir)
    await expectEnds(system, [prepared], ['completed'], 2)
  })

  story('twice, ends at once, and executes its runs again when it is back', async () => {
    const { system, worker, runs } = await started()
    worker.process.kill('SIGTERM')
    await until('the worker received the first signal', () => worker.err().includes('SIGTERM'))
    await pause(SECOND_SIGNAL_MS)
    worker.process.kill('SIGTERM')
    expect([0, 70]).toContain(await worker.exit)
    await system.waitForNoProcesses()
    system.startWorker(worker.dataDir)
    await expectEnds(system, runs, COMPLETED, 2)
  })

  story('and exceeds its drain time, has its runs queued again and done when it is back', async () => {
    const { system, worker, runs } = await started(['--drain-seconds', '0'])
    worker.process.kill('SIGTERM')
    expect(await worker.exit).toBe(0)
    await system.waitForNoProcesses()
    for (const run of runs) await system.waitForStatus(run.ticket.identifier, 'queued')
    system.startWorker(worker.dataDir)
    await expectEnds(system, runs, COMPLETED, 2)
  })
})

describe('a cancel', () => {
  story('in each phase: its processes end soon, and nothing is published', async () => {
    const system = await LocalSystem.open()
    await system.pairWorker()
    const runs = await blockRuns(system)
    for (const { id } of runs) await system.host.request(`/api/runs/${id}/cancel`, { method: 'POST' })
    await system.waitForNoProcesses()
    // Finished work is kept for a retry.
    const kept = expect.stringMatching(/^cancelled, .*its work is kept in the sandbox on worker/)
    await expectEnds(system, runs, ['cancelled', 'cancelled', kept])
  })
})

/** For each run: its end, its number of executions, and its remaining processes. */
async function expectEnds(
  system: LocalSystem,
  runs: readonly Run[],
  expected: readonly unknown[],
  times = 1,
): Promise<void> {
  const ended = await finishRuns(system, runs)
  expect(statuses(ended)).toEqual(expected)
  for (const run of ended) expect(await countExecutions(system, run)).toBe(times)
  await expectNothingLeft(system, ended)
}
