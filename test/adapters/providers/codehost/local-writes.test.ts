/** Concurrent and killed writers of one local pull request. */
import { existsSync, readdirSync, readFileSync, utimesSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { expect, test } from '@jest/globals'
import { yes } from '../../../../core/result.ts'
import { createChecker } from '../../../../protocol/parse.ts'
import { KeptPull } from '../../../../protocol/pulls.ts'
import { mergePull } from '../../../../providers/codehost/local/git-merge.ts'
import { createGitRunner, type RunGit } from '../../../../providers/codehost/local/git-run.ts'
import { PullFolder } from '../../../../providers/codehost/local/pull-folder.ts'
import { runTypeScript } from '../../../support/child-process.ts'
import { ManualClock } from '../../../support/manual-clock.ts'
import { until } from '../../../support/until.ts'
import { type LocalBench, localBench, REMOTE } from './local-fixture.ts'
import { git, granted, kindOf, tipOf } from './pull-suite.ts'

const ENTRY = 'test/adapters/providers/codehost/local-writer.ts'
const place = { remote: REMOTE, number: 1 }

async function withPull(): Promise<LocalBench> {
  const bench = await localBench()
  await bench.push('main', { files: { 'a.txt': 'a\n' } })
  await bench.push('work', { files: { 'b.txt': 'b\n' } })
  await bench.open({ head: 'work' })
  return bench
}

function bodiesIn({ fileOf }: LocalBench): string[] {
  const checked = createChecker(KeptPull)(JSON.parse(readFileSync(fileOf(1), 'utf8')))
  if (!checked.ok) throw new Error(checked.error)
  const { comments = [] } = checked.value
  expect(new Set(comments.map(({ id }) => id)).size).toBe(comments.length)
  return comments.map(({ body }) => body)
}

/**
 * Tells whether any process uses this folder. Lock files alone do not tell, because a git may be about to create one.
 */
function isAtWork(path: string): boolean {
  return readdirSync('/proc').some((pid) => /^\d+$/.test(pid) && commandLineOf(pid).includes(path))
}

function commandLineOf(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8')
  } catch {
    // The process has ended.
    return ''
  }
}

const lockOf = ({ fileOf }: LocalBench) => join(dirname(fileOf(1)), '.1.lock')

test('two concurrent processes lose no write', async () => {
  const bench = await withPull()
  const writers = ['one', 'two'].map((name) =>
    runTypeScript(ENTRY, ['comment', bench.path, REMOTE, '15', name]),
  )
  await Promise.all(writers.map(({ ended }) => ended))
  const written = writers.flatMap(({ lines }) => lines)
  expect(writers.flatMap(({ errors }) => errors)).toEqual([])
  expect(written).toHaveLength(30)
  expect(bodiesIn(bench).sort()).toEqual(written.sort())
}, 60_000)

test('a concurrent edit by hand is kept, and the change is applied to it', async () => {
  const bench = await withPull()
  const folder = new PullFolder(dirname(bench.fileOf(1)))
  let saves = 0
  const change = (savesMax: number) =>
    folder.change(
      1,
      (pull) => {
        if (saves < savesMax) bench.edit(1, () => ({ title: `Save ${++saves}` }))
        return yes({ ...pull, body: `Upon ${pull.title}` })
      },
      bench.clock,
    )
  expect(await change(3)).toMatchObject({ ok: true, value: { title: 'Save 3', body: 'Upon Save 3' } })
  expect(JSON.parse(readFileSync(bench.fileOf(1), 'utf8'))).toMatchObject({
    title: 'Save 3',
    body: 'Upon Save 3',
  })
  // Gives up against a writer that never pauses.
  expect(kindOf(await change(1_000))).toBe('conflict')
  expect(JSON.parse(readFileSync(bench.fileOf(1), 'utf8'))).toMatchObject({
    title: `Save ${saves}`,
    body: 'Upon Save 3',
  })
})

test('concurrent changes in one process queue up', async () => {
  const bench = await withPull()
  const words = Array.from({ length: 20 }, (_, at) => `Words ${at}`)
  const answers = await Promise.all(words.map((body) => bench.host.comment(place, body)))
  expect(answers.every(({ ok }) => ok)).toBe(true)
  expect(bodiesIn(bench).sort()).toEqual(words.sort())
})

