/**
 * Follow-ups of pull requests: rebase onto the newest base, resolve conflicts, address remarks. Real hosts, workers,
 * sandboxes and git, on the local code host and on a fake GitHub.
 */
import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import type { Run, RunEvent } from '../../protocol/run.ts'
import { Dashboard } from '../support/dashboard-client.ts'
import { Followed, identifierOf, please, REVIEWER } from '../support/follow-up-system.ts'
import { Yard } from '../support/local-system.ts'
import { until } from '../support/real-files.ts'
import { socketClient } from '../support/socket-client.ts'

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
function onMain(system: Yard, files: Readonly<Record<string, string>>): void {
  const work = join(system.folder, 'draft', 'plain')
  for (const [path, text] of Object.entries(files)) writeFileSync(join(work, path), text)
  const as = ['-c', 'user.name=Bo Example', '-c', 'user.email=bo@example.org']
  const git = (...args: string[]) => execFileSync('git', ['-C', work, ...as, ...args], { stdio: 'pipe' })
  git('add', '--all')
  git('commit', '--quiet', '--message', 'Go on')
  git('push', '--quiet', system.bare('plain'), 'main')
}

const followUp = ({ host }: Yard, { id }: Run) => host.ask(`/api/runs/${id}/followup`, { method: 'POST' })

async function followedUp(system: Yard, before: Run): Promise<Run> {
  expect(await followUp(system, before)).toMatchObject({ status: 200, body: { status: 'queued' } })
  return system.ends(before.ticket.identifier)
}

const pullOf = (system: Yard, { prUrl }: Run) =>
  system.pulls('plain').find(({ number }) => prUrl?.endsWith(`/${number}.json`))

/** The comments on a run's pull request. */
const saidOn = (system: Yard, run: Run): string[] =>
  (pullOf(system, run)?.comments ?? []).map(({ body }) => body)

const pushesOf = (system: Yard, { result }: Run): number =>
  system.pushes('plain').filter((ref) => ref === `refs/heads/${result?.branch}`).length

story(
  'a newer base, a conflict and a remark get one push and one comment each, even without the tracker',
  async () => {
    const tracker = { startedState: 'Doing', reviewState: 'Review' }
    const system = await Yard.open({ local: true, tracker })
    await system.online(1)
    system.ticket('DRIFT-1', ['write lamp', '  bright', 'commit Add a lamp'])
    system.ticket('CLASH-1', ['write README.md', '  of the branch', 'commit Say it otherwise'])
    const drift = await system.ends('DRIFT-1')
    const clash = await system.ends('CLASH-1')
    const ticketOf = (name: string) => readFileSync(join(system.tickets, `${name}.md`), 'utf8')
    for (const name of ['DRIFT-1', 'CLASH-1'])
      await until(`${name} is in review`, () => ticketOf(name).includes('state: Review'))
    const tickets = ['DRIFT-1', 'CLASH-1'].map(ticketOf)
    onMain(system, { 'README.md': 'of main\n', other: 'of main\n' })
    await isDisconnected(system)

    await onlyDrifted(system, drift)
    const resolved = await inConflict(system, clash)
    await nothingToDo(system, resolved)

    expect(['DRIFT-1', 'CLASH-1'].map(ticketOf)).toEqual(tickets)
    expect((await system.host.ask('/api/runs')).body).toHaveLength(2)
    await system.deserted()
    expect(system.leaks()).toEqual([])
  },
)

/** Switches to a tracker without a key. */
async function isDisconnected(system: Yard): Promise<void> {
  const { url, token } = await system.host.launched()
  const authorization = `Bearer ${token}`
  const { frames, opened, close } = socketClient(Number(new URL(url).port), '/ws', { authorization })
  await opened
  const body = { patch: { tracker: { driver: 'linear' } } }
  expect((await system.host.ask('/api/settings', { method: 'PUT', body })).status).toBe(200)
  await until('a word on the tracker', () => frames.some(({ linearStatus }) => linearStatus !== undefined))
  await new Dashboard(frames).trackerIs('disconnected')
  close()
}

