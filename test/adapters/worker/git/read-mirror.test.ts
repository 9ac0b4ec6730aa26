/** Only damage makes the worker fetch a mirror again, not a command that was stopped, timed out or never started. */
import { execFileSync } from 'node:child_process'
import { chmodSync, existsSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import { realClock, realRandom } from '../../../../bin/process/clock.ts'
import { type Result, yes } from '../../../../core/result.ts'
import type { Job } from '../../../../protocol/frames.ts'
import { checkOut } from '../../../../worker/git/checkout/checkout.ts'
import { createGit, type Git, type GitCall, type GitResult } from '../../../../worker/git/git.ts'
import { explainEnd } from '../../../../worker/git/git-errors.ts'
import type { SandboxCommandResult } from '../../../../worker/git/git-ports.ts'
import { MirrorCache } from '../../../../worker/git/mirror/mirror-cache.ts'
import { until } from '../../../support/until.ts'
import { aJob, createGitFixture, git, got, never, type RunFixture, refusalOf } from './git-fixture.ts'

const BRANCH = 'switchyard/eng-12'
const COPIED = 'fetch'
const BUNDLED = 'bundle'

type RunGit = Git['run']
type Fault = (real: RunGit, call: GitCall) => Promise<Result<GitResult>>

/** A worker whose git suffers the fault when it reads the mirror by this command. */
function createFaultyFixture() {
  const { folder, remote, person, policy, run } = createGitFixture()
  const real = createGit({ folder: join(folder, 'git'), clock: realClock, policy })
  let fault: { readonly command: string; readonly suffer: Fault } | undefined
  let remoteFetches = 0
  let pushing: (() => Promise<Result<GitResult>>) | undefined
  const localCommands: string[] = []
  const runGit: RunGit = async (call) => {
    // A checkout also asks the remote whether a push is allowed, which fetches nothing.
    if (call.remote !== undefined) remoteFetches += call.args[0] === 'push' ? 0 : 1
    if (call.args[0] === 'push' && pushing !== undefined) return pushing()
    if (call.remote === undefined) localCommands.push(call.args[0] ?? '')
    if (call.remote === undefined && fault !== undefined && call.args[0] === fault.command)
      return fault.suffer(real.run.bind(real), call)
    return real.run(call)
  }
  const faulty: Git = {
    run: runGit,
    runChecked: async (activity, call) => {
      const ran = await runGit(call)
      return !ran.ok || ran.value.code === 0 ? ran : explainEnd(activity, ran.value).refused
    },
  }
  const cache = new MirrorCache({
    folder: join(folder, 'repositories'),
    git: faulty,
    clock: realClock,
    random: realRandom,
  })
  const repository = { name: 'ada/lamps', remote: { address: remote } }
  const startCheckout = ({ folders, sandbox }: Pick<RunFixture, 'folders' | 'sandbox'>, signal = never) =>
    checkOut({ git: faulty, cache }, { job: aJob(), repository, folders, sandbox }, signal)
  return {
    person,
    run,
    startCheckout,
    mirror: () => cache.folderOf(repository),
    remoteFetches: () => remoteFetches,
    /** Git's commands on the worker's own repositories since the last call. */
    takeLocalCommands: () => localCommands.splice(0),
    /** Lets the next question for the right to push wait for its answer. */
    holdPush: () => {
      let answer: (result: Result<GitResult>) => void = () => {}
      const answered = new Promise<Result<GitResult>>((resolve) => {
        answer = resolve
      })
      const asked = new Promise<void>((resolve) => {
        pushing = () => {
          pushing = undefined
          resolve()
          return answered
        }
      })
      return { asked, answer: (result: Result<GitResult>) => answer(result) }
    },
    setFault: (command: string, suffer: Fault) => {
      fault = { command, suffer }
    },
  }
}

/** Pushes the branch of the run, so that its commits come from a bundle. */
function pushBranch(person: string): void {
  git(person, 'checkout', '-q', '-b', BRANCH)
  git(person, 'commit', '-q', '--allow-empty', '-m', 'Before')
  git(person, 'push', '-q', 'origin', BRANCH)
}

/** Pushes a commit to main, so that the next checkout has something to copy. */
function moveMain(person: string): void {
  git(person, 'checkout', '-q', 'main')
  git(person, 'commit', '-q', '--allow-empty', '-m', 'More')
  git(person, 'push', '-q', 'origin', 'main')
}

const faults: readonly [name: string, suffer: Fault, reason: RegExp][] = [
  ['takes too long', (real, call) => real({ ...call, timeoutMs: 1 }), /took longer than 0.001 s/],
  [
    'cannot be started',
    (_, call) => createGit({ folder: '/tmp', clock: realClock, program: '/nowhere/git' }).run(call),
    /git could not be started/,
  ],
  [
    'is killed',
    (real) => real({ args: ['-c', 'alias.x=!kill -9 $PPID', 'x'], timeoutMs: 20_000 }),
    /git was killed by a signal/,
  ],
  [
    'lacks memory',
    async () => yes({ code: 128, output: '', stderr: 'fatal: Out of memory, malloc failed' }),
    /lacked memory/,
  ],
]

describe.each(faults)('a git that %s', (_, suffer, reason) => {
  test.each([COPIED, BUNDLED])(
    'during a %s from the mirror fails the checkout and keeps the mirror',
    async (command) => {
      const f = createFaultyFixture()
      pushBranch(f.person)
      got(await f.startCheckout(f.run()))
      moveMain(f.person)
      const [inode, fetches] = [statSync(f.mirror()).ino, f.remoteFetches()]
      f.setFault(command, suffer)
      const refusal = refusalOf(await f.startCheckout(f.run()))
      expect(refusal).toMatch(/^failed: checking out main failed: /)
      expect(refusal).toMatch(reason)
      expect(f.remoteFetches()).toBe(fetches + 1)
      expect(statSync(f.mirror()).ino).toBe(inode)
      expect(readdirSync(join(f.mirror(), 'branch-copies'))).toEqual([
        expect.stringMatching(/^[0-9a-f]{16}\.git$/),
      ])
    },
  )
})

test('a stop during the copying stops the checkout and keeps the mirror', async () => {
  const f = createFaultyFixture()
  const stop = new AbortController()
  f.setFault(COPIED, (real, call) => {
    stop.abort()
    return real(call)
  })
  expect(refusalOf(await f.startCheckout(f.run(), stop.signal))).toMatch(/^conflict: /)
  expect(f.remoteFetches()).toBe(1)
})

test('a sandbox that cannot be made or takes too long keeps the mirror', async () => {
  const f = createFaultyFixture()
  const { folders } = f.run()
  const ends: readonly [SandboxCommandResult, RegExp][] = [
    [{ output: '', startFailure: 'a pipe is broken' }, /no sandbox could be made: a pipe is broken/],
    [{ output: 'error: unable to read', timedOutMinutes: 15 }, /took longer than 15 minutes/],
  ]
  for (const [end, reason] of ends)
    expect(refusalOf(await f.startCheckout({ folders, sandbox: { run: async () => end } }))).toMatch(reason)
  expect(f.remoteFetches()).toBe(ends.length)
})

test('a mirror that lost an object is fetched again', async () => {
  const f = createFaultyFixture()
  got(await f.startCheckout(f.run()))
  rmSync(join(f.mirror(), 'branch-copies'), { recursive: true })
  const packs = join(f.mirror(), 'objects/pack')
  for (const name of readdirSync(packs).filter((pack) => pack.endsWith('.pack'))) {
    chmodSync(join(packs, name), 0o644)
    writeFileSync(join(packs, name), 'noise', { flag: 'r+' })
  }
  const run = f.run()
  got(await f.startCheckout(run))
  expect(await run.sh('cat lamp')).toBe('one')
})

function emptyPacks(repository: string, pattern: RegExp, how: 'deleted' | 'empty'): void {
  const folder = join(repository, 'objects/pack')
  for (const name of readdirSync(folder).filter((each) => pattern.test(each))) {
    rmSync(join(folder, name))
    if (how === 'empty') writeFileSync(join(folder, name), '')
  }
}

describe('the question for the right to push', () => {
  const refused = {
    code: 128,
    output: '',
    stderr: 'fatal: unable to access: The requested URL returned error: 403',
  }

  test('is asked during the checkout, whose mirror is in use until the answer', async () => {
    const f = createFaultyFixture()
    const { asked, answer } = f.holdPush()
    const run = f.run()
    const first = f.startCheckout(run)
    await asked
    await until('the checkout is there', () => existsSync(join(run.folders.work, 'lamp')))
    const second = f.startCheckout(f.run())
    // The second one would begin meanwhile.
    for (const _ of [1, 2, 3]) expect(await run.sh('cat lamp')).toBe('one')
    expect(f.remoteFetches()).toBe(1)
    answer(yes({ code: 0, output: '', stderr: '' }))
    got(await first)
    got(await second)
    expect(f.remoteFetches()).toBe(2)
  })

  test.each(['succeeds', 'fails'])('decides, if it is refused and the checkout %s', async (how) => {
    const f = createFaultyFixture()
    const { asked, answer } = f.holdPush()
    const { folders, sandbox } = f.run()
    const broken = { run: async () => ({ output: '', startFailure: 'a pipe is broken' }) }
    const checkout = f.startCheckout({ folders, sandbox: how === 'fails' ? broken : sandbox })
    await asked
    answer(yes(refused))
    expect(refusalOf(await checkout)).toMatch(/^forbidden: .*push/)
  })
})

const packsOf = (repository: string): string[] => readdirSync(join(repository, 'objects/pack'))

/** The oldest pack and its index. */
function firstPackOf(repository: string): RegExp {
  const ageOf = (name: string) => statSync(join(repository, 'objects/pack', name)).mtimeMs
  const packs = packsOf(repository).filter((name) => name.endsWith('.pack'))
  expect(packs.length).toBeGreaterThan(1)
  const [oldest = ''] = packs.sort((a, b) => ageOf(a) - ageOf(b))
  return new RegExp(`^${oldest.replace(/\.pack$/, '')}\\.`)
}

function zeroPacks(repository: string): void {
  for (const name of packsOf(repository).filter((each) => each.endsWith('.pack'))) {
    const path = join(repository, 'objects/pack', name)
    const bytes = readFileSync(path)
    bytes.fill(0, Math.floor(bytes.length / 3), Math.floor(bytes.length / 2))
    chmodSync(path, 0o644)
    writeFileSync(path, bytes)
  }
}

function loseTree(repository: string): void {
  const tree = git(repository, 'rev-parse', 'main^{tree}')
  for (const name of packsOf(repository)) {
    const path = join(repository, 'objects/pack', name)
    const bytes = readFileSync(path)
    rmSync(path)
    if (name.endsWith('.pack'))
      execFileSync('git', ['-C', repository, 'unpack-objects', '-q'], { input: bytes })
  }
  rmSync(join(repository, 'objects', tree.slice(0, 2), tree.slice(2)))
}

describe('the next checkout of a repository that', () => {
  test('stays as it is only compares its references', async () => {
    const f = createFaultyFixture()
    got(await f.startCheckout(f.run()))
    expect(f.takeLocalCommands()).toEqual(['for-each-ref', 'pack-objects', 'fetch', 'for-each-ref'])
    const run = f.run()
    got(await f.startCheckout(run))
    expect(f.takeLocalCommands()).toEqual(['for-each-ref', 'for-each-ref'])
    expect(await run.sh('cat lamp')).toBe('one')
    moveMain(f.person)
    got(await f.startCheckout(f.run()))
    expect(f.takeLocalCommands()).toEqual(['for-each-ref', 'for-each-ref', 'fetch', 'for-each-ref'])
  })

  test.each<[string, (copy: string) => void]>([
    ['its branch', (copy) => rmSync(join(copy, 'refs/heads/main'))],
    ['a tag', (copy) => rmSync(join(copy, 'refs/tags/v1'))],
    ['the content of a tag', (copy) => writeFileSync(join(copy, 'refs/tags/v1'), '')],
    ['its packs', (copy) => emptyPacks(copy, /\.(pack|idx)$/, 'deleted')],
    ['its indexes', (copy) => emptyPacks(copy, /\.idx$/, 'deleted')],
    ['the content of its packs', (copy) => emptyPacks(copy, /\.pack$/, 'empty')],
    ['the content of its indexes', (copy) => emptyPacks(copy, /\.idx$/, 'empty')],
    ['the content of HEAD', (copy) => writeFileSync(join(copy, 'HEAD'), '')],
    ['its objects', (copy) => rmSync(join(copy, 'objects'), { recursive: true })],
    ['its first pack', (copy) => emptyPacks(copy, firstPackOf(copy), 'deleted')],
    ['bytes inside of its packs', zeroPacks],
    ['the tree of its newest commit', loseTree],
  ])('stays as it is succeeds, although the copy has lost %s', async (_, damage) => {
    const f = createFaultyFixture()
    git(f.person, 'tag', '-a', '-m', 'One', 'v1', 'main')
    git(f.person, 'push', '-q', 'origin', 'v1')
    got(await f.startCheckout(f.run()))
    moveMain(f.person)
    got(await f.startCheckout(f.run()))
    const fetches = f.remoteFetches()
    const copies = join(f.mirror(), 'branch-copies')
    damage(join(copies, readdirSync(copies)[0] ?? ''))
    const run = f.run()
    got(await f.startCheckout(run))
    expect(await run.sh('cat lamp; git tag; git status --short')).toBe('one\nv1')
    expect(f.remoteFetches()).toBe(fetches + 1)
  })

  test('stays as it is has the tags that were deleted while a fetch was stopped', async () => {
    const f = createFaultyFixture()
    for (const tag of ['v1', 'v2']) git(f.person, 'tag', tag, 'main')
    git(f.person, 'push', '-q', 'origin', 'v1', 'v2')
    got(await f.startCheckout(f.run()))
    git(f.person, 'push', '-q', 'origin', ':v1')
    f.setFault(COPIED, (real, call) => real({ ...call, timeoutMs: 1 }))
    refusalOf(await f.startCheckout(f.run()))
    f.setFault('nothing', (real, call) => real(call))
    git(f.person, 'push', '-q', 'origin', 'v1')
    const run = f.run()
    got(await f.startCheckout(run))
    expect(await run.sh('git tag')).toBe('v1\nv2')
  })

  test('has packed its references begins where they say', async () => {
    const f = createFaultyFixture()
    got(await f.startCheckout(f.run()))
    git(f.mirror(), 'pack-refs', '--all')
    expect(existsSync(join(f.mirror(), 'refs/heads/main'))).toBe(false)
    const run = f.run()
    const commit = git(f.person, 'rev-parse', 'main')
    expect(got(await f.startCheckout(run))).toMatchObject({ base: commit })
    expect(await run.sh('git rev-parse HEAD')).toBe(commit)
  })
})

test('a follow-up whose git cannot be started leaves its retained checkout as it is', async () => {
  const program = join(createGitFixture().folder, 'git')
  const flag = `${program}.broken`
  const script = `#!/bin/sh\nif [ -e '${flag}' ]; then case "$*" in *refs/heads/main:refs/heads/main) exit 127;; esac; fi\nexec /usr/bin/git "$@"\n`
  writeFileSync(program, script, { mode: 0o755 })
  const g = createGitFixture({ gitProgram: program })
  const { folders, sandbox, sh } = g.run()
  got(await g.sources.checkOut(aJob(), folders, sandbox, never))
  pushBranch(g.person)
  moveMain(g.person)
  await sh('echo mine > notes')
  writeFileSync(flag, '')
  const pull: NonNullable<Job['pull']> = {
    number: 1,
    url: 'https://code.example/1',
    headBranch: BRANCH,
    headRemote: 'ada/lamps',
    baseBranch: 'main',
    threads: [],
    reviews: [],
    comments: [],
  }
  const job = aJob({ kind: 'follow-up', followUp: { id: 'fu-1', number: 1 }, pull })
  const begin = () => g.sources.followUps.begin({ job, folders, sandbox, isRetained: true }, never)
  expect(refusalOf(await begin())).toMatch(/^failed: checking out main failed: git could not be started/)
  expect(await sh('cat notes; ls ~')).toBe('mine')
  rmSync(flag)
  expect(got(await begin())).toMatchObject({ isNewCheckout: false })
  expect(existsSync(flag)).toBe(false)
})
