/**
 * What becomes of runs when their worker dies, is cut off or is asked to stop: real hosts, workers, sandboxes and git.
 *
 * Three runs are caught in the act, one in each phase, and a fourth when it is done and its host does not know yet.
 *
 * | what happens                                     | preparing, running, finalizing            | done, not told |
 * | ------------------------------------------------ | ----------------------------------------- | -------------- |
 * | kill −9 of the worker, which is started again    | failed, interrupted: …                    | completed      |
 * | kill −9 of host and worker, both started again   | failed, interrupted: …                    | completed      |
 * | kill −9 of the worker that the host runs itself  | failed, interrupted: …                    |                |
 * | kill −9 of the host alone                        | completed                                 | completed      |
 * | the line cut for a moment                        | completed                                 | completed      |
 * | the line silent for longer than the grace        | completed by another worker, once         |                |
 * | SIGTERM                                          | completed, then the worker ends           |                |
 * | SIGTERM, and again                               | failed, interrupted: the worker was stopped |              |
 * | SIGTERM, and the drain takes too long            | queued again, completed when it is back   |                |
 * | cancel                                           | cancelled                                 |                |
 *
 * However it ends: a ticket has at most one pull request, with each commit once; events are without a gap; no process
 * and no secret is left behind. `LONG_CUTS=1` cuts the line for as long as it is by default until a lease is lost;
 * `WORKER_KILLS=200` kills more often, `SEED=…` repeats what failed.
 */
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { describe, expect, test } from '@jest/globals'
import type { Run } from '../../protocol/run.ts'
import { GATE, isOver, type RepoName, Yard } from '../support/local-system.ts'
import { drawnSeed, Random } from '../support/random.ts'
import { until } from '../support/real-files.ts'
import type { Served } from '../support/serve.ts'
import { Relay } from '../support/tcp-relay.ts'

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

/** A run in each of these phases, and kept there. */
async function caught(yard: Yard, phases: readonly Phase[] = PHASES): Promise<Run[]> {
  for (const phase of phases) {
    const work = phase === 'running' ? [...EXECUTED, `run ${GATE}`] : EXECUTED
    yard.ticket(nameOf(phase), work, { repo: REPO_OF[phase] })
  }
  return Promise.all(phases.map((phase) => caughtIn(yard, phase)))
}

async function caughtIn(yard: Yard, phase: Phase): Promise<Run> {
  const run = await yard.reaches(nameOf(phase), phase)
  await (phase === 'finalizing' ? yard.pushing() : yard.atGate(run))
  return run
}

/** All of them, whatever attempt they are at. */
async function letGoOn(yard: Yard, runs: readonly Run[]): Promise<Run[]> {
  yard.letPushesGo()
  return Promise.all(
    runs.map(({ ticket }) =>
      yard.runIs(ticket.identifier, 'over', (run) => {
        yard.letGo(run)
        return isOver(run)
      }),
    ),
  )
}

/** Done on the worker's side: its sandbox is put away. */
async function done(yard: Yard, run: Run): Promise<void> {
  const record = () => JSON.parse(readFileSync(join(yard.sandboxOf(run) ?? '', 'sandbox.json'), 'utf8'))
  await until(`${run.ticket.identifier} is done`, () => record().retainedUntil !== undefined, DONE_MS_MAX)
  // Its last word goes to disk a moment later; one that dies in between is told from what was noted, which is the same.
  await pause(LAST_WORD_MS)
}

const statuses = (runs: readonly Run[]): string[] =>
  runs.map(({ status, error }) => `${status}${error === undefined ? '' : `, ${error}`}`)

/** How often each run was executed. */
async function executions(yard: Yard, run: Run): Promise<number> {
  const events = await yard.events(run)
  expect(events.map(({ index }) => index)).toEqual(events.map((_, index) => index))
  return events.filter((event) => event.type === 'status' && event.to === 'preparing').length
}

/** What has to be so at the end of each story. */
async function settled(yard: Yard, runs: readonly Run[]): Promise<void> {
  await yard.deserted()
  for (const run of runs) published(yard, run)
  expect(yard.leaks()).toEqual([])
}

