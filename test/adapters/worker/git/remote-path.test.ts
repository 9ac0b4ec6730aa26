/** Git in a run: from the code host into a sandbox, out of it as a bundle, and back to the code host. */
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from '@jest/globals'
import type { Job } from '../../../../protocol/frames.ts'
import type { CheckedOut, CollectedWork } from '../../../../worker/git/git-ports.ts'
import {
  aJob,
  commitAsPerson,
  createGitFixture,
  type GitFixture,
  git,
  got,
  never,
  type RunFixture,
  refusalOf,
} from './git-fixture.ts'

const BRANCH = 'switchyard/eng-12'

async function checkedOut(g: GitFixture, job = aJob()): Promise<{ run: RunFixture; from: CheckedOut }> {
  const run = g.run()
  return { run, from: got(await g.sources.checkOut(job, run.folders, run.sandbox, never)) }
}

async function collected(g: GitFixture, run: RunFixture, from: CheckedOut): Promise<CollectedWork> {
  return got(await g.sources.collect(aJob(), run.folders, run.sandbox, from))
}

interface Publishing {
  readonly fence?: () => boolean
  readonly summary?: string
  readonly leaseId?: string
  readonly job?: Job
}

function publish(
  g: GitFixture,
  run: RunFixture,
  from: CheckedOut,
  work: CollectedWork,
  more: Publishing = {},
) {
  const { fence = () => true, summary = 'Mended.', leaseId = 'ls-1', job = aJob() } = more
  const order = { job, leaseId, folders: run.folders, from, collected: work, summary }
  return g.sources.publish(order, g.codehost, fence, never)
}

const pullsOf = (g: GitFixture) => join(g.folder, 'codehost/ada/lamps.pulls')
const tipOf = (g: GitFixture, branch = BRANCH) => git(g.remote, 'rev-parse', `refs/heads/${branch}`)

test('a run goes from the base to a pull request', async () => {
  const g = createGitFixture()
  const { run, from } = await checkedOut(g)
  expect(from).toEqual({ base: tipOf(g, 'main') })
  expect(
    await run.sh(
      'git branch --show-current; git status --porcelain; git log --oneline | wc -l; cat dir/shade',
    ),
  ).toBe(`${BRANCH}\n2\ntwo`)
  await run.sh('echo three >> lamp; git commit -qam "Mend it"; echo new > new-file; echo noise > x.log')
  const work = await collected(g, run, from)
  expect(work).toMatchObject({ commits: 2, diff: { files: 2, additions: 2, deletions: 0 } })
  expect(work.diff.text).toMatch(/lamp.*\n.*new-file.*\n 2 files changed, 2 insertions/)
  const published = got(await publish(g, run, from, work))
  expect(published).toMatchObject({ pushed: work.head, prState: 'open', adopted: false })
  expect(tipOf(g)).toBe(work.head)
  expect(git(g.remote, 'log', '--format=%an: %s', '-1', BRANCH)).toBe('switchyard: ENG-12: Mend the lamp')
  expect(git(g.remote, 'ls-tree', '-r', '--name-only', BRANCH).split('\n')).not.toContain('x.log')
  const pull = JSON.parse(readFileSync(fileURLToPath(published.prUrl), 'utf8'))
  expect(pull).toMatchObject({
    number: 1,
    state: 'open',
    headBranch: BRANCH,
    baseBranch: 'main',
    title: 'ENG-12: Mend the lamp',
  })
  expect(pull.body).toBe(
    'Mended.\n\nTicket: [ENG-12](https://t.example/ENG-12)\n\n<!-- switchyard run=run-1 lease=ls-1 -->',
  )
})

