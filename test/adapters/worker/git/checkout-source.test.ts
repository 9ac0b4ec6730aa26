/** The repository inside a sandbox consists of one branch, in few files, and nothing of other runs. */
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { cpSync, existsSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import type { Job } from '../../../../protocol/frames.ts'
import {
  aJob,
  commitAsPerson,
  createGitFixture,
  type GitFixture,
  git,
  got,
  never,
  type RunFixture,
} from './git-fixture.ts'

const BRANCH = 'switchyard/eng-12'
const OTHERS = 30
/** Far below the loose objects of the other branches, which are three for each. */
const FILES_MAX = 40

const aFollowUp = (headRemote = 'ada/lamps'): Job =>
  aJob({
    kind: 'follow-up',
    followUp: { id: 'fu-1', number: 1 },
    pull: {
      number: 1,
      url: 'https://code.example/1',
      headBranch: BRANCH,
      headRemote,
      baseBranch: 'main',
      threads: [],
      reviews: [],
      comments: [],
    },
  })

/** Pushes a new file on a new branch; returns its blob. */
function pushWork(g: Pick<GitFixture, 'remote'>, branch: string): string {
  const text = `work on ${branch}\n`
  commitAsPerson(g, branch, 'work', text, `Work on ${branch}`)
  return createHash('sha1').update(`blob ${text.length}\0${text}`).digest('hex')
}

/** Returns the new commit of main. */
const moveMain = (g: GitFixture, subject: string) => commitAsPerson(g, 'main', undefined, '', subject)

async function checkedOut(g: GitFixture): Promise<RunFixture> {
  const run = g.run()
  got(await g.sources.checkOut(aJob(), run.folders, run.sandbox, never))
  return run
}

async function begun(g: GitFixture, run: RunFixture, isRetained = false, job = aFollowUp()) {
  const { folders, sandbox } = run
  return got(await g.sources.followUps.begin({ job, folders, sandbox, isRetained }, never))
}

const refsOf = (run: RunFixture) => run.sh('git for-each-ref --format="%(refname)"')
const looseIn = (run: RunFixture) => run.sh('git count-objects')
const has = async (run: RunFixture, object: string) =>
  (await run.sh(`git cat-file -e ${object} 2> /dev/null && echo yes || echo no`)) === 'yes'
const filesIn = (run: RunFixture) =>
  readdirSync(run.folders.work, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile())
const mirrorOf = (g: GitFixture) => {
  const folder = join(g.folder, 'worker/repositories')
  return join(folder, readdirSync(folder)[0] ?? '')
}

describe('the repository in a sandbox', () => {
  test('of the n-th run has one branch, packed, in as few files as that of the first', async () => {
    const g = createGitFixture()
    const first = filesIn(await checkedOut(g)).length
    const blobs = Array.from({ length: OTHERS }, (_, n) => pushWork(g, `switchyard/other-${n}`))
    expect(git(g.remote, 'count-objects')).toMatch(/^\d\d+ objects/)
    const run = await checkedOut(g)
    expect((await refsOf(run)).split('\n')).toEqual([
      'refs/heads/main',
      `refs/heads/${BRANCH}`,
      'refs/remotes/origin/HEAD',
      'refs/remotes/origin/main',
    ])
    expect(await looseIn(run)).toMatch(/^0 objects/)
    expect(filesIn(run)).toHaveLength(first)
    expect(first).toBeLessThan(FILES_MAX)
    expect(await Promise.all(blobs.map((blob) => has(run, blob)))).toEqual(blobs.map(() => false))
    expect(await run.sh('git config remote.origin.fetch')).toBe('+refs/heads/main:refs/remotes/origin/main')
  })

  test('has the tags of its branch, and not those of others', async () => {
    const g = createGitFixture()
    git(g.remote, 'tag', '-a', '-m', 'One', 'v1', 'main')
    pushWork(g, 'other')
    git(g.remote, 'tag', 'v2-beta', 'other')
    const run = await checkedOut(g)
    expect(await run.sh('git tag; git describe')).toBe('v1\nv1')
  })

  test.each<[string, readonly string[], string, string]>([
    ['moved on the branch', ['tag', '-f', 'v1', 'main'], 'v1', 'main'],
    ['was made anew with another message', ['tag', '-f', '-a', '-m', 'New', 'v1', 'main~1'], 'v1', 'main~1'],
    ['moved to another branch', ['tag', '-f', 'v1', 'other'], '', ''],
    ['was deleted', ['tag', '-d', 'v1'], '', ''],
  ])('has no tag as it was before it %s', async (_, change, tags, commit) => {
    const g = createGitFixture()
    git(g.remote, 'tag', '-a', '-m', 'Old', 'v1', 'main~1')
    pushWork(g, 'other')
    const before = await checkedOut(g)
    expect(await before.sh('git tag')).toBe('v1')
    git(g.remote, ...change)
    const expected = tags === '' ? '' : git(g.remote, 'rev-parse', tags, commit).replace('\n', ' ')
    const tagsOf = (run: RunFixture) =>
      run.sh('for tag in $(git tag); do echo $(git rev-parse $tag $tag^{commit}); done')
    expect(await tagsOf(await checkedOut(g))).toBe(expected)
    pushWork(g, BRANCH)
    await before.sh('git tag mine "$(echo My work | git commit-tree HEAD^{tree} -p HEAD)"')
    await begun(g, before, true)
    await before.sh('git rev-parse mine; git tag -d mine')
    expect(await tagsOf(before)).toBe(expected)
  })

  test('has each of many tags once, also when they stay', async () => {
    const g = createGitFixture()
    const names = Array.from({ length: 6_000 }, (_, n) => `create refs/tags/a-long-name-of-a-tag-${n} main\n`)
    execFileSync('git', ['-C', g.remote, 'update-ref', '--stdin'], { input: names.join('') })
    await checkedOut(g)
    git(g.remote, 'update-ref', '-d', 'refs/tags/a-long-name-of-a-tag-5999')
    const run = await checkedOut(g)
    expect(await run.sh('git tag | wc -l; git tag -l a-long-name-of-a-tag-5999')).toBe('5999')
  }, 120_000)

  test('that continues a pushed branch has this branch too, and not those of others', async () => {
    const g = createGitFixture()
    const [own, unmerged] = [pushWork(g, BRANCH), pushWork(g, 'switchyard/other')]
    const run = await checkedOut(g)
    expect(await refsOf(run)).toContain(`refs/remotes/origin/${BRANCH}`)
    expect([await has(run, own), await has(run, unmerged)]).toEqual([true, false])
    expect(await run.sh('cat work; git fsck --full --strict 2>&1')).toBe(`work on ${BRANCH}`)
    expect(await looseIn(run)).toMatch(/^0 objects/)
  })

  test('has nothing of a history that its branch does not have any more', async () => {
    const g = createGitFixture()
    const mistake = moveMain(g, 'A mistake')
    expect(await has(await checkedOut(g), mistake)).toBe(true)
    git(g.remote, 'update-ref', 'refs/heads/main', 'main~1')
    moveMain(g, 'Better')
    const run = await checkedOut(g)
    expect([await run.sh('git log -1 --format=%s'), await has(run, mistake)]).toEqual(['Better', false])
  })

  test('of a follow-up has the branch of its pull request, and not those of others', async () => {
    const g = createGitFixture()
    const [own, unmerged] = [pushWork(g, BRANCH), pushWork(g, 'switchyard/other')]
    moveMain(g, 'Main goes on')
    const run = g.run()
    expect(await begun(g, run)).toMatchObject({ state: 'rebased', isNewCheckout: true })
    expect([await has(run, own), await has(run, unmerged)]).toEqual([true, false])
    expect(await refsOf(run)).not.toContain('other')
  })

  test('that a follow-up continues receives nothing of others, and loses their branches', async () => {
    const g = createGitFixture()
    const run = await checkedOut(g)
    await run.sh('git update-ref refs/remotes/origin/switchyard/before HEAD')
    const [own, unmerged] = [pushWork(g, BRANCH), pushWork(g, 'switchyard/other')]
    expect(await begun(g, run, true)).toMatchObject({ state: 'current', isNewCheckout: false })
    expect([await has(run, own), await has(run, unmerged)]).toEqual([true, false])
    expect(await refsOf(run)).not.toMatch(/other|before/)
  })

  test('is made whatever the umask of the worker is', async () => {
    const g = createGitFixture()
    pushWork(g, BRANCH)
    const before = process.umask(0o077)
    try {
      const run = await checkedOut(g)
      expect(await run.sh('cat work')).toBe(`work on ${BRANCH}`)
    } finally {
      process.umask(before)
    }
  })

  test('of a follow-up on a fork has one branch of each, and not the fork’s others', async () => {
    const g = createGitFixture()
    const fork = join(g.folder, 'codehost/eve/lamps.git')
    cpSync(g.remote, fork, { recursive: true })
    const eve = { remote: fork }
    const [own, unmerged] = [pushWork(eve, BRANCH), pushWork(eve, 'other')]
    moveMain(g, 'Main goes on')
    const run = g.run()
    expect(await begun(g, run, false, aFollowUp('eve/lamps'))).toMatchObject({ state: 'rebased' })
    expect([await has(run, own), await has(run, unmerged)]).toEqual([true, false])
  })
})

describe('a mirror', () => {
  test('and its branch copy stay packed while the remote moves', async () => {
    const g = createGitFixture()
    for (let n = 0; n < 14; n++) {
      moveMain(g, `Step ${n}`)
      pushWork(g, `switchyard/other-${n}`)
      await checkedOut(g)
    }
    const mirror = mirrorOf(g)
    const [copy = ''] = readdirSync(join(mirror, 'branch-copies'))
    for (const folder of [mirror, join(mirror, 'branch-copies', copy)])
      expect(git(folder, 'count-objects')).toMatch(/^0 objects/)
    const packs = readdirSync(join(mirror, 'branch-copies', copy, 'objects/pack'))
    expect(packs.filter((name) => name.endsWith('.pack')).length).toBeLessThanOrEqual(11)
  }, 120_000)

  test('keeps nothing of a source after the checkout but the copies of base branches', async () => {
    const g = createGitFixture()
    pushWork(g, BRANCH)
    const run = g.run()
    await begun(g, run)
    expect(readdirSync(join(mirrorOf(g), 'branch-copies'))).toEqual([
      expect.stringMatching(/^[0-9a-f]{16}\.git$/),
    ])
    expect(existsSync(join(run.folders.staging, 'head.git'))).toBe(false)
  })

  test.each<[string, (copy: string) => void]>([
    ['without objects', (copy) => rmSync(join(copy, 'objects'), { recursive: true })],
    ['of noise', (copy) => writeFileSync(join(copy, 'config'), '\0\0[')],
    ['with a lock', (copy) => writeFileSync(join(copy, 'packed-refs.lock'), '')],
    ['with a lock on its branch', (copy) => writeFileSync(join(copy, 'refs/heads/main.lock'), '')],
  ])('mends a branch copy %s', async (_, damage) => {
    const g = createGitFixture()
    await checkedOut(g)
    const copies = join(mirrorOf(g), 'branch-copies')
    damage(join(copies, readdirSync(copies)[0] ?? ''))
    moveMain(g, 'Later')
    const run = await checkedOut(g)
    expect(await run.sh('git log -1 --format=%s; git fsck --full --strict 2>&1')).toBe('Later')
  })
})
