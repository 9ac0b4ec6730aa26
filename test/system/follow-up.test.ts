/**
 * Follow-ups of pull requests: rebase onto the newest base, resolve conflicts, address remarks. Real hosts, workers,
 * sandboxes and git, on the local code host and on a fake GitHub.
 */
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import type { Run, RunEvent } from '../../protocol/run.ts'
import { DashboardClient } from '../support/dashboard-client.ts'
import { FollowUpSystem, identifierOf, REVIEWER } from '../support/follow-up-system.ts'
import { commitFiles, git } from '../support/git.ts'
import { agentRequest, LocalSystem } from '../support/local-system.ts'
import { connectSocket } from '../support/socket-client.ts'
import { tempFolder } from '../support/temp-folder.ts'
import { until } from '../support/until.ts'

const TEST_MS_MAX = 300_000
const MARKER = /^<!-- switchyard:follow-up fu-[0-9a-f]{32} -->$/m

function story(title: string, body: () => Promise<void>): void {
  test(title, body, TEST_MS_MAX)
}

const logOf = (events: readonly RunEvent[]): string =>
  events.map((event) => (event.type === 'log' ? event.text : '')).join('\n')
const labelsOf = ({ costs }: Run): (string | undefined)[] => costs.map(({ label }) => label)

// ---- on the local code host ------------------------------------------------------------------------------------------

/** Commits and pushes as a person with their own checkout. */
function pushToMain(system: LocalSystem, files: Readonly<Record<string, string>>): void {
  const work = tempFolder()
  git(work, 'clone', '--quiet', system.bareRepoPath('plain'), '.')
  commitFiles(work, 'Go on', files)
  git(work, 'push', '--quiet', 'origin', 'main')
}

const requestFollowUp = ({ host }: LocalSystem, { id }: Run) =>
  host.request(`/api/runs/${id}/followup`, { method: 'POST' })

async function completeFollowUp(system: LocalSystem, before: Run): Promise<Run> {
  expect(await requestFollowUp(system, before)).toMatchObject({ status: 200, body: { status: 'queued' } })
  return system.waitForEnd(before.ticket.identifier)
}

const pullOf = (system: LocalSystem, { prUrl }: Run) =>
  system.pulls('plain').find(({ number }) => prUrl?.endsWith(`/${number}.json`))

/** The comments on a run's pull request. */
const commentsOn = (system: LocalSystem, run: Run): string[] =>
  (pullOf(system, run)?.comments ?? []).map(({ body }) => body)

const pushesOf = (system: LocalSystem, { result }: Run): number =>
  system.pushes('plain').filter((ref) => ref === `refs/heads/${result?.branch}`).length

story(
  'a newer base, a conflict and a remark get one push and one comment each, even without the tracker',
  async () => {
    const tracker = { startedState: 'Doing', reviewState: 'Review' }
    const system = await LocalSystem.open({ local: true, tracker })
    await system.waitForOnlineWorkers(1)
    system.writeTicket('DRIFT-1', ['write lamp', '  bright', 'commit Add a lamp'])
    system.writeTicket('CLASH-1', ['write README.md', '  of the branch', 'commit Say it otherwise'])
    const drift = await system.waitForEnd('DRIFT-1')
    const clash = await system.waitForEnd('CLASH-1')
    const ticketOf = (name: string) => readFileSync(join(system.tickets, `${name}.md`), 'utf8')
    for (const name of ['DRIFT-1', 'CLASH-1'])
      await until(`${name} is in review`, () => ticketOf(name).includes('state: Review'))
    const tickets = ['DRIFT-1', 'CLASH-1'].map(ticketOf)
    pushToMain(system, { 'README.md': 'of main\n', base: 'of main\n' })
    await disconnectTracker(system)

    await expectRebase(system, drift)
    const resolved = await expectConflictResolved(system, clash)
    await expectNothingToDo(system, resolved)

    expect(['DRIFT-1', 'CLASH-1'].map(ticketOf)).toEqual(tickets)
    expect((await system.host.request('/api/runs')).body).toHaveLength(2)
    await system.waitForNoProcesses()
    expect(system.findLeaks()).toEqual([])
  },
)

/** Switches to a tracker without a key. */
async function disconnectTracker(system: LocalSystem): Promise<void> {
  const { url, token } = await system.host.waitForLaunch()
  const authorization = `Bearer ${token}`
  const { frames, opened, close } = connectSocket(Number(new URL(url).port), '/ws', { authorization })
  await opened
  const body = { patch: { tracker: { driver: 'linear' } }, confirm: ['tracker.driver'] }
  expect((await system.host.request('/api/settings', { method: 'PUT', body })).status).toBe(200)
  await until('a word on the tracker', () => frames.some(({ linearStatus }) => linearStatus !== undefined))
  await new DashboardClient(frames).waitForTracker('disconnected')
  close()
}