test('the pull request of an issue of its repository closes the issue', async () => {
  const g = createGitFixture()
  const { run, from } = await checkedOut(g)
  await run.sh('echo three >> lamp; git commit -qam "Mend it"')
  const job = aJob({ codehost: { driver: 'local', closesIssue: 12 } })
  const published = got(await publish(g, run, from, await collected(g, run, from), { job }))
  const pull = JSON.parse(readFileSync(fileURLToPath(published.prUrl), 'utf8'))
  expect(pull.body).toBe('Mended.\n\nCloses #12\n\n<!-- switchyard run=run-1 lease=ls-1 -->')
})

describe('the checkout', () => {
  test('contains no reference to the worker’s files', async () => {
    const g = createGitFixture()
    const { run } = await checkedOut(g)
    expect(existsSync(join(run.folders.work, '.git/objects/info/alternates'))).toBe(false)
    expect(
      await run.sh('git config remote.origin.url; git fsck --full --strict 2>&1; git config user.name'),
    ).toBe('/repository.git\nswitchyard')
    expect(readFileSync(join(run.folders.work, '.git/config'), 'utf8')).not.toContain('/cache')
  })

  test('has the whole history and the branch main', async () => {
    const g = createGitFixture()
    const { run } = await checkedOut(g)
    expect(
      await run.sh('git rev-list --count HEAD; git diff --stat main; git rev-parse --is-shallow-repository'),
    ).toBe('2\nfalse')
  })

  test('contains the newest push, also when a branch takes the place of a deleted one', async () => {
    const g = createGitFixture()
    git(g.person, 'push', '-q', 'origin', 'main:refs/heads/old')
    await checkedOut(g)
    git(g.person, 'push', '-q', 'origin', ':refs/heads/old')
    git(g.person, 'commit', '-q', '--allow-empty', '-m', 'Later')
    git(g.person, 'push', '-q', 'origin', 'main', 'main:refs/heads/old/new')
    const { run } = await checkedOut(g)
    expect(await run.sh('git log -1 --format=%s')).toBe('Later')
  })

  test('continues the branch of an earlier attempt; the change contains the work of both', async () => {
    const g = createGitFixture()
    const first = await checkedOut(g)
    await first.run.sh('echo first > first')
    got(await publish(g, first.run, first.from, await collected(g, first.run, first.from)))
    const pushedBefore = tipOf(g)
    git(g.person, 'commit', '-q', '--allow-empty', '-m', 'Meanwhile')
    git(g.person, 'push', '-q', 'origin', 'main')
    const second = await checkedOut(g)
    expect(second.from).toEqual({ base: first.from.base, baseTip: tipOf(g, 'main'), pushedBefore })
    await second.run.sh('test -f first; echo second > second')
    const work = await collected(g, second.run, second.from)
    expect(work).toMatchObject({ commits: 2, diff: { files: 2 } })
    expect(got(await publish(g, second.run, second.from, work))).toMatchObject({ adopted: true })
    expect(tipOf(g)).toBe(work.head)
  })

  describe('of a branch with commits of a person', () => {
    /** Returns what collecting answers after the agent has run this script; `upstream` is then in a file of the base. */
    const collectAfter = async (script: string, upstream?: string) => {
      const g = createGitFixture()
      const first = await checkedOut(g)
      await first.run.sh('echo first > first')
      got(await publish(g, first.run, first.from, await collected(g, first.run, first.from)))
      commitAsPerson(g, BRANCH, 'lamp', 'of a person\n', 'Theirs')
      if (upstream !== undefined) {
        writeFileSync(join(g.person, 'lamp'), upstream)
        git(g.person, 'commit', '-qam', 'Squashed', '--author', 'Bo <bo@example.org>')
        git(g.person, 'push', '-q', 'origin', 'main')
      }
      const { run, from } = await checkedOut(g)
      await run.sh(script)
      return g.sources.collect(aJob(), run.folders, run.sandbox, from)
    }

    test.each([
      ['leaves the branch', 'git checkout -qB other origin/main; echo 1 > a; git add a; git commit -qm Mine'],
      ['resets the branch', 'git reset -q --hard origin/main; echo 1 > a'],
      ['squashes it', 'git reset -q --soft origin/main; git commit -qm All'],
    ])('is refused when the agent %s', async (_, script) => {
      expect(refusalOf(await collectAfter(script))).toMatch(
        /^conflict: the work leaves out commits on switchyard\/eng-12 that no attempt of this run made \([0-9a-f]{7,}\), so/,
      )
    })

    test.each([
      ['goes on from them', 'echo 1 > a'],
      ['rebases them', 'git rebase -q --onto HEAD~2 HEAD~1; echo 1 > a'],
      [
        'rebases them with another change of the same lines',
        'git reset -q --hard HEAD~1; echo agent > lamp; git commit -qam Mine; git cherry-pick ORIG_HEAD || { echo both > lamp; git add lamp; GIT_EDITOR=true git cherry-pick --continue; }',
      ],
    ])('is taken when the agent %s', async (_, script) => {
      expect(got(await collectAfter(script)).head).toBeDefined()
    })

    test('is taken without them when the base has what they made of their files', async () => {
      const reset = 'git reset -q --hard origin/main; echo 1 > a'
      expect(got(await collectAfter(reset, 'of a person\n')).head).toBeDefined()
      expect(refusalOf(await collectAfter(reset, 'of somebody else\n'))).toMatch(
        /^conflict: the work leaves out/,
      )
    })
  })

  test.each(['rebase', 'merge'])('knows the commits of the base after a %s', async (how) => {
    const g = createGitFixture()
    const first = await checkedOut(g)
    await first.run.sh('echo first > first')
    got(await publish(g, first.run, first.from, await collected(g, first.run, first.from)))
    commitAsPerson(g, 'main', '.github/workflows/a.yml', 'on: push\n', 'Fixes #5: thanks @bo')
    const { run, from } = await checkedOut(g)
    await run.sh(`git ${how} -q origin/main; echo 1 > a`)
    const work = await collected(g, run, from)
    expect(work).toMatchObject({ diff: { files: 2 } })
    expect(work.heldBack).toBeUndefined()
    got(await publish(g, run, from, work))
    expect(git(g.remote, 'merge-base', 'main', BRANCH)).toBe(tipOf(g, 'main'))
    expect(git(g.remote, 'log', '--format=%s', BRANCH).split('\n')).toContain('Fixes #5: thanks @bo')
  })

  test('of earlier attempts may be replaced by the agent', async () => {
    const g = createGitFixture()
    const first = await checkedOut(g)
    await first.run.sh('echo first > first')
    got(await publish(g, first.run, first.from, await collected(g, first.run, first.from)))
    const second = await checkedOut(g)
    await second.run.sh('git reset -q --hard origin/main; echo second > second')
    expect(await collected(g, second.run, second.from)).toMatchObject({ commits: 1 })
  })

  test('starts at the base again if the base contains the whole branch', async () => {
    const g = createGitFixture()
    git(g.person, 'push', '-q', 'origin', `HEAD~1:refs/heads/${BRANCH}`)
    const { run, from } = await checkedOut(g)
    expect(from).toEqual({ base: tipOf(g, 'main'), pushedBefore: tipOf(g) })
    await run.sh('echo more > more')
    const work = await collected(g, run, from)
    got(await publish(g, run, from, work))
    expect(tipOf(g)).toBe(work.head)
  })

  test('works with a umask of 077', async () => {
    const before = process.umask(0o077)
    try {
      const { run } = await checkedOut(createGitFixture())
      expect(await run.sh('cat lamp')).toBe('one')
    } finally {
      process.umask(before)
    }
  })

  test('names what no run can change as a failure of the configuration', async () => {
    const g = createGitFixture()
    git(g.person, 'checkout', '-q', '--orphan', 'strange')
    git(g.person, 'commit', '-q', '-m', 'Strange')
    git(g.person, 'push', '-q', 'origin', `strange:refs/heads/${BRANCH}`)
    for (const job of [{}, { base: 'absent' }, { branch: 'main' }, { base: 'a.lock' }]) {
      const run = g.run()
      const checked = await g.sources.checkOut(aJob(job), run.folders, run.sandbox, never)
      expect(checked).toMatchObject({ refusal: { failure: 'configuration' } })
    }
  })

  test('refuses unusable repositories and branches, and says what to do', async () => {
    const g = createGitFixture()
    git(g.person, 'checkout', '-q', '--orphan', 'strange')
    git(g.person, 'commit', '-q', '-m', 'Strange')
    git(g.person, 'push', '-q', 'origin', `strange:refs/heads/${BRANCH}`)
    const refusal = async (job: Parameters<typeof aJob>[0]) => {
      const run = g.run()
      return refusalOf(await g.sources.checkOut(aJob(job), run.folders, run.sandbox, never))
    }
    expect(await refusal({})).toMatch(
      /^conflict: the branch switchyard\/eng-12 of ada\/lamps shares no history with main/,
    )
    expect(await refusal({ base: 'absent' })).toMatch(
      /^unknown: ada\/lamps can't be read: it has no branch absent; push it, or set defaultBranch/,
    )
    expect(await refusal({ branch: 'main' })).toMatch(/^invalid: a run never works on main itself/)
    expect(await refusal({ base: 'a.lock' })).toMatch(
      /^invalid: ada\/lamps can't be read: a\.lock is no branch name that git takes; correct defaultBranch/,
    )
    expect(await refusal({ branch: '--upload-pack=x' })).toMatch(/^invalid: .* is no branch name/)
    const repo = aJob().repo
    expect(await refusal({ repo: { ...repo, remote: '../../etc' } })).toMatch(/^invalid: .*owner\/name/)
    expect(await refusal({ repo: { ...repo, remote: 'ada/absent' } })).toMatch(
      /^unknown: .*ada\/absent.git does not exist on this worker/,
    )
    expect(await refusal({ repo: { ...repo, cloneUrl: 'ext::sh -c touch% /tmp/x' } })).toMatch(
      /^invalid: .*no address/,
    )
    const taken = g.run()
    await taken.sh('touch there')
    expect(
      refusalOf(await g.sources.checkOut(aJob({ branch: 'b' }), taken.folders, taken.sandbox, never)),
    ).toMatch(/^failed: checking out ada\/lamps failed: .*not an empty directory/)
  })

  test('ends soon after an abort', async () => {
    const g = createGitFixture()
    const stop = new AbortController()
    stop.abort()
    const run = g.run()
    expect(refusalOf(await g.sources.checkOut(aJob(), run.folders, run.sandbox, stop.signal))).toMatch(
      /^conflict: .*stopped/,
    )
  })
})

