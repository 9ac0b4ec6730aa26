/** Runs the suite of all code hosts, and local cases, against the local code host. */
import { existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import type { PullReference } from '../../../../core/ports/code-host.ts'
import { createLocalPullHost } from '../../../../providers/codehost/local/pulls.ts'
import { tempFolder } from '../../../support/temp-folder.ts'
import { type LocalBench, localBench, ME, REMOTE } from './local-fixture.ts'
import { git, granted, kindOf, logOf, makeBare, pullHostSuite, tipOf } from './pull-suite.ts'

pullHostSuite('the local code host', localBench)

const place = (number: number): PullReference => ({ remote: REMOTE, number })
const kept = ({ fileOf }: LocalBench, number: number) => JSON.parse(readFileSync(fileOf(number), 'utf8'))

/** Opens a pull request with its own branch. */
async function opened(bench: LocalBench, head: string): Promise<number> {
  if ((await tipOf(bench.bare, 'main')) === undefined) await bench.push('main', { files: { 'a.txt': 'a\n' } })
  await bench.push(head, { files: { [`${head}.txt`]: `${head}\n` } })
  return bench.open({ head })
}

describe('repositories', () => {
  test('bare repositories are listed with their descriptions, most recently pushed first', async () => {
    const bench = await localBench()
    await bench.push('main', { files: { 'a.txt': 'a\n' } })
    const newerRepository = join(bench.path, 'bo/desk.git')
    mkdirSync(join(bench.path, 'bo'))
    await makeBare(newerRepository)
    writeFileSync(join(newerRepository, 'description'), 'A desk\nand more')
    await git(newerRepository, ['symbolic-ref', 'HEAD', 'refs/heads/trunk'])
    mkdirSync(join(bench.path, 'bo/empty.git'))
    mkdirSync(join(bench.path, 'bo/.hidden.git'))
    writeFileSync(join(bench.path, 'notes.txt'), 'mine')
    bench.clock.jumpWallClock(60_000)
    const older = {
      description: '',
      defaultBranch: 'main',
      private: true,
      pushedAt: '2026-01-01T00:00:00.000Z',
    }
    expect(granted(await bench.host.repos())).toEqual([
      // An empty repository counts as pushed when its folder changed, but not in the future.
      {
        fullName: 'bo/desk',
        description: 'A desk',
        defaultBranch: 'trunk',
        private: true,
        pushedAt: '2026-01-01T00:01:00.000Z',
      },
      { fullName: REMOTE, ...older },
    ])
  })

  test('a missing folder is reported with its configuration key', async () => {
    const host = createLocalPullHost({
      path: join(tempFolder(), 'nowhere'),
      clock: (await localBench()).clock,
    })
    expect(await host.repos()).toMatchObject({
      refusal: { message: expect.stringContaining('codehost.path') },
    })
  })
})

describe('files written by hand', () => {
  const five = { title: 'By hand', state: 'open', baseBranch: 'main', headBranch: 'mine' }

  test('five fields are enough, and actions keep all others', async () => {
    const bench = await localBench()
    await opened(bench, 'mine')
    const file = bench.fileOf(7)
    writeFileSync(file, JSON.stringify({ number: 7, ...five }))
    const before = granted(await bench.host.detail(place(7)))
    expect(before).toMatchObject({ author: 'unknown', body: '', state: 'open', changedFiles: 1 })
    expect(await bench.host.comment(place(7), 'Words')).toMatchObject({ ok: true })
    expect(kept(bench, 7)).toMatchObject({ number: 7, ...five, createdAt: before.createdAt })
    expect(granted(await bench.host.detail(place(7))).conversation.comments).toMatchObject([
      { author: ME, body: 'Words' },
    ])
  })

  test('an unreadable file is logged once, refused by name, never rewritten, and affects no other', async () => {
    const bench = await localBench()
    const number = await opened(bench, 'one')
    const text = JSON.stringify({ number: 8, ...five, mood: 'good' })
    writeFileSync(bench.fileOf(8), text)
    for (let polls = 0; polls < 2; polls++) {
      expect(granted(await bench.host.list(REMOTE, 'person')).map((pull) => pull.number)).toEqual([number])
    }
    expect(bench.log.lines.map(({ message }) => message)).toEqual([
      `a pull request of ${REMOTE} cannot be read: 8.json: /mood: unknown key`,
    ])
    const answers = [await bench.host.detail(place(8)), await bench.host.comment(place(8), 'Words')]
    for (const answer of answers) {
      expect(answer).toMatchObject({
        refusal: { kind: 'invalid', message: expect.stringContaining('/mood') },
      })
    }
    expect(readFileSync(bench.fileOf(8), 'utf8')).toBe(text)
    expect([...granted(await bench.host.states(REMOTE, [8, number], 'person')).keys()]).toEqual([number])
  })

  test('a branch name from a file reaches git as a name only', async () => {
    const bench = await localBench()
    await opened(bench, 'mine')
    const planted = join(bench.path, 'planted')
    const names = [
      '--output=planted',
      `main --output=${planted}`,
      '*',
      'main^',
      'main~1',
      'HEAD',
      '@{-1}',
      'a..b',
      '\u0000',
      '../heads/mine',
    ]
    for (const [at, headBranch] of names.entries()) {
      const number = 100 + at
      writeFileSync(bench.fileOf(number), JSON.stringify({ number, ...five, headBranch }))
      expect(granted(await bench.host.detail(place(number)))).toMatchObject({
        headSha: '',
        files: [],
        mergeableState: 'unknown',
      })
      expect(kindOf(await bench.host.merge(place(number), 'merge'))).toBe('conflict')
    }
    expect(existsSync(planted)).toBe(false)
  })

  test('the folder of pull requests must not be a link', async () => {
    const bench = await localBench()
    await bench.push('main', { files: { 'a.txt': 'a\n' } })
    symlinkSync(tempFolder(), join(bench.path, `${REMOTE}.pulls`))
    expect(kindOf(await bench.host.list(REMOTE, 'person'))).toBe('invalid')
  })
})

describe('identities', () => {
  test('people act and merge under their git identity', async () => {
    const bench = await localBench()
    const number = await opened(bench, 'one')
    await bench.host.comment(place(number), 'Words')
    await bench.host.merge(place(number), 'merge')
    expect(kept(bench, number).comments).toMatchObject([{ author: ME }])
    expect(await git(bench.bare, ['log', '-1', '--format=%an <%ae>, %cn <%ce>', 'main'])).toBe(
      `${ME} <pat@example.org>, ${ME} <pat@example.org>\n`,
    )
  })

  test.each([
    ['', 'nothing'],
    ['[user]\n\tname = " .;"\n', 'a name of nothing'],
    ['no configuration', 'a broken file'],
  ])('people without a name are `you` (%j: %s)', async (text) => {
    const bench = await localBench()
    const number = await opened(bench, 'one')
    writeFileSync(join(bench.home, '.gitconfig'), text)
    expect(await bench.host.comment(place(number), 'Words')).toMatchObject({ ok: true })
    expect(await bench.host.merge(place(number), 'squash')).toMatchObject({ ok: true })
    expect(kept(bench, number).comments).toMatchObject([{ author: 'you' }])
  })
})

describe('merges', () => {
  test('a merge interrupted before its file was updated is detected at the next read', async () => {
    const bench = await localBench()
    for (const method of ['merge', 'squash', 'rebase'] as const) {
      const number = await opened(bench, method)
      const before = readFileSync(bench.fileOf(number))
      await bench.host.merge(place(number), method)
      writeFileSync(bench.fileOf(number), before)
      const tip = await tipOf(bench.bare, 'main')
      expect([...granted(await bench.host.states(REMOTE, [number], 'person'))]).toEqual([[number, 'merged']])
      expect(kept(bench, number)).toMatchObject({ state: 'merged', mergedAt: expect.any(String) })
      expect(kindOf(await bench.host.merge(place(number), method))).toBe('conflict')
      expect(await tipOf(bench.bare, 'main')).toBe(tip)
    }
  })

  test('a branch without commits of its own does not count as merged', async () => {
    const bench = await localBench()
    await bench.push('main', { files: { 'a.txt': 'a\n' } })
    await bench.push('main', { files: { 'b.txt': 'b\n' } })
    await git(bench.bare, ['update-ref', 'refs/heads/idle', 'refs/heads/main~1'])
    const number = await bench.open({ head: 'idle' })
    for (let polls = 0; polls < 2; polls++) {
      expect(granted(await bench.host.detail(place(number)))).toMatchObject({
        state: 'open',
        mergeableState: 'behind',
      })
    }
    expect(await bench.host.merge(place(number), 'merge')).toMatchObject({
      refusal: { kind: 'conflict', message: expect.stringContaining('nothing to merge') },
    })
    expect(kindOf(await bench.host.reopen(place(number)))).toBe('conflict')
  })

  test('a reused number does not inherit recorded commits', async () => {
    const bench = await localBench()
    const number = await opened(bench, 'one')
    await bench.host.merge(place(number), 'squash')
    const file = readFileSync(bench.fileOf(number))
    await bench.push('next', { files: { 'next.txt': 'n\n' } })
    writeFileSync(bench.fileOf(number), `${file}`.replaceAll('"one"', '"next"').replace('"merged"', '"open"'))
    for (let polls = 0; polls < 3; polls++) {
      expect(granted(await bench.host.detail(place(number)))).toMatchObject({
        state: 'open',
        mergeableState: 'clean',
      })
    }
  })

  test('concurrent merges into one branch either succeed or report a conflict, and none is lost', async () => {
    const bench = await localBench()
    const numbers: number[] = []
    for (let at = 0; at < 6; at++) numbers.push(await opened(bench, `b${at}`))
    const start = await tipOf(bench.bare, 'main')
    const answers = await Promise.all(numbers.map((number) => bench.host.merge(place(number), 'squash')))
    const made = answers.filter(({ ok }) => ok)
    expect(made.length).toBeGreaterThan(0)
    expect(await logOf(bench.bare, `${start}..main`)).toHaveLength(made.length)
    const states = granted(await bench.host.states(REMOTE, numbers, 'person'))
    expect(numbers.map((number) => states.get(number) === 'merged')).toEqual(answers.map(({ ok }) => ok))
  })

  test('a rebase keeps authors and times, skips applied changes, and stops at the first conflict', async () => {
    const bench = await localBench()
    await bench.push('main', { files: { 'a.txt': 'a\n' } })
    await bench.push('work', { files: { 'one.txt': '1\n' }, author: 'Bo', message: 'One' })
    bench.clock.jumpWallClock(60_000)
    await bench.push('work', { files: { 'two.txt': '2\n' }, author: 'Cy', message: 'Two\n\nWith words é' })
    await bench.push('main', { files: { 'one.txt': '1\n' }, message: 'One, picked' })
    const number = await bench.open({ head: 'work' })
    bench.clock.jumpWallClock(60_000)
    expect(await bench.host.merge(place(number), 'rebase')).toMatchObject({ ok: true })
    expect(await git(bench.bare, ['log', '-2', '--format=%an %at %cn %ct %B', 'main'])).toBe(
      [
        'Cy 1767225660 Pat Person 1767225720 Two\n\nWith words é',
        'Ada 1767225660 Pusher 1767225660 One, picked\n',
      ].join('\n'),
    )
    await bench.push('clash', { files: { 'fine.txt': 'f\n' } })
    await bench.push('clash', { files: { 'a.txt': 'theirs\n' } })
    await bench.push('main', { files: { 'a.txt': 'ours\n' } })
    const tip = await tipOf(bench.bare, 'main')
    expect(await bench.host.merge(place(await bench.open({ head: 'clash' })), 'rebase')).toMatchObject({
      refusal: { kind: 'conflict', message: expect.stringMatching(/ in a\.txt;/) },
    })
    expect(await tipOf(bench.bare, 'main')).toBe(tip)
  })

  test('a squash keeps the author and credits co-authors', async () => {
    const bench = await localBench()
    await bench.push('main', { files: { 'a.txt': 'a\n' } })
    for (const author of ['Bo', 'Cy', 'Bo']) {
      await bench.push('work', {
        files: { [`${author}.txt`]: `${Math.random()}\n` },
        author,
        message: `By ${author}`,
      })
    }
    const number = await bench.open({ head: 'work', title: 'Work\ntogether' })
    await bench.host.merge(place(number), 'squash')
    expect(await git(bench.bare, ['log', '-1', '--format=%an, %cn%n%B', 'main'])).toBe(
      `Bo, ${ME}\nWork together (#${number})\n\n* By Bo\n* By Cy\n* By Bo\n\nCo-authored-by: Cy <cy@example.org>\n\n`,
    )
  })

  test('branches without a common history are readable but not mergeable', async () => {
    const bench = await localBench()
    await bench.push('main', { files: { 'a.txt': 'a\n' } })
    const tree = (await git(bench.bare, ['rev-parse', 'main^{tree}'])).trim()
    const as = ['-c', 'user.name=a', '-c', 'user.email=a@b']
    const root = (await git(bench.bare, [...as, 'commit-tree', tree, '-m', 'Alone'])).trim()
    await git(bench.bare, ['update-ref', 'refs/heads/alone', root])
    const number = await bench.open({ head: 'alone' })
    expect(granted(await bench.host.detail(place(number)))).toMatchObject({
      changedFiles: 1,
      commits: [{ message: 'Alone' }],
      mergeableState: 'blocked',
    })
    for (const method of ['merge', 'squash', 'rebase'] as const) {
      expect(await bench.host.merge(place(number), method)).toMatchObject({
        refusal: { kind: 'conflict', message: expect.stringContaining('no history in common') },
      })
    }
  })

  test('no temporary files are left', async () => {
    const bench = await localBench()
    const number = await opened(bench, 'one')
    await bench.host.comment(place(number), 'Words')
    await bench.host.merge(place(number), 'merge')
    expect(readdirSync(join(bench.path, `${REMOTE}.pulls`))).toEqual([`${number}.json`])
    expect(readdirSync(bench.path)).toEqual(['ada'])
  })
})