/** Completed: one pull request, one push, one commit. Anything else: nobody has seen anything. */
function published(yard: Yard, { ticket, status, result, prUrl }: Run): void {
  const repo = ticket.repo as RepoName
  const branch = `switchyard/${ticket.identifier.toLowerCase()}`
  const heads = yard.pulls(repo).map(({ headBranch }) => headBranch)
  const seen = { heads, branches: yard.branches(repo), pushes: yard.pushes(repo) }
  if (status !== 'completed') {
    expect(seen).toEqual({ heads: [], branches: [], pushes: [] })
    return
  }
  expect(seen).toEqual({ heads: [branch], branches: [branch], pushes: [`refs/heads/${branch}`] })
  expect(yard.commits(repo, branch)).toEqual(['Leave a mark'])
  expect(yard.git(repo, 'show', `${branch}:executions.txt`).split('\n')).toHaveLength(1)
  expect([result?.branch, result?.prUrl === prUrl, prUrl?.startsWith('file://')]).toEqual([
    branch,
    true,
    true,
  ])
}

async function killed(process: Served): Promise<void> {
  process.process.kill('SIGKILL')
  await process.exit
}

/** A second signal within a second of the first is taken for the same one. */
const SECOND_SIGNAL_MS = 1_100
const KILL_PAUSE_MS_MAX = 3_000
const LAST_WORD_MS = 300
const MINUTE_MS = 60_000
const DONE_MS_MAX = 60_000
const BEGUN_AGAIN_MS_MAX = 120_000
/** The worker's own timers, and what a busy machine takes to obey them. */
const STOPPED_MS_MAX = LONG ? 220_000 : 60_000
const INTERRUPTED = PHASES.map(
  (phase) => `failed, interrupted: the worker daemon ended while the run was ${phase}`,
)
const COMPLETED = PHASES.map(() => 'completed')

/** Stopped for good while the run is on its last step, so that it can't hear of the end. */
async function doneUntold(yard: Yard): Promise<Run> {
  yard.ticket(nameOf('finalizing'), EXECUTED, { repo: REPO_OF.finalizing })
  const run = await caughtIn(yard, 'finalizing')
  yard.host.process.kill('SIGSTOP')
  yard.letPushesGo()
  await done(yard, run)
  return run
}

function story(title: string, tell: () => Promise<void>): void {
  test(title, tell, TEST_MS_MAX)
}

const long: typeof story = (title, tell) => (LONG ? story(title, tell) : test.skip(title, tell))

describe('kill −9 in the middle of runs', () => {
  story('of their worker: they are interrupted, and told so when it is back', async () => {
    const yard = await Yard.open()
    const worker = await yard.enrol()
    const runs = await caught(yard)
    await killed(worker)
    await yard.deserted()
    yard.startWorker(worker.dataDir)
    await end(yard, runs, INTERRUPTED)
  })

  story('of host and worker: the same, once both are back', async () => {
    const yard = await Yard.open()
    const worker = await yard.enrol()
    const runs = await caught(yard)
    await Promise.all([killed(worker), killed(yard.host)])
    await yard.deserted()
    await yard.startHost()
    yard.startWorker(worker.dataDir)
    await end(yard, runs, INTERRUPTED)
  })

  story('of the worker that the host runs itself: the host starts it again, and it tells', async () => {
    const yard = await Yard.open({ local: true })
    await yard.online(1)
    const runs = await caught(yard)
    const [, pid] = /"workerPid":(\d+),"msg":"the local worker was started"/.exec(yard.host.err()) ?? []
    process.kill(Number(pid), 'SIGKILL')
    await yard.deserted()
    await end(yard, runs, INTERRUPTED)
  })

  story('of the host alone: nobody else notices, and they are completed', async () => {
    const yard = await Yard.open()
    await yard.enrol()
    const runs = await caught(yard)
    await killed(yard.host)
    yard.letPushesGo()
    for (const run of runs) yard.letGo(run)
    await Promise.all(runs.map((run) => done(yard, run)))
    await yard.startHost()
    await end(yard, runs, COMPLETED)
  })
})