async function onlyDrifted(system: Yard, before: Run): Promise<void> {
  const run = await followedUp(system, before)
  expect([run.status, run.error, run.prState]).toEqual(['completed', undefined, 'open'])
  const branch = run.result?.branch ?? ''
  expect(system.commits('plain', branch)).toEqual(['Add a lamp'])
  expect(system.git('plain', 'show', `${branch}:other`)).toBe('of main')
  expect([pushesOf(system, run), labelsOf(run)]).toEqual([2, ['run']])
  const [said, ...others] = saidOn(system, run)
  expect([said, others]).toEqual([expect.stringMatching(MARKER), []])
  expect(said).toMatch(/^The branch was rebased onto the newest `main` .* without conflicts\. Pushed as /)
}

async function inConflict(system: Yard, before: Run): Promise<Run> {
  const asked = please(
    'write README.md',
    '  of both',
    'run git add README.md && git rebase --continue',
    'artifact how.md',
    '  By taking both.',
    'say Took both.',
  )
  const comment = await system.host.ask(`/api/pulls/plain/${pullOf(system, before)?.number}/comment`, {
    method: 'POST',
    body: { body: asked },
  })
  expect(comment.status).toBe(200)
  await anotherSecond()
  const eventsBefore = await system.events(before)
  const run = await followedUp(system, before)
  expect([run.status, run.error]).toEqual(['completed', undefined])
  const branch = run.result?.branch ?? ''
  expect(system.git('plain', 'show', `${branch}:README.md`)).toBe('of both')
  expect(system.commits('plain', branch)).toEqual(['Say it otherwise'])
  expect(pushesOf(system, run)).toBe(2)
  const [, said, ...others] = saidOn(system, run)
  expect([said, others]).toEqual([expect.stringMatching(MARKER), []])
  expect(said).toMatch(/conflicts in `README\.md` were resolved\. Pushed as [\s\S]*Took both\./)
  const events = (await system.events(run)).slice(eventsBefore.length)
  expect(events.some(({ type }) => type === 'agent')).toBe(true)
  expect(run.result?.artifacts).toContain('how.md')
  costsMore(before, run)
  return run
}

/** Within the same second, the order of comments is unknown. */
async function anotherSecond(): Promise<void> {
  const now = new Date().getUTCSeconds()
  await until('the next second has begun', () => new Date().getUTCSeconds() !== now)
}

/** A follow-up is billed only for its own usage, although it resumes the run's session. */
function costsMore(before: Run, run: Run): void {
  expect(labelsOf(run)).toEqual(['run', 'follow-up 1'])
  expect(run.agentSessionId).toBe(before.agentSessionId)
  const [first, second] = run.costs
  expect(first).toEqual(before.costs[0])
  const sum = (first?.costUsd ?? 0) + (second?.costUsd ?? 0)
  expect(run.costTotals?.costUsd).toBeCloseTo(sum, 10)
}

/** Our own comments cause no follow-up, and people's remarks are answered. */
async function nothingToDo(system: Yard, before: Run): Promise<void> {
  const run = await followedUp(system, before)
  expect([run.status, run.error, labelsOf(run)]).toEqual(['completed', undefined, ['run', 'follow-up 1']])
  expect(pushesOf(system, run)).toBe(2)
  expect(logOf(await system.events(run))).toContain('there is nothing for an agent to do')
  const said = saidOn(system, run)
  expect(said).toHaveLength(3)
  expect(said[2]).toMatch(/holds the newest `main` .* already\. Nothing was changed, so nothing was pushed\./)
}

// ---- on a GitHub -----------------------------------------------------------------------------------------------------

const LAMP = ['write lamp', '  one', '  two', 'commit Add a lamp', 'say Added.']

function isCompleted({ status, error, prState }: Run): void {
  expect([status, error, prState]).toEqual(['completed', undefined, 'open'])
}

story(
  'a fork’s branch is pushed to the fork, a thread is addressed, and other people’s commits are kept',
  async () => {
    const names = ['fork', 'race', 'thread']
    const scene = await Followed.open(names, { local: true })
    await scene.system.online(1)
    const runs = new Map((await scene.opened(names, LAMP)).map((run) => [run.ticket.repo ?? '', run]))
    const runOf = (name: string) => runs.get(name) as Run
    for (const name of names) await scene.onBase(name, { other: 'of main\n' })
    await Promise.all([
      toItsFork(scene, runOf('fork')),
      overtaken(scene, runOf('race')),
      addressed(scene, runOf('thread')),
    ])
    await scene.system.deserted()
    expect(scene.system.leaks()).toEqual([])
    expect([scene.github.counters.bugs, scene.github.violations]).toEqual([[], []])
  },
)