describe('the state in which an agent leaves its checkout', () => {
  const left = async (script: string): Promise<{ g: GitFixture; work: CollectedWork; files: string }> => {
    const g = createGitFixture()
    const { run, from } = await checkedOut(g)
    await run.sh(script)
    const work = await collected(g, run, from)
    const bare = join(run.folders.staging, 'work.git')
    const files = work.head === undefined ? '' : git(bare, 'ls-tree', '-r', '--name-only', work.head)
    return { g, work, files: files.split('\n').join(' ') }
  }

  test('no change', async () => {
    expect((await left(':')).work).toEqual({
      commits: 0,
      diff: { files: 0, additions: 0, deletions: 0, text: '' },
    })
    expect((await left('echo x > y; rm y; touch a.log')).work.head).toBeUndefined()
  })

  test('only files that git cannot add: they are named', async () => {
    const { work } = await left('git init -q inner; git -C inner commit -q --allow-empty -m x')
    expect(work.head).toBeUndefined()
    expect(work.diff.text).toBe('left out: inner, which is a repository of its own')
  })

  test('commits on another branch, and on a detached HEAD', async () => {
    expect((await left('git checkout -qb mine; echo 1 > mine; git add .; git commit -qm 1')).files).toMatch(
      /lamp mine/,
    )
    expect(
      (await left('git checkout -q --detach; echo 1 > loose; git add .; git commit -qm 1')).files,
    ).toMatch(/loose/)
  })

  test('work on its branch, and HEAD back at main', async () => {
    const { files } = await left('echo 1 > done; git add .; git commit -qm 1; git checkout -q main')
    expect(files).toMatch(/done/)
  })

  test('a merge with conflicts: earlier commits count, conflict markers do not', async () => {
    const { work, files } = await left(
      'echo a > lamp; git commit -qam a; git checkout -qb other HEAD~1; echo b > lamp; git commit -qam b; git checkout -q -; git merge -q other || true; echo kept > kept',
    )
    expect(work.diff.text).toMatch(/lamp/)
    expect(files).toMatch(/kept/)
    expect(work.diff).toMatchObject({ additions: 2, deletions: 1 })
  })

  test('an uncommitted merge, and a stopped rebase', async () => {
    const merge =
      'git checkout -qb other; echo b > b; git add b; git commit -qm b; git checkout -q -; echo a > a; git add a; git commit -qm a'
    expect((await left(`${merge}; git merge -q --no-commit other`)).work.commits).toBe(3)
    const { work } = await left(
      'echo a > lamp; git commit -qam a; git checkout -qb other HEAD~1; echo b > lamp; git commit -qam b; git checkout -q -; git rebase -q other 2>&1 || true',
    )
    expect(work).toMatchObject({ commits: 1, diff: { additions: 1, deletions: 1 } })
  })

  test('a repository inside the repository, locks of a killed git, hooks that refuse, names that break lines', async () => {
    const { files, work } = await left(`
      git init -q inner; git -C inner commit -q --allow-empty -m x; git init -q empty
      printf '#!/bin/sh\\nexit 1\\n' > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit
      touch .git/index.lock .git/HEAD.lock .git/refs/heads/$(git branch --show-current).lock; echo x > "$(printf 'odd\\nname')"; echo y > plain`)
    expect(files).toMatch(/"odd\\nname" plain/)
    expect(files).not.toMatch(/inner|empty/)
    expect(work.diff.text).toMatch(/\nleft out: inner, which is a repository of its own$/)
  })

  test('a replaced history is refused', async () => {
    const g = createGitFixture()
    const { run, from } = await checkedOut(g)
    await run.sh('git checkout -q --orphan new; git commit -qm fresh')
    expect(refusalOf(await g.sources.collect(aJob(), run.folders, run.sandbox, from))).toMatch(
      /^conflict: the work does not go on from [0-9a-f]{12}, where it started/,
    )
  })

  test('a deleted repository', async () => {
    const g = createGitFixture()
    const { run, from } = await checkedOut(g)
    await run.sh('rm -rf .git')
    expect(refusalOf(await g.sources.collect(aJob(), run.folders, run.sandbox, from))).toMatch(
      /^failed: collecting the work failed: .*not a git repository/,
    )
  })

  test('a bundle beyond the size limit', async () => {
    const g = createGitFixture({ bundleBytesMax: 64 * 1024 })
    const { run, from } = await checkedOut(g)
    await run.sh('head -c 200000 /dev/urandom > large')
    expect(refusalOf(await g.sources.collect(aJob(), run.folders, run.sandbox, from))).toMatch(
      /^invalid: .*more than 0 MiB/,
    )
  })
})