test('a killed writer leaves a complete file and a lock that expires', async () => {
  const bench = await withPull()
  for (let round = 0; round < 4; round++) {
    const writer = runTypeScript(ENTRY, ['comment', bench.path, REMOTE, '1000', `round ${round}`])
    await until('a few comments', () => writer.lines.length > 2 + round, 30_000)
    writer.process.kill('SIGKILL')
    await writer.ended
    const bodies = bodiesIn(bench)
    for (const line of writer.lines) expect(bodies).toContain(line)
    // Makes a left lock look old enough to be removed.
    if (existsSync(lockOf(bench))) utimesSync(lockOf(bench), 0, 0)
  }
  expect(await bench.host.comment(place, 'After all')).toMatchObject({ ok: true })
  expect(bodiesIn(bench)).toContain('After all')
  expect(existsSync(lockOf(bench))).toBe(false)
}, 60_000)

test('a foreign lock is waited for, and removed when it is old', async () => {
  const bench = await withPull()
  writeFileSync(lockOf(bench), '')
  const waiting = bench.host.comment(place, 'Later')
  await until('somebody waits', () => bench.clock.timers > 0)
  expect(bodiesIn(bench)).toEqual([])
  utimesSync(lockOf(bench), 0, 0)
  let done = false
  void waiting.then(() => {
    done = true
  })
  await until('it is done', async () => {
    await bench.clock.advance(10)
    return done
  })
  expect(bodiesIn(bench)).toEqual(['Later'])
  expect(readdirSync(dirname(lockOf(bench)))).toEqual(['1.json'])
})

test('a change beyond the size limit is refused before any write', async () => {
  const bench = await withPull()
  const comment = (at: number) => ({
    id: `x${at}`,
    author: 'Bo',
    body: 'b',
    createdAt: '2026-01-01T00:00:00.000Z',
    url: 'file:///x',
  })
  bench.edit(1, () => ({ comments: Array.from({ length: 1_000 }, (_, at) => comment(at)) }))
  const before = readFileSync(bench.fileOf(1), 'utf8')
  expect(kindOf(await bench.host.comment(place, 'One more'))).toBe('conflict')
  expect(readFileSync(bench.fileOf(1), 'utf8')).toBe(before)
  bench.edit(1, () => ({
    comments: Array.from({ length: 41 }, (_, at) => ({ ...comment(at), body: 'x'.repeat(100_000) })),
  }))
  expect(kindOf(await bench.host.comment(place, 'x'.repeat(120_000)))).toBe('conflict')
  expect(kindOf(await bench.host.comment(place, 'x'.repeat(200_000)))).toBe('invalid')
})

test('git ends with all its children on timeout and when its parent is killed', async () => {
  const { bare } = await withPull()
  const pid = () => Number(readFileSync(join(bare, 'pid'), 'utf8'))
  const isAlive = () => existsSync(`/proc/${pid()}`)
  const started = () => existsSync(join(bare, 'pid')) && pid() > 0
  const clock = new ManualClock()
  const asked = createGitRunner(clock)(bare)({
    args: ['-c', `alias.wait=!echo $$ > '${bare}/pid'; sleep 600`, 'wait'],
  })
  await until('git to have begun', started)
  await clock.advance(60_000)
  expect(await asked).toMatchObject({
    refusal: { kind: 'failed', message: expect.stringContaining('more than 20 s') },
  })
  await until('all of it to have ended', () => !isAlive())
  writeFileSync(join(bare, 'pid'), '')
  const child = runTypeScript(ENTRY, ['wait', bare])
  await until('git to have begun', started, 30_000)
  child.process.kill('SIGKILL')
  await until('all of it to have ended', () => !isAlive())
}, 60_000)

test('a commit that came after the person looked is not merged', async () => {
  const bench = await withPull()
  const seen = granted(await bench.host.detail(place)).headSha
  await bench.push('work', { files: { 'late.txt': 'unseen\n' } })
  expect(await bench.host.merge(place, 'squash', seen)).toMatchObject({
    refusal: { kind: 'conflict', message: expect.stringContaining('look at the pull request again') },
  })
  const now = granted(await bench.host.detail(place)).headSha
  expect(await bench.host.merge(place, 'squash', now)).toMatchObject({ ok: true })
})

