/**
 * kill −9 during follow-ups, right before and after each step that is visible outside or changes a checkout. Afterwards
 * there is exactly one push and one comment, and no person's commit is lost. All follow-ups wait at their moment, then
 * one kill hits them all. A normal run covers the main moments, `FOLLOW_UP_KILLS=all` every one.
 */

/*
 * The kills and what happens next:
 *
 * | kill −9 of              | what follows                                                                          |
 * | ----------------------- | ------------------------------------------------------------------------------------- |
 * | the worker              | it reconnects and reports what it left behind, and the follow-up starts again         |
 * | the host                | its worker continues without it, and the host accepts its report after the restart    |
 * | host and worker         | the same as after a kill of the worker                                                |
 * | the worker, for good    | it is revoked, and another worker starts again with its own checkout                  |
 *
 * A normal run has the first two kills. Each follow-up has its own repository.
 */
import { execFileSync } from 'node:child_process'
import { chownSync, readdirSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { beforeAll, describe, expect, test } from '@jest/globals'
import type { UsageSnapshot } from '../../protocol/frames.ts'
import type { Run } from '../../protocol/run.ts'
import type { FleetResponse } from '../../protocol/worker.ts'
import { type CommandProcess, sandboxFolder } from '../support/command-process.ts'
import { FollowUpSystem, identifierOf } from '../support/follow-up-system.ts'
import { agentRequest, GATE, isOver, type LocalSystem } from '../support/local-system.ts'
import { drawSeed, Random } from '../support/random.ts'
import { testIf } from '../support/skips.ts'
import { until } from '../support/until.ts'

const STORY_MS_MAX = 300_000
const HELD_MS_MAX = 90_000
const POLL_EVERY_MS = 50
const ALL = process.env.FOLLOW_UP_KILLS === 'all'

/** By repository name: the moment, and how many pushes and comments of the follow-up exist then. */
const MOMENTS = {
  'before-fetch': ['before it requests the newest commits', 0, 0],
  'after-fetch': ['after it fetched them, before it reported them', 0, 0],
  'before-rebase': ['after the fetch, before the checkout changes', 0, 0],
  'after-rebase': ['after the rebase, while the agent works', 0, 0],
  'before-push': ['after the work, before the code host receives the push', 0, 0],
  'late-push': ['during a push that arrives later than the next push', 0, 0],
  'after-push': ['after the code host accepted the push, before the worker knows', 1, 0],
  'before-comment': ['after the push, before the comment', 1, 0],
  'late-comment': ['during a comment that arrives together with the next comment', 1, 0],
  'after-comment': ['after the comment, before the worker knows', 1, 1],
} as const
type Moment = keyof typeof MOMENTS

const MAIN_MOMENTS: readonly Moment[] = [
  'after-rebase',
  'after-push',
  'before-comment',
  'late-comment',
  'after-comment',
]
const MOMENTS_TESTED = (Object.keys(MOMENTS) as Moment[]).filter(
  (moment) => ALL || MAIN_MOMENTS.includes(moment),
)

const VICTIMS = {
  worker: { title: 'the worker', hits: ['worker'], begun: 2 },
  host: { title: 'the host', hits: ['host'], begun: 1 },
  both: { title: 'host and worker', hits: ['worker', 'host'], begun: 2 },
  'for-good': { title: 'the worker for good', hits: ['worker'], begun: 2 },
} as const
type Victim = keyof typeof VICTIMS
/** A lease expires only when its worker must have stopped by itself, even if the worker is revoked. */
const BRIEF = { heartbeatTimeoutSeconds: 20, reconnectGraceSeconds: 0 }
const HIT: readonly Victim[] = ALL ? ['worker', 'host', 'both', 'for-good'] : ['worker', 'host']

const LAMP = ['write lamp', '  branch', 'commit Mend the lamp', 'say Mended.']
/** If this step ran twice, the line would appear twice. */
const WORK = ['append lamp', '  brighter', 'say Made it brighter.']
const ASKED: Readonly<Record<Moment, readonly string[]>> = {
  'before-fetch': WORK,
  'after-fetch': WORK,
  'before-rebase': WORK,
  'after-rebase': [`run ${GATE}`, ...WORK],
  'before-push': WORK,
  'late-push': WORK,
  'after-push': WORK,
  // Only a newer base, so no agent starts.
  'before-comment': [],
  'late-comment': [],
  'after-comment': [],
}

// ---- the moments -----------------------------------------------------------------------------------------------------

interface HeldStep {
  readonly hasArrived: () => boolean
  /** For requests between two machines: the machine that asked is gone. */
  readonly isAbandoned?: () => boolean
  /** After the kill. */
  release(): void
}

function holdStep(scene: FollowUpSystem, moment: Moment, run: Run): HeldStep {
  const { proxy } = scene
  const git = `/acme/${moment}.git`
  const push = new RegExp(`^POST ${git}/git-receive-pack$`)
  const comment = new RegExp(`^POST /api/v3/repos/acme/${moment}/issues/1/comments$`)
  switch (moment) {
    case 'before-fetch':
    case 'after-fetch':
      return proxy.hold('before', new RegExp(`^GET ${git}/info/refs[?]service=git-upload-pack$`))
    case 'before-push':
      return proxy.hold('before', push)
    case 'late-push':
      return proxy.hold('late', push)
    case 'after-push':
      return proxy.hold('after', push)
    case 'before-comment':
      return proxy.hold('before', comment)
    case 'late-comment':
      return proxy.hold('late', comment)
    case 'after-comment':
      return proxy.hold('after', comment)
    case 'before-rebase':
      return holdAtIndex(scene.system, run)
    case 'after-rebase':
      return { hasArrived: () => scene.system.hasProcess(run, '/out/go'), release: () => {} }
  }
}

/** Blocks git in the sandbox: the first file that it reads delivers nothing yet. */
function holdAtIndex(system: LocalSystem, run: Run): HeldStep {
  const index = join(system.sandboxOf(run) ?? '', 'work', '.git', 'index')
  const aside = `${index}.aside`
  renameSync(index, aside)
  execFileSync('mkfifo', ['-m', '600', index])
  const { uid, gid } = statSync(aside)
  chownSync(index, uid, gid)
  const hasArrived = () => system.hasProcess(run, 'cp .git/index')
  return {
    hasArrived,
    release: () => {
      // A process that still waits reads the content of the real file.
      if (hasArrived()) writeFileSync(index, readFileSync(aside))
      renameSync(aside, index)
    },
  }
}

/** Waits until the worker's mirror contains the fetched base. */
async function waitForFetch(base: string): Promise<void> {
  const hasArrived = () => copiesOf('after-fetch').some((folder) => tipIn(folder) === base)
  await until('the newest commits are in the copy', hasArrived, HELD_MS_MAX)
}

const copiesOf = (name: string): string[] =>
  readdirSync(sandboxFolder())
    .map((place) => join(sandboxFolder(), place, 'sources', 'repositories'))
    .flatMap((folder) => namesIn(folder).map((copy) => join(folder, copy)))
    .filter((copy) => copy.includes(`acme-${name}`))

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder)
  } catch {
    return []
  }
}

