/** The worker's mirrors of repositories: one task at a time, repaired if damaged, deleted if unused. */
import { execFileSync } from 'node:child_process'
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import { realClock, realRandom } from '../../../../bin/process/clock.ts'
import { KeyedQueue } from '../../../../core/keyed-queue.ts'
import { yes } from '../../../../core/result.ts'
import { createGit, type Git, type GitCall } from '../../../../worker/git/git.ts'
import { MirrorCache, type RemoteRepository } from '../../../../worker/git/mirror/mirror-cache.ts'
import { RemotePolicy, type RemotePolicyOptions } from '../../../../worker/git/remote-policy.ts'
import { whileBeginning } from '../../../../worker/git/retry.ts'
import { until } from '../../../support/until.ts'
import { aJob, createGitFixture, git, got, never, refusalOf } from './git-fixture.ts'

interface CacheFixture {
  readonly cache: MirrorCache
  readonly repository: RemoteRepository
  readonly folder: string
  readonly calls: GitCall[]
  readonly person: string
  readonly remote: string
}

function createCacheFixture(reaching?: RemotePolicyOptions): CacheFixture {
  const { folder: root, remote, person, policy: local } = createGitFixture()
  const policy = reaching === undefined ? local : new RemotePolicy(reaching)
  const real = createGit({ folder: join(root, 'git'), clock: realClock, policy })
  const calls: GitCall[] = []
  const watched: Git = {
    run: (call) => {
      calls.push(call)
      return real.run(call)
    },
    runChecked: (doing, call) => {
      calls.push(call)
      return real.runChecked(doing, call)
    },
  }
  const folder = join(root, 'repositories')
  const cache = new MirrorCache({ folder, git: watched, clock: realClock, random: realRandom })
  return {
    cache,
    folder,
    calls,
    person,
    remote,
    repository: { name: 'ada/lamps', remote: { address: remote } },
  }
}

const tip = async (folder: string) => yes(git(folder, 'rev-parse', 'main'))
const fetches = (calls: readonly GitCall[]) => calls.filter(({ args }) => args[0] === 'fetch').length
const packs = (folder: string) =>
  readdirSync(join(folder, 'objects/pack')).filter((name) => name.endsWith('.pack'))

test('a mirror is created once, and then only updated', async () => {
  const { cache, repository, person, folder } = createCacheFixture()
  const first = got(await cache.use(repository, never, tip))
  const { ino } = statSync(cache.folderOf(repository))
  git(person, 'commit', '-q', '--allow-empty', '-m', 'More')
  git(person, 'push', '-q', 'origin', 'main')
  const second = got(await cache.use(repository, never, tip))
  expect(second).not.toBe(first)
  expect(second).toBe(git(person, 'rev-parse', 'main'))
  expect(statSync(cache.folderOf(repository)).ino).toBe(ino)
  expect(readdirSync(folder)).toHaveLength(1)
})

test('tasks use a mirror one at a time, in order; other repositories’ mirrors are independent', async () => {
  const { cache, repository } = createCacheFixture()
  const otherFixture = createCacheFixture()
  let inUse = 0
  const order: number[] = []
  const turns: number[] = []
  const use = (number: number) => {
    const work = async () => {
      inUse += 1
      expect(inUse).toBe(1)
      order.push(number)
      if (number === 0) got(await otherFixture.cache.use(otherFixture.repository, never, tip))
      inUse -= 1
      return yes(undefined)
    }
    return cache.use(repository, never, work, undefined, () => {
      expect(order).toHaveLength(number)
      turns.push(number)
    })
  }
  await Promise.all([0, 1, 2, 3].map(use))
  expect(order).toEqual([0, 1, 2, 3])
  expect(turns).toEqual(order)
})

test('an aborted task stops waiting and does not block the others', async () => {
  const { cache, repository } = createCacheFixture()
  let release = () => {}
  const held = new Promise<void>((resolve) => {
    release = resolve
  })
  let isHeld = false
  const first = cache.use(repository, never, async () => {
    isHeld = true
    await held
    return yes('first')
  })
  const stop = new AbortController()
  const second = cache.use(repository, stop.signal, async () => yes('second'))
  const third = cache.use(repository, never, async () => yes('third'))
  await until('the first task holds the mirror', () => isHeld)
  stop.abort()
  expect(refusalOf(await second)).toMatch(/^conflict: stopped while waiting/)
  release()
  expect(got(await first)).toBe('first')
  expect(got(await third)).toBe('third')
})

test('runs that are given back do not repeat a fetch that reached nothing while they waited', async () => {
  const { cache, calls } = createCacheFixture({ privateHosts: ['127.0.0.1:1'] })
  const away = { name: 'ada/lamps', remote: { address: 'http://127.0.0.1:1/ada/lamps.git' } }
  const endurance = whileBeginning({ unreachableSeconds: 1 })
  const use = () => cache.use(away, never, tip, endurance)
  const refusals = await Promise.all([use(), use(), use()])
  for (const refused of refusals) {
    expect(refused).toMatchObject({ refusal: { failure: 'network' } })
    expect(refusalOf(refused)).toMatch(
      /^failed: ada\/lamps can't be read: the code host could not be reached/,
    )
  }
  const once = fetches(calls)
  await use()
  expect(fetches(calls)).toBeGreaterThan(once)
  expect(fetches(calls)).toBeLessThan(3 * once)
})