const KILLS = Number(process.env.WORKER_KILLS ?? 2)
const seed = drawnSeed()

describe('kill −9 at any moment', () => {
  story(
    `of either or both, ${KILLS} times: nothing is done twice, and what is interrupted can be retried (SEED=${seed})`,
    async () => {
      const random = new Random(seed)
      const yard = await Yard.open()
      let worker = await yard.enrol()
      const names = Array.from({ length: KILLS * 2 }, (_, n) => `ANY-${n + 1}`)
      for (const name of names) yard.ticket(name, EXECUTED)
      for (let n = 0; n < KILLS; n++) {
        // From its first steps to a few runs later.
        await pause(random.below(KILL_PAUSE_MS_MAX))
        const victims = random.pick([['worker'], ['host'], ['worker', 'host']])
        if (victims.includes('worker')) await killed(worker)
        if (victims.includes('host')) await killed(yard.host)
        if (victims.includes('host')) await yard.startHost()
        if (victims.includes('worker')) worker = yard.startWorker(worker.dataDir)
      }
      const ended = await Promise.all(names.map((name) => yard.ends(name)))
      const interrupted = ended.filter(({ status }) => status !== 'completed')
      for (const { id, error } of interrupted) {
        expect(error).toMatch(/^interrupted: /)
        await yard.host.ask(`/api/runs/${id}/retry`, { method: 'POST' })
      }
      const runs = await Promise.all(names.map((name) => yard.ends(name)))
      expect(new Set(statuses(runs))).toEqual(new Set(['completed']))
      const branches = names.map((name) => `switchyard/${name.toLowerCase()}`).sort()
      expect(
        yard
          .pulls('plain')
          .map(({ headBranch }) => headBranch)
          .sort(),
      ).toEqual(branches)
      expect(yard.branches('plain')).toEqual(branches)
      for (const { id, result } of ended.filter((run) => !interrupted.includes(run)))
        expect([id, yard.commits('plain', result?.branch ?? '')]).toEqual([id, ['Leave a mark']])
      for (const run of runs) await executions(yard, run)
      await yard.deserted()
      expect(yard.leaks()).toEqual([])
    },
  )
})

describe('kill −9 when a run is done and the host does not know', () => {
  story('of its worker: it is completed when that is back', async () => {
    const yard = await Yard.open()
    const worker = await yard.enrol()
    const run = await doneUntold(yard)
    await killed(worker)
    yard.host.process.kill('SIGCONT')
    yard.startWorker(worker.dataDir)
    await end(yard, [run], ['completed'])
  })

  story('of host and worker: it is completed when both are back', async () => {
    const yard = await Yard.open()
    const worker = await yard.enrol()
    const run = await doneUntold(yard)
    await Promise.all([killed(worker), killed(yard.host)])
    await yard.startHost()
    yard.startWorker(worker.dataDir)
    await end(yard, [run], ['completed'])
  })
})