function tipIn(folder: string): string {
  try {
    return readFileSync(join(folder, 'refs', 'heads', 'main'), 'utf8').trim()
  } catch {
    return ''
  }
}

// ---- the kill --------------------------------------------------------------------------------------------------------

/** Brings each follow-up to its moment. The fetching one comes last, because the worker is frozen from then on. */
async function holdFollowUps(
  scene: FollowUpSystem,
  runs: ReadonlyMap<Moment, Run>,
): Promise<ReadonlyMap<Moment, HeldStep>> {
  const holds = new Map<Moment, HeldStep>()
  for (const [moment, run] of runs) {
    await scene.commitToBase(moment, { base: 'of main\n' })
    if (ASKED[moment].length > 0) scene.comment(moment, agentRequest(...ASKED[moment]))
    holds.set(moment, holdStep(scene, moment, run))
    await scene.requestFollowUp(run)
  }
  for (const [moment, hold] of holds)
    await until(`it stands ${moment}`, hold.hasArrived, HELD_MS_MAX, POLL_EVERY_MS).catch((error) => {
      throw new Error(`${error.message}\n${scene.system.host.err().slice(-4_000)}`)
    })
  return holds
}

async function killProcess({ process, exit }: CommandProcess): Promise<void> {
  process.kill('SIGKILL')
  await exit
}