describe('publishing', () => {
  const ready = async (g: GitFixture) => {
    const { run, from } = await checkedOut(g)
    await run.sh('echo more > more')
    return { run, from, work: await collected(g, run, from) }
  }

  test('twice has the effect of once, whichever response was lost', async () => {
    const g = createGitFixture()
    const { run, from, work } = await ready(g)
    const first = got(await publish(g, run, from, work))
    expect(got(await publish(g, run, from, work))).toEqual({ ...first, adopted: true })
    expect(tipOf(g)).toBe(work.head)
  })

  test('does not overwrite another person’s push', async () => {
    const g = createGitFixture()
    const { run, from, work } = await ready(g)
    git(g.person, 'commit', '-q', '--allow-empty', '-m', 'Theirs')
    git(g.person, 'push', '-q', 'origin', `main:refs/heads/${BRANCH}`)
    const theirs = tipOf(g)
    expect(refusalOf(await publish(g, run, from, work))).toMatch(
      new RegExp(`^conflict: .*stands at ${theirs.slice(0, 12)}`),
    )
    expect(tipOf(g)).toBe(theirs)
    expect(existsSync(pullsOf(g))).toBe(false)
  })

  test('continues from a push that is part of the work, for example by an agent with push access', async () => {
    const g = createGitFixture()
    const { run, from } = await checkedOut(g)
    await run.sh('echo one > one; git add one; git commit -qm one; echo two > two')
    const work = await collected(g, run, from)
    git(join(run.folders.staging, 'work.git'), 'push', '-q', g.remote, `${work.head}~1:refs/heads/${BRANCH}`)
    expect(got(await publish(g, run, from, work)).pushed).toBe(work.head)
    expect(tipOf(g)).toBe(work.head)
  })

  test('does not create a branch again that was deleted meanwhile', async () => {
    const g = createGitFixture()
    git(g.person, 'push', '-q', 'origin', `HEAD~1:refs/heads/${BRANCH}`)
    const { run, from, work } = await ready(g)
    git(g.remote, 'update-ref', '-d', `refs/heads/${BRANCH}`)
    expect(refusalOf(await publish(g, run, from, work))).toMatch(/^conflict: .*it is gone/)
  })

  test('pushes and opens nothing without the lease', async () => {
    const g = createGitFixture()
    const { run, from, work } = await ready(g)
    expect(refusalOf(await publish(g, run, from, work, { fence: () => false }))).toMatch(
      /^conflict: the lease is gone/,
    )
    expect(() => tipOf(g)).toThrow()
    let asked = 0
    expect(refusalOf(await publish(g, run, from, work, { fence: () => ++asked === 1 }))).toMatch(
      /^conflict: the lease is gone/,
    )
    expect(asked).toBe(2)
    expect(tipOf(g)).toBe(work.head)
    expect(existsSync(pullsOf(g))).toBe(false)
  })

  test('adopts an existing pull request, also one that is opened at the same time', async () => {
    const g = createGitFixture()
    const { run, from, work } = await ready(g)
    let searches = 0
    const theirs = { number: 7, url: 'https://code.example/7', state: 'draft' as const }
    const codehost = {
      gitAddress: (remote: string) => g.codehost.gitAddress(remote),
      findPull: async () => ({ ok: true as const, value: searches++ === 0 ? undefined : theirs }),
      openPull: async () => ({
        ok: false as const,
        refusal: { kind: 'conflict' as const, message: 'exists' },
      }),
      hasComment: async () => ({ ok: true as const, value: false }),
      comment: async () => ({ ok: true as const, value: undefined }),
      dropRepeats: async () => ({ ok: true as const, value: 0 }),
    }
    const order = { job: aJob(), leaseId: 'ls-1', folders: run.folders, from, collected: work, summary: '' }
    expect(got(await g.sources.publish(order, codehost, () => true, never))).toMatchObject({
      prUrl: theirs.url,
      prState: 'draft',
    })
  })

  test('the agent’s text can neither imitate nor hide the marker', async () => {
    const g = createGitFixture()
    const { run, from, work } = await ready(g)
    const published = got(
      await publish(g, run, from, work, { summary: '<!-- switchyard run=x lease=y -->\u001b[2J <!--' }),
    )
    const { body } = JSON.parse(readFileSync(fileURLToPath(published.prUrl), 'utf8'))
    expect(body.match(/<!--/g)).toHaveLength(1)
    expect(body).not.toContain('\u001b')
    expect(body).toMatch(/<!-- switchyard run=run-1 lease=ls-1 -->$/)
  })
})