async function toItsFork(scene: Followed, before: Run): Promise<void> {
  const fork = await scene.fromFork('fork', REVIEWER)
  await scene.followUp(before)
  isCompleted(await scene.system.ends(identifierOf('fork')))
  // The commits from before the fork do not count.
  expect(scene.stood('fork', fork)).toHaveLength(1)
  expect(scene.commits('fork', fork)).toEqual(['Add a lamp'])
  expect(scene.shown('fork', 'other', fork)).toBe('of main')
  expect(scene.comments('fork')).toHaveLength(1)
  expect(scene.github.branchSha('acme/fork', scene.branch('fork'))).toBeUndefined()
}

/** Another person pushes right before our push. */
async function overtaken(scene: Followed, before: Run): Promise<void> {
  scene.say('race', please('append lamp', '  three', 'say Made it three.'))
  const hold = scene.turnstile.hold('before', /^POST \/acme\/race\.git\/git-receive-pack$/)
  await scene.followUp(before)
  await until('it is about to push', hold.isThere, TEST_MS_MAX)
  const theirs = await scene.onBranch('race', { theirs: 'theirs\n' })
  hold.release()
  isCompleted(await scene.system.ends(identifierOf('race')))
  expect(scene.stood('race')).toEqual([expect.any(String), theirs, expect.any(String)])
  expect(scene.commits('race')).toHaveLength(3)
  expect([scene.shown('race', 'theirs'), scene.shown('race', 'other')]).toEqual(['theirs', 'of main'])
  expect(scene.shown('race', 'lamp')).toBe('one\ntwo\nthree')
  expect(scene.comments('race')).toEqual([expect.stringContaining('Made it three.')])
}

async function addressed(scene: Followed, before: Run): Promise<void> {
  const { github } = scene
  const at = { path: 'lamp', line: 2, author: REVIEWER }
  const done = await github.addThread('acme/thread', 1, { ...at, body: please('fail This is settled.') })
  done.resolvedBy = REVIEWER
  await github.addThread('acme/thread', 1, {
    ...at,
    body: please('write lamp', '  one', '  2', 'say Now 2.'),
  })
  await scene.followUp(before)
  isCompleted(await scene.system.ends(identifierOf('thread')))
  expect([scene.stood('thread').length, scene.shown('thread', 'lamp')]).toEqual([2, 'one\n2'])
  expect(scene.comments('thread')).toEqual([expect.stringContaining('Now 2.')])
}

// ---- placement -------------------------------------------------------------------------------------------------------

story('a retained sandbox is reused, its worker is waited for, and a lost sandbox is replaced', async () => {
  const scene = await Followed.open(['home'])
  const { system } = scene
  const keeper = await system.enrol()
  const [first] = (await scene.opened(['home'], LAMP)) as [Run]
  await system.enrol()
  await scene.onBase('home', { other: 'of main\n' })
  const secret = join(system.sandboxOf(first) ?? '', 'home', 'of-the-run')
  writeFileSync(secret, '')

  scene.say('home', please('run test -e ~/of-the-run', 'append lamp', '  three', 'say Three.'))
  await scene.followUp(first)
  const second = await scene.system.ends(identifierOf('home'))
  isCompleted(second)
  expect([second.sandbox.workerId, second.agentSessionId]).toEqual([
    first.sandbox.workerId,
    first.agentSessionId,
  ])

  keeper.process.kill('SIGKILL')
  await keeper.exit
  await system.online(1)
  await scene.onBase('home', { other: 'of main, later\n' })
  scene.say('home', please('run test ! -e ~/of-the-run', 'append lamp', '  four', 'say Four.'))
  const { id } = await scene.followUp(second)
  const waits = await system.runIs('HOME', 'waiting', ({ queueReason }) =>
    /holds the sandbox/.test(queueReason ?? ''),
  )
  expect(waits.status).toBe('queued')
  await system.host.ask(`/api/workers/${second.sandbox.workerId}`, { method: 'DELETE' })
  const third = await scene.system.ends(identifierOf('home'))
  isCompleted(third)
  expect(third.id).toBe(id)
  expect(third.sandbox.workerId).not.toBe(second.sandbox.workerId)
  expect(existsSync(secret)).toBe(true)
  expect(labelsOf(third)).toEqual(['run', 'follow-up 1', 'follow-up 2'])
  expect(scene.shown('home', 'lamp')).toBe('one\ntwo\nthree\nfour')
  expect([scene.stood('home').length, scene.comments('home').length]).toEqual([3, 2])
  await system.deserted()
})