test('a task that throws releases the mirror', async () => {
  const turns = new KeyedQueue()
  await expect(turns.run('a', () => Promise.reject(new Error('bug')))).rejects.toThrow('bug')
  expect(await turns.run('a', async () => 1)).toBe(1)
})

describe('damage by a crash or a bad disk', () => {
  test.each<[string, (copy: string) => void]>([
    ['no HEAD', (copy) => rmSync(join(copy, 'HEAD'))],
    ['an empty HEAD', (copy) => truncateSync(join(copy, 'HEAD'))],
    ['a config of noise', (copy) => writeFileSync(join(copy, 'config'), '\0\0[')],
    ['no objects', (copy) => rmSync(join(copy, 'objects'), { recursive: true })],
    ['refs of noise', (copy) => writeFileSync(join(copy, 'packed-refs'), 'noise\n')],
    [
      'a torn ref',
      (copy) => {
        rmSync(join(copy, 'packed-refs'), { force: true })
        mkdirSync(join(copy, 'refs/heads'), { recursive: true })
        writeFileSync(join(copy, 'refs/heads/main'), '12')
      },
    ],
    [
      'locks',
      (copy) =>
        ['packed-refs.lock', 'HEAD.lock', 'config.lock', 'refs/heads/main.lock'].map((name) =>
          writeFileSync(join(copy, name), ''),
        ),
    ],
    ['a half made copy beside it', (copy) => mkdirSync(`${copy}.new/objects`, { recursive: true })],
    [
      'only an old one',
      (copy) => {
        mkdirSync(`${copy}.old`)
        rmSync(copy, { recursive: true })
      },
    ],
  ])('%s', async (_, damage) => {
    const { cache, repository, person } = createCacheFixture()
    got(await cache.use(repository, never, tip))
    git(person, 'commit', '-q', '--allow-empty', '-m', 'More')
    git(person, 'push', '-q', 'origin', 'main', 'main:refs/heads/more')
    damage(cache.folderOf(repository))
    expect(got(await cache.use(repository, never, tip))).toBe(git(person, 'rev-parse', 'main'))
  })

  test('damage that only the checkout finds is repaired, too', async () => {
    const g = createGitFixture()
    const first = g.run()
    got(await g.sources.checkOut(aJob(), first.folders, first.sandbox, never))
    const folder = join(g.folder, 'worker/repositories')
    const copy = join(folder, readdirSync(folder)[0] ?? '')
    const copies = join(copy, 'branch-copies')
    for (const repository of [copy, join(copies, readdirSync(copies)[0] ?? '')]) loseObject(repository)
    const second = g.run()
    got(await g.sources.checkOut(aJob(), second.folders, second.sandbox, never))
    expect(readFileSync(join(second.folders.work, 'dir/shade'), 'utf8')).toBe('two\n')
  })

  /** Removes the tree of `dir` from a packed repository. */
  function loseObject(repository: string): void {
    const folder = join(repository, 'objects')
    const tree = git(repository, 'rev-parse', 'main:dir')
    for (const name of packs(repository)) {
      const moved = join(repository, name)
      renameSync(join(folder, 'pack', name), moved)
      rmSync(join(folder, 'pack', name.replace(/pack$/, 'idx')))
      execFileSync('sh', ['-c', `git -C '${repository}' unpack-objects -q < '${moved}'`])
      rmSync(moved)
    }
    rmSync(join(folder, tree.slice(0, 2), tree.slice(2)))
  }

  test('a mirror that was deleted during the run is fetched again for collecting', async () => {
    const g = createGitFixture()
    const run = g.run()
    const from = got(await g.sources.checkOut(aJob(), run.folders, run.sandbox, never))
    await run.sh('echo work > work')
    rmSync(join(g.folder, 'worker/repositories'), { recursive: true })
    expect(got(await g.sources.collect(aJob(), run.folders, run.sandbox, from)).commits).toBe(1)
  })
})