/** A frozen worker does not notice that git has ended. */
async function letFetch(
  scene: FollowUpSystem,
  holds: ReadonlyMap<Moment, HeldStep>,
  worker?: CommandProcess,
): Promise<void> {
  const fetch = holds.get('after-fetch')
  if (fetch === undefined) return
  worker?.process.kill('SIGSTOP')
  fetch.release()
  await waitForFetch(scene.github.branchSha('acme/after-fetch', 'main') ?? '')
}

/** A delayed request is processed when the next one is about to arrive. */
const LATE = {
  'late-push': ['it pushes again', 0, /^POST \/acme\/late-push\.git\/git-receive-pack$/],
  'late-comment': [
    'it comments again',
    1,
    /^POST \/api\/v3\/repos\/acme\/late-comment\/issues\/1\/comments$/,
  ],
} as const
type Late = keyof typeof LATE
const isLate = (moment: Moment): moment is Late => Object.hasOwn(LATE, moment)

function delayStep(scene: FollowUpSystem, moment: Late, late: HeldStep): () => Promise<void> {
  const [again, which, pattern] = LATE[moment]
  const next = scene.proxy.hold('before', pattern)
  return async () => {
    await until(again, next.hasArrived, HELD_MS_MAX, POLL_EVERY_MS)
    late.release()
    await until('the first one has come', () => countVisibleResults(scene, moment)[which] === 1, HELD_MS_MAX)
    next.release()
  }
}

/** Only a repeated follow-up has a next attempt. */
const momentsOf = (victim: Victim): readonly Moment[] =>
  MOMENTS_TESTED.filter((moment) => !isLate(moment) || VICTIMS[victim].begun === 2)

async function afterKillOf(victim: Victim): Promise<ReadonlyMap<Moment, Facts>> {
  const moments = momentsOf(victim)
  const scene = await FollowUpSystem.open(moments, victim === 'for-good' ? { fleet: BRIEF } : {})
  const { system } = scene
  const worker = await system.pairWorker()
  const first = await scene.openPulls(moments, LAMP)
  const runs = new Map(moments.map((moment, at) => [moment, first[at] as Run]))
  const holds = await holdFollowUps(scene, runs)
  const { hits, begun } = VICTIMS[victim]
  const isBegunAgain = begun === 2
  await letFetch(scene, holds, isBegunAgain ? worker : undefined)
  for (const moment of moments)
    expect([moment, ...countVisibleResults(scene, moment)]).toEqual([moment, ...MOMENTS[moment].slice(1)])
  await Promise.all(hits.map((hit) => killProcess(hit === 'worker' ? worker : system.host)))
  if (isBegunAgain) await waitForAbandonedRequests(system, holds)
  const late: (() => Promise<void>)[] = []
  for (const [moment, hold] of holds) {
    if (isLate(moment)) late.push(delayStep(scene, moment, hold))
    else hold.release()
  }
  await restartVictim(scene, victim, worker)
  await Promise.all(late.map((comes) => comes()))
  return collectFacts(scene, runs)
}

async function waitForAbandonedRequests(
  system: LocalSystem,
  holds: ReadonlyMap<Moment, HeldStep>,
): Promise<void> {
  await system.waitForNoProcesses(HELD_MS_MAX)
  const areLeft = () => [...holds.values()].every(({ isAbandoned }) => isAbandoned?.() ?? true)
  await until('nobody asks the code host for anything', areLeft, HELD_MS_MAX)
}