async function expectRebase(system: LocalSystem, before: Run): Promise<void> {
  const run = await completeFollowUp(system, before)
  expect([run.status, run.error, run.prState]).toEqual(['completed', undefined, 'open'])
  const branch = run.result?.branch ?? ''
  expect(system.commits('plain', branch)).toEqual(['Add a lamp'])
  expect(system.git('plain', 'show', `${branch}:base`)).toBe('of main')
  expect([pushesOf(system, run), labelsOf(run)]).toEqual([2, ['run']])
  const [comment, ...others] = commentsOn(system, run)
  expect([comment, others]).toEqual([expect.stringMatching(MARKER), []])
  expect(comment).toMatch(/^The branch was rebased onto the newest `main` .* without conflicts\. Pushed as /)
}

async function expectConflictResolved(system: LocalSystem, before: Run): Promise<Run> {
  const asked = agentRequest(
    'write README.md',
    '  of both',
    'run git add README.md && git rebase --continue',
    'artifact how.md',
    '  By taking both.',
    'say Took both.',
  )
  const comment = await system.host.request(`/api/pulls/plain/${pullOf(system, before)?.number}/comment`, {
    method: 'POST',
    body: { body: asked },
  })
  expect(comment.status).toBe(200)
  await waitForNextSecond()
  const eventsBefore = await system.events(before)
  const run = await completeFollowUp(system, before)
  expect([run.status, run.error]).toEqual(['completed', undefined])
  const branch = run.result?.branch ?? ''
  expect(system.git('plain', 'show', `${branch}:README.md`)).toBe('of both')
  expect(system.commits('plain', branch)).toEqual(['Say it otherwise'])
  expect(pushesOf(system, run)).toBe(2)
  const [, secondComment, ...others] = commentsOn(system, run)
  expect([secondComment, others]).toEqual([expect.stringMatching(MARKER), []])
  expect(secondComment).toMatch(/conflicts in `README\.md` were resolved\. Pushed as [\s\S]*Took both\./)
  const events = (await system.events(run)).slice(eventsBefore.length)
  expect(events.some(({ type }) => type === 'agent')).toBe(true)
  const charged = events.flatMap((event) => (event.type === 'cost' ? [event.entry.label] : []))
  expect(charged).toEqual(['follow-up 1'])
  expect(run.result?.artifacts).toContain('how.md')
  expectOwnCosts(before, run)
  return run
}

/** Within the same second, the order of comments is unknown. */
async function waitForNextSecond(): Promise<void> {
  const now = new Date().getUTCSeconds()
  await until('the next second has begun', () => new Date().getUTCSeconds() !== now)
}

/** A follow-up is billed only for its own usage, although it resumes the run's session. */
function expectOwnCosts(before: Run, run: Run): void {
  expect(labelsOf(run)).toEqual(['run', 'follow-up 1'])
  expect(run.agentSessionId).toBe(before.agentSessionId)
  const [first, second] = run.costs
  expect(first).toEqual(before.costs[0])
  const sum = (first?.costUsd ?? 0) + (second?.costUsd ?? 0)
  expect(run.costTotals?.costUsd).toBeCloseTo(sum, 10)
}

/** Our own comments cause no work, and people's remarks are answered: the pull request and the result stay. */
async function expectNothingToDo(system: LocalSystem, before: Run): Promise<void> {
  const run = await completeFollowUp(system, before)
  expect([run.status, run.error, labelsOf(run)]).toEqual(['completed', undefined, ['run', 'follow-up 1']])
  expect(pushesOf(system, run)).toBe(2)
  expect(logOf(await system.events(run))).toMatch(
    /nothing for an agent[\s\S]*holds the newest `main` .* already\. Nothing was changed, so nothing was pushed\./,
  )
  expect(commentsOn(system, run)).toHaveLength(2)
  expect(run.result).toEqual(before.result)
}

// ---- on a GitHub -----------------------------------------------------------------------------------------------------

const LAMP = ['write lamp', '  one', '  two', 'commit Add a lamp', 'say Added.']

function expectCompleted({ status, error, prState }: Run): void {
  expect([status, error, prState]).toEqual(['completed', undefined, 'open'])
}

story(
  'a fork’s branch is pushed to the fork, a thread is addressed, and other people’s commits are kept',
  async () => {
    const names = ['fork', 'race', 'thread']
    const scene = await FollowUpSystem.open(names, { local: true })
    await scene.system.waitForOnlineWorkers(1)
    const runs = new Map((await scene.openPulls(names, LAMP)).map((run) => [run.ticket.repo ?? '', run]))
    const runOf = (name: string) => runs.get(name) as Run
    for (const name of names) await scene.commitToBase(name, { base: 'of main\n' })
    await Promise.all([
      expectPushToFork(scene, runOf('fork')),
      expectForeignCommitKept(scene, runOf('race')),
      expectThreadAddressed(scene, runOf('thread')),
    ])
    await scene.system.waitForNoProcesses()
    expect(scene.system.findLeaks()).toEqual([])
    expect([scene.github.counters.bugs, scene.github.violations]).toEqual([[], []])
  },
)