test('after a concurrent merge and close, merged commits count as merged', async () => {
  for (let waitTurns = 0; waitTurns < 4; waitTurns++) {
    const bench = await withPull()
    const merging = bench.host.merge(place, 'squash')
    for (let turn = 0; turn < waitTurns * 50; turn++) await new Promise((resolve) => setImmediate(resolve))
    await bench.host.close(place)
    const { ok } = await merging
    const states = granted(await bench.host.states(REMOTE, [1], 'person'))
    expect(states.get(1)).toBe(ok ? 'merged' : 'closed')
  }
}, 60_000)

test('a process killed during a merge leaves no git lock and no partial merge', async () => {
  const bench = await localBench()
  await bench.push('main', { files: { 'a.txt': 'a\n' } })
  const numbers: number[] = []
  for (let at = 0; at < 30; at++) {
    await bench.push(`work${at}`, { files: { [`${at}.txt`]: 'b\n' } })
    numbers.push(await bench.open({ head: `work${at}` }))
  }
  const gitLocks = () =>
    readdirSync(bench.bare, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.lock'))
  const isMoving = () => existsSync(join(bench.bare, 'refs/heads/main.lock'))
  for (let round = 0; round < 4; round++) {
    const writer = runTypeScript(ENTRY, ['merge', bench.path, REMOTE, '30'])
    await until('it has begun', () => writer.lines.length > 0, 30_000)
    // The moment is short, so poll without a pause, except once in a thousand polls.
    for (let polls = 0; !isMoving() && writer.lines.length < 6; polls++)
      if (polls % 1_000 === 999) await new Promise((resolve) => setImmediate(resolve))
    writer.process.kill('SIGKILL')
    await writer.ended
    await until('git to have ended', () => !isAtWork(bench.path))
    expect(gitLocks()).toEqual([])
  }
  const subjects = (await git(bench.bare, ['log', '--format=%s', 'main'])).split('\n')
  const states = granted(await bench.host.states(REMOTE, numbers, 'person'))
  const cameIn = numbers.filter((number) => subjects.some((subject) => subject.endsWith(`(#${number})`)))
  expect(cameIn.length).toBeGreaterThan(3)
  expect(numbers.filter((number) => states.get(number) === 'merged')).toEqual(cameIn)
}, 120_000)

test('a ref update finishes when its parent is killed, and gets SIGTERM on timeout', async () => {
  const { bare } = await withPull()
  const has = (name: string) => existsSync(join(bare, name))
  const child = runTypeScript(ENTRY, ['move', bare])
  await until('git to have begun', () => has('begun'), 30_000)
  child.process.kill('SIGKILL')
  await child.ended
  expect(has('done')).toBe(false)
  writeFileSync(join(bare, 'go'), '')
  await until('git to have done it', () => has('done'))
  const clock = new ManualClock()
  const trap = `alias.wait=!trap "echo > '${bare}/asked'; exit 1" TERM; echo > '${bare}/late'; while :; do sleep 0.05; done`
  const asked = createGitRunner(clock)(bare)({ args: ['-c', trap, 'wait'], mustFinish: true })
  await until('git to have begun', () => has('late'))
  await clock.advance(60_000)
  expect(await asked).toMatchObject({ refusal: { message: expect.stringContaining('more than 20 s') } })
  expect(has('asked')).toBe(true)
}, 60_000)

test('a merge that only moved the base branch before a crash is detected', async () => {
  for (const method of ['merge', 'squash', 'rebase'] as const) {
    const bench = await withPull()
    const head = (await tipOf(bench.bare, 'work')) ?? ''
    await bench.push('main', { files: { 'c.txt': 'c\n' } })
    const run = createGitRunner(bench.clock)(bench.bare)
    const onlyBase: RunGit = (order) => {
      const [line] = /^update refs\/heads\/.*\n/m.exec(order.input ?? '') ?? []
      return run(line === undefined ? order : { ...order, input: line })
    }
    const words = { number: 1, title: 'T', owner: 'ada', headBranch: 'work', baseBranch: 'main' }
    const committer = { name: 'P', email: 'p@x' }
    const tip = (await tipOf(bench.bare, 'main')) ?? ''
    const input = { ...words, committer, head, base: tip, baseRef: 'refs/heads/main', atMs: 0 }
    expect(await mergePull(onlyBase, method, input)).toEqual({ ok: true, value: 'merged' })
    expect(await tipOf(bench.bare, 'main')).not.toBe(tip)
    expect(granted(await bench.host.states(REMOTE, [1], 'person')).get(1)).toBe('merged')
  }
})