async function restartVictim(
  { system }: FollowUpSystem,
  victim: Victim,
  worker: CommandProcess,
): Promise<void> {
  if (victim === 'host' || victim === 'both') await system.startHost()
  if (victim === 'worker' || victim === 'both') system.startWorker(worker.dataDir)
  if (victim !== 'for-good') return
  const { workers } = (await system.host.request('/api/workers')).body as FleetResponse
  for (const { id } of workers) await system.host.request(`/api/workers/${id}`, { method: 'DELETE' })
  await system.pairWorker()
}

// ---- the result ------------------------------------------------------------------------------------------------------

interface Facts {
  readonly run: Run
  readonly seen: readonly [pushes: number, comments: number]
  readonly commits: readonly string[]
  readonly lamp: string
  readonly base: string
  readonly comment: string
  readonly begun: number
  /** The tokens billed on the run, and those in its transcripts. */
  readonly billed: number
  readonly written: number
}

/** The visible results of a follow-up: pushes and comments. */
const countVisibleResults = (scene: FollowUpSystem, moment: Moment): readonly [number, number] => [
  scene.branchHistory(moment).length - 1,
  scene.followUpComments(moment).length,
]

async function collectFacts(
  scene: FollowUpSystem,
  runs: ReadonlyMap<Moment, Run>,
): Promise<ReadonlyMap<Moment, Facts>> {
  const facts = new Map<Moment, Facts>()
  for (const [moment, before] of runs) facts.set(moment, await factsOf(scene, moment, before))
  await scene.system.waitForNoProcesses(HELD_MS_MAX)
  expect(scene.system.findLeaks()).toEqual([])
  expect([scene.github.counters.bugs, scene.github.violations]).toEqual([[], []])
  return facts
}

async function factsOf(scene: FollowUpSystem, moment: Moment, before: Run): Promise<Facts> {
  const { system } = scene
  const run = await system.waitForRun(identifierOf(moment), 'over', (now) => {
    system.openGates(now)
    return isOver(now)
  })
  const events = await system.events(run)
  expect(events.map(({ index }) => index)).toEqual(events.map((_, index) => index))
  return {
    run,
    seen: countVisibleResults(scene, moment),
    commits: scene.commits(moment),
    lamp: scene.fileOnBranch(moment, 'lamp'),
    base: scene.fileOnBranch(moment, 'base'),
    comment: scene.followUpComments(moment)[0] ?? '',
    // The run's own execution was the first.
    begun: events.filter((event) => event.type === 'status' && event.to === 'preparing').length - 1,
    billed: run.costTotals?.outputTokens ?? 0,
    written: writtenBy(system, new Set([before.agentSessionId ?? '', run.agentSessionId ?? ''])),
  }
}

/** The run in the host's archive. */
function writtenBy({ dataDir }: LocalSystem, sessions: ReadonlySet<string>): number {
  const usage = join(dataDir, 'usage')
  const files = readdirSync(usage, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile())
  const snapshots = files
    .map(({ parentPath, name }) => JSON.parse(readFileSync(join(parentPath, name), 'utf8')) as UsageSnapshot)
    .filter(({ sessionId }) => sessions.has(sessionId))
  return snapshots.flatMap(({ entries }) => entries).reduce((sum, { outputTokens }) => sum + outputTokens, 0)
}

/** The agent's summary is on the disk of the lost worker. */
const isSummaryLost = (victim: Victim, moment: Moment): boolean =>
  victim === 'for-good' && moment === 'after-push'