describe('a line that is cut', () => {
  story('for a moment: its runs go on, and nothing is lost', async () => {
    const yard = await Yard.open()
    const relay = await Relay.to(yard.fleetPort)
    await yard.enrol([], relay.url)
    const runs = await caught(yard)
    relay.cut()
    await yard.online(0)
    yard.letPushesGo()
    for (const run of runs) yard.letGo(run)
    await Promise.all(runs.map((run) => done(yard, run)))
    relay.mend()
    await end(yard, runs, COMPLETED)
  })

  long('for a minute, without a word to either side: the same', async () => {
    const yard = await Yard.open()
    const relay = await Relay.to(yard.fleetPort)
    await yard.enrol([], relay.url)
    const runs = await caught(yard)
    const frozenAt = Date.now()
    relay.freeze()
    await yard.online(0, 60_000)
    await pause(MINUTE_MS - (Date.now() - frozenAt))
    relay.mend()
    await end(yard, runs, COMPLETED)
  })

  story('for longer than the grace: another worker does its run, and it stops by itself', async () => {
    const yard = await Yard.open({
      fleet: LONG ? {} : { heartbeatTimeoutSeconds: 20, reconnectGraceSeconds: 10 },
    })
    const relay = await Relay.to(yard.fleetPort)
    const lonely = await yard.enrol([], relay.url)
    const [run] = (await caught(yard, ['running'])) as [Run]
    const place = yard.sandboxOf(run) ?? ''
    const itsSandboxes = dirname(dirname(place))
    relay.freeze()
    await yard.enrol()
    // The other one begins soon after: what may still go on here then is looked at in that moment.
    let isLeftInTime: boolean | undefined
    const isBegunAgain = async () => {
      const again = (await executions(yard, run)) === 2
      if (again) isLeftInTime ??= yard.isDeserted(itsSandboxes)
      return again
    }
    await until('it is begun again', isBegunAgain, STOPPED_MS_MAX)
    expect(isLeftInTime).toBe(true)
    await until('it says why', () => lonely.err().includes('its time ran out'))
    await until('its disk is taken back', () => !existsSync(place))
    await yard.runIs(
      nameOf('running'),
      'begun again',
      ({ status }) => status === 'running',
      BEGUN_AGAIN_MS_MAX,
    )
    relay.mend()
    await end(yard, [run], ['completed'], 2)
  })
})

describe('asked to stop', () => {
  const started = async (args: readonly string[] = []) => {
    const yard = await Yard.open()
    const worker = await yard.enrol(args)
    return { yard, worker, runs: await caught(yard) }
  }

  story('once, it finishes what it has, and takes nothing new', async () => {
    const { yard, worker, runs } = await started()
    worker.process.kill('SIGTERM')
    await until('it is heard', () => worker.err().includes('SIGTERM'))
    yard.ticket('LATE-1', EXECUTED)
    const late = await yard.reaches('LATE-1', 'queued')
    await end(yard, runs, COMPLETED)
    expect(await worker.exit).toBe(0)
    expect((await yard.run(late.ticket.identifier))?.status).toBe('queued')
  })

  story('twice, it ends at once, and what it had is interrupted', async () => {
    const { yard, worker, runs } = await started()
    worker.process.kill('SIGTERM')
    await until('the first is heard', () => worker.err().includes('SIGTERM'))
    await pause(SECOND_SIGNAL_MS)
    worker.process.kill('SIGTERM')
    expect([0, 70]).toContain(await worker.exit)
    await yard.deserted()
    yard.startWorker(worker.dataDir)
    await end(
      yard,
      runs,
      PHASES.map(() => 'failed, interrupted: the worker was stopped'),
    )
  })

  story('and not let wait: its runs are queued again, and done when it is back', async () => {
    const { yard, worker, runs } = await started(['--drain-seconds', '0'])
    worker.process.kill('SIGTERM')
    expect(await worker.exit).toBe(0)
    await yard.deserted()
    for (const run of runs) await yard.reaches(run.ticket.identifier, 'queued')
    yard.startWorker(worker.dataDir)
    await end(yard, runs, COMPLETED, 2)
  })
})

describe('a cancel', () => {
  story('in each phase: its processes are gone soon, and nobody sees anything of it', async () => {
    const yard = await Yard.open()
    await yard.enrol()
    const runs = await caught(yard)
    for (const { id } of runs) await yard.host.ask(`/api/runs/${id}/cancel`, { method: 'POST' })
    await yard.deserted()
    await end(
      yard,
      runs,
      PHASES.map(() => 'cancelled'),
    )
  })
})

/** Of each: how it ended, how often it was executed, and what is left of it. */
async function end(yard: Yard, runs: readonly Run[], expected: readonly string[], times = 1): Promise<void> {
  const ended = await letGoOn(yard, runs)
  expect(statuses(ended)).toEqual(expected)
  for (const run of ended) expect(await executions(yard, run)).toBe(times)
  await settled(yard, ended)
}