describe('pruning', () => {
  test('runs automatically, at most once an hour', async () => {
    let later = 0
    const g = createGitFixture({ clock: { ...realClock, now: () => Date.now() + later } })
    const again = async () => {
      const run = g.run()
      got(await g.sources.checkOut(aJob(), run.folders, run.sandbox, never))
    }
    const old = join(g.folder, 'worker/repositories/r-old.git')
    const leave = () => {
      mkdirSync(old, { recursive: true })
      aged(old, 15 * 24 * 3_600_000)
    }
    leave()
    await again()
    await until('the old mirror is deleted', () => !existsSync(old))
    leave()
    await again()
    expect(existsSync(old)).toBe(true)
    later = 3_601_000
    await again()
    await until('the new old mirror is deleted', () => !existsSync(old))
  })

  const aged = (path: string, ms: number) => {
    const at = new Date(Date.now() - ms)
    utimesSync(path, at, at)
  }

  const sizeOf = (folder: string): number =>
    readdirSync(folder, { withFileTypes: true, recursive: true })
      .filter((entry) => entry.isFile())
      .reduce((sum, entry) => sum + statSync(join(entry.parentPath ?? entry.path, entry.name)).size, 0)

  test('deletes the longest unused first, and no more than necessary', async () => {
    const { cache, repository, folder, remote } = createCacheFixture()
    const names = ['one', 'two', 'three']
    for (const [index, name] of names.entries()) {
      const each = { name: `ada/${name}`, remote: repository.remote }
      got(await cache.use(each, never, tip))
      aged(cache.folderOf(each), (3 - index) * 600_000)
    }
    expect(remote).toBe(repository.remote.address)
    const left = () =>
      readdirSync(folder)
        .map((name) => name.split('-')[2])
        .sort()
    await cache.prune({ unusedMsMax: 3_600_000, bytesMax: 1024 ** 3, protectedMs: 0 })
    expect(left()).toEqual(['one', 'three', 'two'])
    await cache.prune({ unusedMsMax: 1_500_000, bytesMax: 1024 ** 3, protectedMs: 0 })
    expect(left()).toEqual(['three', 'two'])
    await cache.prune({ unusedMsMax: 3_600_000, bytesMax: sizeOf(folder) - 1, protectedMs: 0 })
    expect(left()).toEqual(['three'])
    await cache.prune({ unusedMsMax: 3_600_000, bytesMax: 1, protectedMs: 1_800_000 })
    expect(left()).toEqual(['three'])
    await cache.prune({ unusedMsMax: 3_600_000, bytesMax: 1, protectedMs: 0 })
    expect(left()).toEqual([])
  })

  test('packs loose objects, and deletes branch copies that no checkout used for long', async () => {
    const { cache, repository } = createCacheFixture()
    got(await cache.use(repository, never, tip))
    const mirror = cache.folderOf(repository)
    execFileSync('sh', [
      '-c',
      `for n in $(seq 2000); do echo "blob $n" > "$0/file-$n"; done; find "$0" -name 'file-*' | git -C "$0" hash-object -w --stdin-paths > /dev/null`,
      mirror,
    ])
    const copies = join(mirror, 'branch-copies')
    for (const name of ['old.git', 'new.git']) mkdirSync(join(copies, name), { recursive: true })
    aged(join(copies, 'old.git'), 7_200_000)
    await cache.prune({ unusedMsMax: 3_600_000, bytesMax: 1024 ** 3, protectedMs: 0 })
    expect(git(mirror, 'count-objects')).toMatch(/^0 objects/)
    expect(readdirSync(copies)).toEqual(['new.git'])
  })

  test('repacks many packs into one without losing objects', async () => {
    const { cache, repository, person } = createCacheFixture()
    got(await cache.use(repository, never, tip))
    const copy = cache.folderOf(repository)
    for (let made = 0; made < 42; made++) {
      const hash = git(
        copy,
        '-c',
        'user.name=x',
        '-c',
        'user.email=x',
        'commit-tree',
        'main^{tree}',
        '-p',
        'main',
        '-m',
        `${made}`,
      )
      git(copy, 'update-ref', `refs/heads/b${made}`, hash)
      git(copy, 'repack', '-q', '-d')
    }
    expect(packs(copy).length).toBeGreaterThan(40)
    await cache.prune({ unusedMsMax: 3_600_000, bytesMax: 1024 ** 3, protectedMs: 0 })
    expect(packs(copy)).toHaveLength(1)
    expect(got(await cache.use(repository, never, tip))).toBe(git(person, 'rev-parse', 'main'))
  }, 240_000)
})

test('sandbox users can read every file of a mirror, whatever the umask is', async () => {
  const before = process.umask(0o077)
  try {
    const { cache, repository, folder } = createCacheFixture()
    got(await cache.use(repository, never, tip))
    const copy = cache.folderOf(repository)
    const closed = readdirSync(copy, { withFileTypes: true, recursive: true })
      .map((entry) => join(entry.parentPath ?? entry.path, entry.name))
      .filter((path) => (statSync(path).mode & 0o004) === 0)
    expect(closed).toEqual([])
    expect(statSync(copy).mode & 0o005).toBe(0o005)
    expect(statSync(folder).mode & 0o777).toBe(0o711)
  } finally {
    process.umask(before)
  }
})

test('a missing repository is refused after one fetch', async () => {
  const { cache, repository, calls } = createCacheFixture()
  const absent = { name: 'ada/absent', remote: { address: `${repository.remote.address}.absent` } }
  expect(refusalOf(await cache.use(absent, never, tip))).toMatch(/^unknown: .*absent does not exist/)
  expect(fetches(calls)).toBe(1)
})