describe.each(HIT.map((victim) => ({ victim, ...VICTIMS[victim] })))(
  'kill −9 of $title in the middle of a follow-up,',
  ({ victim, begun }) => {
    let all: ReadonlyMap<Moment, Facts> = new Map()

    beforeAll(async () => {
      all = await afterKillOf(victim)
    }, STORY_MS_MAX)

    test.each(momentsOf(victim).map((moment) => ({ moment, when: MOMENTS[moment][0] })))(
      '$when: one push, one comment',
      ({ moment }) => {
        const facts = all.get(moment) as Facts
        const { run, comment } = facts
        expect([run.status, run.error, run.prState]).toEqual(['completed', undefined, 'open'])
        expect([facts.seen, facts.begun]).toEqual([[1, 1], begun])
        const isAgents = ASKED[moment].length > 0
        expect([facts.lamp, facts.base]).toEqual([isAgents ? 'branch\nbrighter' : 'branch', 'of main'])
        expect([facts.commits.length, facts.commits.at(-1)]).toEqual([isAgents ? 2 : 1, 'Mend the lamp'])
        if (isAgents && !isSummaryLost(victim, moment)) expect(comment).toContain('Made it brighter.')
        const [first, ...costs] = run.costs.map(({ label }) => label)
        expect(facts.billed).toBe(facts.written)
        expect([first, new Set(costs)]).toEqual(['run', new Set(isAgents ? ['follow-up 1'] : [])])
      },
    )
  },
)

// ---- at any moment ---------------------------------------------------------------------------------------------------

const KILLS = 8
const KILL_PAUSE_MS_MAX = 5_000
const seed = drawSeed()
const NAMES = ['first', 'second', 'third']
const many = testIf(ALL, 'a long round, run by FOLLOW_UP_KILLS=all')

/** The code host's times have whole seconds: a comment in the second of a follow-up's start counts as new. */
async function waitForNextSecond(): Promise<void> {
  const now = new Date().getUTCSeconds()
  await until('the next second has begun', () => new Date().getUTCSeconds() !== now)
}

/** Each follow-up has something to push; every other one has work for the agent. */
async function startRound(scene: FollowUpSystem, runs: readonly Run[], number: number): Promise<void> {
  for (const [at, name] of NAMES.entries()) {
    await scene.commitToBase(name, { base: `${number}\n` })
    if ((at + number) % 2 === 0)
      scene.comment(name, agentRequest('append lamp', `  ${number}`, 'say Brighter.'))
  }
  await waitForNextSecond()
  for (const run of runs) await scene.requestFollowUp(run)
}

const lampAfter = (at: number, rounds: number): string =>
  [
    'branch',
    ...Array.from({ length: rounds }, (_, number) => number).filter((number) => (at + number) % 2 === 0),
  ].join('\n')

describe('kill −9 at any moment', () => {
  many(
    `of either or both, in each of ${KILLS} rounds: one push, one comment each (SEED=${seed})`,
    async () => {
      const random = new Random(seed)
      const scene = await FollowUpSystem.open(NAMES)
      const { system } = scene
      let worker = await system.pairWorker()
      const runs = await scene.openPulls(NAMES, LAMP)
      for (let number = 0; number < KILLS; number++) {
        await startRound(scene, runs, number)
        await pause(random.below(KILL_PAUSE_MS_MAX))
        const victims = random.pick([['worker'], ['host'], ['worker', 'host']])
        await Promise.all(victims.map((victim) => killProcess(victim === 'worker' ? worker : system.host)))
        if (victims.includes('host')) await system.startHost()
        if (victims.includes('worker')) worker = system.startWorker(worker.dataDir)
        for (const [at, name] of NAMES.entries()) {
          const { status, error } = await system.waitForEnd(identifierOf(name))
          const facts = {
            status,
            error,
            lamp: scene.fileOnBranch(name, 'lamp'),
            base: scene.fileOnBranch(name, 'base'),
          }
          const seen = [scene.branchHistory(name).length - 1, scene.followUpComments(name).length]
          expect([number, name, facts, seen]).toEqual([
            number,
            name,
            { status: 'completed', error: undefined, lamp: lampAfter(at, number + 1), base: String(number) },
            [number + 1, number + 1],
          ])
        }
      }
      await system.waitForNoProcesses(HELD_MS_MAX)
      expect(system.findLeaks()).toEqual([])
    },
    2 * STORY_MS_MAX,
  )
})