async function expectPushToFork(scene: FollowUpSystem, before: Run): Promise<void> {
  const fork = await scene.moveToFork('fork', REVIEWER)
  await scene.requestFollowUp(before)
  expectCompleted(await scene.system.waitForEnd(identifierOf('fork')))
  // The commits from before the fork do not count.
  expect(scene.branchHistory('fork', fork)).toHaveLength(1)
  expect(scene.commits('fork', fork)).toEqual(['Add a lamp'])
  expect(scene.fileOnBranch('fork', 'base', fork)).toBe('of main')
  expect(scene.followUpComments('fork')).toHaveLength(1)
  expect(scene.github.branchSha('acme/fork', scene.branch('fork'))).toBeUndefined()
}

/** Another person pushes right before our push. */
async function expectForeignCommitKept(scene: FollowUpSystem, before: Run): Promise<void> {
  scene.comment('race', agentRequest('append lamp', '  three', 'say Made it three.'))
  const hold = scene.proxy.hold('before', /^POST \/acme\/race\.git\/git-receive-pack$/)
  await scene.requestFollowUp(before)
  await until('it is about to push', hold.hasArrived, TEST_MS_MAX)
  const theirs = await scene.commitToBranch('race', { theirs: 'theirs\n' })
  hold.release()
  expectCompleted(await scene.system.waitForEnd(identifierOf('race')))
  expect(scene.branchHistory('race')).toEqual([expect.any(String), theirs, expect.any(String)])
  expect(scene.commits('race')).toHaveLength(3)
  expect([scene.fileOnBranch('race', 'theirs'), scene.fileOnBranch('race', 'base')]).toEqual([
    'theirs',
    'of main',
  ])
  expect(scene.fileOnBranch('race', 'lamp')).toBe('one\ntwo\nthree')
  expect(scene.followUpComments('race')).toEqual([expect.stringContaining('Made it three.')])
}

async function expectThreadAddressed(scene: FollowUpSystem, before: Run): Promise<void> {
  const { github } = scene
  const at = { path: 'lamp', line: 2, author: REVIEWER }
  const done = await github.addThread('acme/thread', 1, {
    ...at,
    body: agentRequest('fail This is settled.'),
  })
  done.resolvedBy = REVIEWER
  await github.addThread('acme/thread', 1, {
    ...at,
    body: agentRequest('write lamp', '  one', '  2', 'say Now 2.'),
  })
  await scene.requestFollowUp(before)
  expectCompleted(await scene.system.waitForEnd(identifierOf('thread')))
  expect([scene.branchHistory('thread').length, scene.fileOnBranch('thread', 'lamp')]).toEqual([2, 'one\n2'])
  expect(scene.followUpComments('thread')).toEqual([expect.stringContaining('Now 2.')])
}

// ---- placement -------------------------------------------------------------------------------------------------------

story('a retained sandbox is reused, its worker is waited for, and a lost sandbox is replaced', async () => {
  const scene = await FollowUpSystem.open(['home'])
  const { system } = scene
  const keeper = await system.pairWorker()
  const [first] = (await scene.openPulls(['home'], LAMP)) as [Run]
  await system.pairWorker()
  await scene.commitToBase('home', { base: 'of main\n' })
  const [mark, planted] = ['work/.git/of-the-run', 'home/of-the-run'].map((path) =>
    join(system.sandboxOf(first) ?? '', path),
  ) as [string, string]
  for (const file of [mark, planted]) writeFileSync(file, '')

  scene.comment(
    'home',
    agentRequest(
      'run test -e .git/of-the-run && test ! -e ~/of-the-run',
      'append lamp',
      '  three',
      'say Three.',
    ),
  )
  await scene.requestFollowUp(first)
  const second = await scene.system.waitForEnd(identifierOf('home'))
  expectCompleted(second)
  expect([second.sandbox.workerId, second.agentSessionId]).toEqual([
    first.sandbox.workerId,
    first.agentSessionId,
  ])

  keeper.process.kill('SIGKILL')
  await keeper.exit
  await system.waitForOnlineWorkers(1)
  await scene.commitToBase('home', { base: 'of main, later\n' })
  scene.comment('home', agentRequest('run test ! -e .git/of-the-run', 'append lamp', '  four', 'say Four.'))
  const { id } = await scene.requestFollowUp(second)
  const waits = await system.waitForRun('HOME', 'waiting', ({ queueReason }) =>
    /holds the sandbox/.test(queueReason ?? ''),
  )
  expect(waits.status).toBe('queued')
  await system.host.request(`/api/workers/${second.sandbox.workerId}`, { method: 'DELETE' })
  const third = await scene.system.waitForEnd(identifierOf('home'))
  expectCompleted(third)
  expect(third.id).toBe(id)
  expect(third.sandbox.workerId).not.toBe(second.sandbox.workerId)
  expect([existsSync(mark), existsSync(planted)]).toEqual([true, false])
  expect(labelsOf(third)).toEqual(['run', 'follow-up 1', 'follow-up 2'])
  expect(scene.fileOnBranch('home', 'lamp')).toBe('one\ntwo\nthree\nfour')
  expect([scene.branchHistory('home').length, scene.followUpComments('home').length]).toEqual([3, 2])
  await system.waitForNoProcesses()
})
