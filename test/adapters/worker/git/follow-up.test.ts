/** Git in a follow-up: a pull request's branch is checked out in a sandbox, rebased, and pushed back. */
import { execFileSync } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import type { Job } from '../../../../protocol/frames.ts'
import type { FollowUpStart } from '../../../../worker/git/git-ports.ts'
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

function aFollowUp(more: Partial<NonNullable<Job['pull']>> = {}, id = 'fu-1'): Job {
  return aJob({
    kind: 'follow-up',
    followUp: { id, number: 1 },
    pull: {
      number: 1,
      url: 'https://code.example/1',
      headBranch: BRANCH,
      headRemote: 'ada/lamps',
      baseBranch: 'main',
      threads: [],
      reviews: [],
      comments: [],
      ...more,
    },
  })
}

const refOf = ({ remote }: GitFixture, branch: string) => join(remote, 'refs/heads', branch)
const tipOf = (g: GitFixture, branch = BRANCH) => readFileSync(refOf(g, branch), 'utf8').trim()
const subjects = (g: GitFixture, branch = BRANCH) => git(g.remote, 'log', '--format=%s', branch).split('\n')

/** Points a branch to a commit that the code host has, as a person's push does. */
function moveBranch(g: GitFixture, commit: string, branch = BRANCH): void {
  mkdirSync(dirname(refOf(g, branch)), { recursive: true })
  writeFileSync(refOf(g, branch), `${commit}\n`)
}

/** The person's checkout has the newest commits afterwards, and is on a branch of the code host. */
function checkOutAsPerson(g: GitFixture, branch = BRANCH): void {
  git(g.person, 'fetch', '-q', 'origin')
  git(g.person, 'checkout', '-q', '-B', branch, `origin/${branch}`)
}

/** Merges into the pull request's branch as a person; with `file`, the merge also contains a manual change. */
function merged(g: GitFixture, from: string, file?: string, text = ''): string {
  checkOutAsPerson(g)
  git(g.person, 'merge', '-q', '--no-ff', '--no-commit', `origin/${from}`)
  if (file !== undefined) writeFileSync(join(g.person, file), text)
  git(g.person, 'add', '-A')
  git(g.person, 'commit', '-q', '-m', `Merge ${from}`)
  git(g.person, 'push', '-q', 'origin', BRANCH)
  return tipOf(g)
}

/** A pull request with one commit, whose base has moved on by one. */
const drifted = createOnce((g) => {
  commitAsPerson(g, BRANCH, 'new', 'of the branch\n', 'Add new')
  commitAsPerson(g, 'main', 'other', 'of main\n', 'Main goes on')
})

/** Both branches changed the same line. */
const clashing = createOnce((g) => {
  commitAsPerson(g, BRANCH, 'lamp', 'branch\n', 'Lamp of the branch')
  commitAsPerson(g, 'main', 'lamp', 'main\n', 'Lamp of main')
})

/** A pull request's branch without commits of its own. */
function createWithBranch(): GitFixture {
  const g = createGitFixture()
  moveBranch(g, tipOf(g, 'main'))
  return g
}

/** Each call gets a copy of the same repositories, because creating them takes some twenty git processes. */
function createOnce(change: (g: GitFixture) => void): () => GitFixture {
  let folder: string | undefined
  return () => {
    if (folder === undefined) {
      const g = createWithBranch()
      change(g)
      folder = g.folder
    }
    return createGitFixture({}, folder)
  }
}

async function begun(
  g: GitFixture,
  run: RunFixture,
  job = aFollowUp(),
  isRetained = false,
): Promise<FollowUpStart> {
  return got(
    await g.sources.followUps.begin({ job, folders: run.folders, sandbox: run.sandbox, isRetained }, never),
  )
}

function push(
  g: GitFixture,
  run: RunFixture,
  from: FollowUpStart,
  job = aFollowUp(),
  fence: () => boolean = () => true,
) {
  return g.sources.followUps.push(
    { job, folders: run.folders, sandbox: run.sandbox, start: from },
    fence,
    never,
  )
}

describe('from the branch to the newest base', () => {
  test('a branch that is only behind is rebased and pushed over its old commit', async () => {
    const g = drifted()
    const run = g.run()
    const head = tipOf(g)
    const from = await begun(g, run)
    expect(from).toMatchObject({
      state: 'rebased',
      head,
      base: tipOf(g, 'main'),
      conflictFiles: [],
      preserved: [],
    })
    expect(await run.sh('git branch --show-current; cat new other')).toBe(`${BRANCH}\nof the branch\nof main`)
    const done = got(await push(g, run, from))
    expect(done.pushed).toBe(tipOf(g))
    expect(subjects(g)).toEqual(['Add new', 'Main goes on', 'Lamps', 'First'])
    expect(git(g.remote, 'cat-file', 'commit', tipOf(g))).toMatch(/^switchyard-follow-up [0-9a-f]{64}$/m)
    expect(git(g.remote, 'log', '-1', '--format=%an %B', BRANCH)).toBe('Ada Add new')
    expect(git(g.remote, 'fsck', '--full', '--strict', '--no-dangling')).toBe('')
  })

  test('people’s messages stay when their commits are rebased, and the agent’s are neutralized', async () => {
    const g = createWithBranch()
    commitAsPerson(g, BRANCH, 'new', 'of the branch\n', 'Fixes #7: thanks @ada')
    commitAsPerson(g, 'main', 'other', 'of main\n', 'Main goes on')
    const run = g.run()
    const from = await begun(g, run)
    await run.sh("echo 1 > a; git add a; git commit -qm 'Fixes #8: thanks @bo'")
    got(await push(g, run, from))
    expect(subjects(g).slice(0, 2)).toEqual(['Fixes \u200b#8: thanks @\u200bbo', 'Fixes #7: thanks @ada'])
  })

  test('people’s messages stay when the agent resolves the conflict of their commit', async () => {
    const g = createWithBranch()
    commitAsPerson(g, BRANCH, 'lamp', 'branch\n', 'Lamp  \n\n\nFixes #7: thanks @ada\r')
    commitAsPerson(g, 'main', 'lamp', 'main\n', 'Lamp of main')
    const run = g.run()
    const from = await begun(g, run)
    await run.sh('echo both > lamp; git add lamp; GIT_EDITOR=true git rebase --continue 2>&1')
    got(await push(g, run, from))
    expect(git(g.remote, 'log', '-1', '--format=%b', BRANCH)).toMatch(/^Fixes #7: thanks @ada/)
  })

  test('an up-to-date branch without new work is not pushed', async () => {
    const g = createWithBranch()
    const head = commitAsPerson(g, BRANCH, 'new', 'x\n', 'Add new')
    const run = g.run()
    const from = await begun(g, run)
    expect(from).toMatchObject({ state: 'current', head, tip: head })
    expect(got(await push(g, run, from))).toMatchObject({ pushed: undefined, isContained: false })
    expect(tipOf(g)).toBe(head)
  })

  test('a branch that the base contains is not pushed', async () => {
    const g = drifted()
    checkOutAsPerson(g, 'main')
    git(g.person, 'merge', '-q', '--no-edit', `origin/${BRANCH}`)
    git(g.person, 'push', '-q', 'origin', 'main')
    const run = g.run()
    const from = await begun(g, run)
    const head = tipOf(g)
    expect(got(await push(g, run, from))).toMatchObject({ pushed: undefined, isContained: true })
    expect(tipOf(g)).toBe(head)
  })

  test('the agent’s work is pushed, committed or not', async () => {
    const g = drifted()
    const run = g.run()
    const from = await begun(g, run)
    await run.sh('echo a > a; git add a; git commit -qm "Address the review"; echo b > b')
    got(await push(g, run, from))
    expect(subjects(g).slice(0, 3)).toEqual(['ENG-12: Mend the lamp', 'Address the review', 'Add new'])
    expect(git(g.remote, 'show', `${BRANCH}:b`)).toBe('b')
  })

  test.each([false, true])(
    'submodules and LFS pointers are pushed unchanged (in a retained sandbox: %s)',
    async (isRetained) => {
      const g = drifted()
      const link = '160000,1111111111111111111111111111111111111111,part'
      checkOutAsPerson(g)
      git(g.person, 'update-index', '--add', '--cacheinfo', link)
      const pointer = 'version https://git-lfs.github.com/spec/v1\noid sha256:12\nsize 3\n'
      writeFileSync(join(g.person, 'large.bin'), pointer)
      writeFileSync(join(g.person, '.gitattributes'), '*.bin filter=lfs diff=lfs merge=lfs -text\n')
      git(g.person, 'add', 'large.bin', '.gitattributes')
      git(g.person, 'commit', '-q', '-m', 'Add part')
      git(g.person, 'push', '-q', 'origin', BRANCH)
      const run = g.run()
      if (isRetained) await begun(g, run, aFollowUp({}, 'fu-0'))
      if (isRetained) await run.sh('git config submodule.recurse true; echo x > part/x')
      const from = await begun(g, run, aFollowUp(), isRetained)
      expect(from).toMatchObject({ state: 'rebased' })
      got(await push(g, run, from))
      expect(git(g.remote, 'ls-tree', BRANCH, 'part')).toMatch(/^160000 commit 1{40}/)
      expect(git(g.remote, 'show', `${BRANCH}:large.bin`)).toBe(pointer.trim())
    },
  )

  test('manual changes in a merge survive the rebase', async () => {
    const g = createWithBranch()
    commitAsPerson(g, BRANCH, 'new', 'of the branch\n', 'Add new')
    commitAsPerson(g, 'main', 'other', 'of main\n', 'Main goes on')
    merged(g, 'main', 'new', 'as main needs it\n')
    commitAsPerson(g, BRANCH, 'more', 'x\n', 'Add more')
    const base = commitAsPerson(g, 'main', 'later', 'x\n', 'Main goes on again')
    const whole = git(g.remote, 'merge-tree', '--write-tree', base, tipOf(g))
    const run = g.run()
    const from = await begun(g, run)
    expect(from).toMatchObject({ state: 'rebased' })
    got(await push(g, run, from))
    expect(git(g.remote, 'show', `${BRANCH}:new`)).toBe('as main needs it')
    expect(git(g.remote, 'rev-parse', `${BRANCH}^{tree}`)).toBe(whole)
    expect(git(g.remote, 'rev-list', '--merges', BRANCH)).toBe('')
  })

  test('manual changes in a merge that cannot be restored are reported for the agent', async () => {
    const g = drifted()
    const merge = merged(g, 'main', 'other', 'of main, as the branch needs it\n')
    const head = tipOf(g)
    commitAsPerson(g, 'main', 'other', 'of main, otherwise\n', 'Main goes on again')
    expect(await begun(g, g.run())).toMatchObject({ state: 'rebased', head, merges: [merge] })
  })

  test('a branch whose merges contain no changes of their own becomes linear', async () => {
    const g = drifted()
    merged(g, 'main')
    commitAsPerson(g, 'main', 'later', 'x\n', 'Main goes on again')
    const run = g.run()
    got(await push(g, run, await begun(g, run)))
    expect(subjects(g).slice(0, 3)).toEqual(['Add new', 'Main goes on again', 'Main goes on'])
  })

  test('a branch without a common history is refused', async () => {
    const g = createGitFixture()
    git(g.person, 'checkout', '-q', '--orphan', 'alone')
    git(g.person, 'commit', '-q', '-m', 'Alone')
    git(g.person, 'push', '-q', 'origin', `alone:${BRANCH}`)
    const run = g.run()
    const order = { job: aFollowUp(), folders: run.folders, sandbox: run.sandbox, isRetained: false }
    expect(refusalOf(await g.sources.followUps.begin(order, never))).toMatch(/shares no history with main/)
  })

  test.each<[string, Partial<NonNullable<Job['pull']>>, RegExp]>([
    ['is gone', { headBranch: 'gone' }, /ada\/lamps has no branch gone/],
    ['is the default branch', { headBranch: 'main', baseBranch: 'release' }, /never rewrites main/],
    ['is an option', { headBranch: '--all' }, /no branch name/],
    ['lies in no repository', { headRemote: '../lamps' }, /no repository as owner\/name/],
  ])('a branch that %s is refused', async (_, pull, message) => {
    const g = drifted()
    const run = g.run()
    const order = { job: aFollowUp(pull), folders: run.folders, sandbox: run.sandbox, isRetained: false }
    expect(refusalOf(await g.sources.followUps.begin(order, never))).toMatch(message)
  })
})

describe('a conflict', () => {
  test('is left to the agent, whose resolution is pushed', async () => {
    const g = clashing()
    const run = g.run()
    const from = await begun(g, run)
    expect(from).toMatchObject({ state: 'conflict', conflictFiles: ['lamp'], tip: undefined })
    await run.sh('echo both > lamp; git add lamp; GIT_EDITOR=true git rebase --continue 2>&1')
    expect(got(await push(g, run, from)).pushed).toBe(tipOf(g))
    expect(git(g.remote, 'show', `${BRANCH}:lamp`)).toBe('both')
    expect(subjects(g).slice(0, 2)).toEqual(['Lamp of the branch', 'Lamp of main'])
  })

  test('of a branch with merges names the merges, because the rebase drops them', async () => {
    const g = drifted()
    const merge = merged(g, 'main', 'new', 'as main needs it\n')
    commitAsPerson(g, BRANCH, 'lamp', 'branch\n', 'Lamp of the branch')
    commitAsPerson(g, 'main', 'lamp', 'main\n', 'Lamp of main')
    expect(await begun(g, g.run())).toMatchObject({ state: 'conflict', merges: [merge] })
  })

  test.each([
    ['left as it is', 'true', /rebase onto main was not finished/],
    ['resolved without going on', 'echo both > lamp; git add lamp', /rebase onto main was not finished/],
    ['given up', 'git rebase --abort', /not rebased onto main in the end/],
    [
      'committed with its markers',
      'git add lamp; GIT_EDITOR=true git rebase --continue 2>&1',
      /conflict markers are left in lamp/,
    ],
  ])('that is %s is not pushed', async (_, script, message) => {
    const g = clashing()
    const run = g.run()
    const before = tipOf(g)
    const from = await begun(g, run)
    await run.sh(script)
    expect(refusalOf(await push(g, run, from))).toMatch(message)
    expect(tipOf(g)).toBe(before)
  })

  test('markers that existed before do not prevent a push', async () => {
    const g = createWithBranch()
    commitAsPerson(g, BRANCH, 'about', '<<<<<<< a\n=======\n>>>>>>> b\n', 'About markers')
    commitAsPerson(g, 'main', 'other', 'of main\n', 'Main goes on')
    const run = g.run()
    const from = await begun(g, run)
    await run.sh('echo more >> about')
    expect(got(await push(g, run, from)).pushed).toBe(tipOf(g))
  })
})

describe('a retained sandbox', () => {
  test('is reused with its ignored files', async () => {
    const g = drifted()
    const run = g.run()
    got(await push(g, run, await begun(g, run)))
    await run.sh('echo cache > build.log')
    commitAsPerson(g, 'main', 'again', 'x\n', 'Main goes on again')
    const from = await begun(g, run, aFollowUp({}, 'fu-2'), true)
    expect(from).toMatchObject({ state: 'rebased', isNewCheckout: false, preserved: [] })
    expect(await run.sh('cat build.log again')).toBe('cache\nx')
  })

  test('loses no work that exists nowhere else', async () => {
    const g = drifted()
    const run = g.run()
    await begun(g, run)
    await run.sh('echo mine > mine; git add mine; git commit -qm Mine; echo lost > lost; echo x >> new')
    const from = await begun(g, run, aFollowUp(), true)
    expect(from).toMatchObject({ state: 'rebased', preserved: ['switchyard/before-follow-up-1'] })
    expect(
      await run.sh(
        'git status --porcelain; git show switchyard/before-follow-up-1:mine switchyard/before-follow-up-1:lost',
      ),
    ).toBe('mine\nlost')
    await run.sh('echo again > again')
    const third = await begun(g, run, aFollowUp(), true)
    expect(third.preserved).toEqual(['switchyard/before-follow-up-1-2'])
  })

  test('with an unfinished rebase starts it again and preserves the resolved files', async () => {
    const g = clashing()
    const run = g.run()
    await begun(g, run)
    await run.sh('echo both > lamp; touch .git/index.lock')
    const from = await begun(g, run, aFollowUp(), true)
    expect(from).toMatchObject({ state: 'conflict', preserved: ['switchyard/before-follow-up-1'] })
    expect(await run.sh('git show switchyard/before-follow-up-1:lamp')).toBe('both')
  })

  test('with a broken checkout has it moved aside', async () => {
    const g = drifted()
    const run = g.run()
    await begun(g, run)
    await run.sh('echo precious > precious; rm -rf .git; ln -s /etc .git')
    const from = await begun(g, run, aFollowUp(), true)
    expect(from).toMatchObject({ state: 'rebased', isNewCheckout: true })
    expect(from.preserved).toEqual([expect.stringMatching(/\/before-follow-up-1\./)])
    expect(await run.sh(`cat ${from.preserved[0]}/precious; cat new other`)).toBe(
      'precious\nof the branch\nof main',
    )
    expect(got(await push(g, run, from)).pushed).toBe(tipOf(g))
  })
})

describe('a push that is overtaken', () => {
  test('puts the agent’s work on top of a person’s commits', async () => {
    const g = drifted()
    const run = g.run()
    const from = await begun(g, run)
    await run.sh('echo a > a; git add a; git commit -qm "Address the review"')
    commitAsPerson(g, BRANCH, 'theirs', 'x\n', 'Theirs')
    got(await push(g, run, from))
    expect(subjects(g).slice(0, 4)).toEqual(['Address the review', 'Theirs', 'Add new', 'Main goes on'])
  })

  test('includes the new commits in a branch that was only behind', async () => {
    const g = drifted()
    const run = g.run()
    const from = await begun(g, run)
    commitAsPerson(g, 'main', 'later', 'x\n', 'Main goes on again')
    commitAsPerson(g, BRANCH, 'theirs', 'x\n', 'Theirs')
    got(await push(g, run, from))
    expect(subjects(g).slice(0, 4)).toEqual(['Theirs', 'Add new', 'Main goes on again', 'Main goes on'])
  })

  test('puts a person’s commits on top of a conflict that the agent resolved', async () => {
    const g = clashing()
    const run = g.run()
    const from = await begun(g, run)
    await run.sh('echo both > lamp; git add lamp; GIT_EDITOR=true git rebase --continue 2>&1')
    commitAsPerson(g, BRANCH, 'theirs', 'x\n', 'Theirs')
    got(await push(g, run, from))
    expect(subjects(g).slice(0, 3)).toEqual(['Theirs', 'Lamp of the branch', 'Lamp of main'])
    expect(git(g.remote, 'show', `${BRANCH}:lamp`)).toBe('both')
  })

  /** Pushes as an agent that has the code host's token. */
  const pushesItself = (g: GitFixture, run: RunFixture, commit = 'HEAD') =>
    git(
      run.folders.work,
      '-c',
      'safe.directory=*',
      'push',
      '-q',
      '-f',
      g.remote,
      `${commit}:refs/heads/${BRANCH}`,
    )

  test.each([
    ['all of it', 'HEAD'],
    ['a part of it', 'HEAD~1'],
  ])('by the agent’s own push of %s does not count as overtaken', async (_, commit) => {
    for (const g of [drifted(), clashing()]) {
      const run = g.run()
      const from = await begun(g, run)
      if (from.state === 'conflict')
        await run.sh('echo both > lamp; git add lamp; GIT_EDITOR=true git rebase --continue 2>&1')
      await run.sh('for n in 1 2; do echo $n > $n; git add $n; git commit -qm "Address $n"; done')
      pushesItself(g, run, commit)
      const done = got(await push(g, run, from))
      expect(done.pushed).toBe(tipOf(g))
      expect(subjects(g).slice(0, 2)).toEqual(['Address 2', 'Address 1'])
      expect(await begun(g, g.run())).toMatchObject({ state: 'pushed' })
    }
  })

  test('by a person who removed commits leaves them out', async () => {
    const g = createWithBranch()
    const retained = commitAsPerson(g, BRANCH, 'new', 'x\n', 'Add new')
    commitAsPerson(g, BRANCH, 'wrong', 'x\n', 'Not that')
    const run = g.run()
    const from = await begun(g, run)
    await run.sh('echo a > a; git add a; git commit -qm "Address the review"')
    moveBranch(g, retained)
    got(await push(g, run, from))
    expect(subjects(g).slice(0, 2)).toEqual(['Address the review', 'Add new'])
  })

  test('by a person who amended only the message keeps the new message', async () => {
    const g = drifted()
    const run = g.run()
    const from = await begun(g, run)
    checkOutAsPerson(g)
    git(g.person, 'rebase', '-q', 'origin/main')
    git(g.person, 'commit', '-q', '--amend', '-m', 'Add what is new')
    git(g.person, 'push', '-q', '-f', 'origin', BRANCH)
    const theirs = tipOf(g)
    got(await push(g, run, from))
    expect(tipOf(g)).toBe(theirs)
  })

  test('by a person who reset the whole branch does not push the removed commits again', async () => {
    const g = drifted()
    const run = g.run()
    const from = await begun(g, run)
    expect(from).toMatchObject({ state: 'rebased' })
    moveBranch(g, tipOf(g, 'main'))
    expect(got(await push(g, run, from))).toMatchObject({ pushed: undefined })
    expect(tipOf(g)).toBe(tipOf(g, 'main'))
  })

  test('includes manual changes in a person’s merge', async () => {
    const g = drifted()
    const run = g.run()
    const from = await begun(g, run)
    await run.sh('echo a > a; git add a; git commit -qm "Address the review"')
    merged(g, 'main', 'new', 'as main needs it\n')
    commitAsPerson(g, 'main', 'later', 'x\n', 'Main goes on again')
    got(await push(g, run, from))
    expect(git(g.remote, 'show', `${BRANCH}:new`)).toBe('as main needs it')
    expect(git(g.remote, 'show', `${BRANCH}:a`)).toBe('a')
  })

  test('is given up on a conflict, and the person’s branch stays', async () => {
    const g = drifted()
    const run = g.run()
    const from = await begun(g, run)
    await run.sh('echo ours > new; git commit -qam Ours')
    const theirs = commitAsPerson(g, BRANCH, 'new', 'theirs\n', 'Theirs')
    expect(refusalOf(await push(g, run, from))).toMatch(/somebody else changed .* in the meantime/)
    expect(tipOf(g)).toBe(theirs)
    expect(await run.sh('git log -1 --format=%s; git status --porcelain')).toBe('Ours')
  })

  test('by a deletion of the branch does not create it again', async () => {
    const g = drifted()
    const run = g.run()
    const from = await begun(g, run)
    const fence = () => {
      git(g.remote, 'update-ref', '-d', `refs/heads/${BRANCH}`)
      return true
    }
    expect(refusalOf(await push(g, run, from, aFollowUp(), fence))).toMatch(/ada\/lamps has no branch/)
    expect(() => tipOf(g)).toThrow()
  })

  test('is repeated only a limited number of times', async () => {
    const g = drifted()
    const run = g.run()
    const from = await begun(g, run)
    let pushes = 0
    const fence = () => {
      commitAsPerson(g, BRANCH, `theirs-${++pushes}`, 'x\n', 'Theirs')
      return true
    }
    expect(refusalOf(await push(g, run, from, aFollowUp(), fence))).toMatch(/in the meantime/)
    expect(pushes).toBe(3)
  })
})

describe('a repeated follow-up', () => {
  test('finds its own push, also below a person’s newer commits', async () => {
    const g = drifted()
    const first = g.run()
    got(await push(g, first, await begun(g, first)))
    const again = g.run()
    expect(await begun(g, again)).toMatchObject({ state: 'pushed', head: tipOf(g) })
    commitAsPerson(g, BRANCH, 'theirs', 'x\n', 'Theirs')
    expect(await begun(g, again)).toMatchObject({ state: 'pushed' })
    expect(await begun(g, again, aFollowUp({}, 'fu-2'))).toMatchObject({ state: 'current' })
  })

  // Both are pushed as commits that the worker has written anew.
  test.each([
    ['a message that would notify people', "echo 1 > a; git add a; git commit -qm 'Fixes #12: answer @ada'"],
    [
      'a CI definition',
      'mkdir -p .github/workflows; echo 1 > .github/workflows/a.yml; echo 1 > a; git add .',
    ],
  ])('finds its own push of work with %s', async (_, script) => {
    const g = drifted()
    const run = g.run()
    const from = await begun(g, run)
    await run.sh(script)
    expect(got(await push(g, run, from)).pushed).toBe(tipOf(g))
    expect(await begun(g, g.run())).toMatchObject({ state: 'pushed', head: tipOf(g) })
  })

  test.each([
    ['very many commits', 150, 'x'],
    ['long words', 3, 'long words '.repeat(20_000)],
  ])('finds its own push below %s of other people', async (_, count, words) => {
    const g = drifted()
    const first = g.run()
    got(await push(g, first, await begun(g, first)))
    let tip = ''
    for (let n = 0; n < count; n++) tip = commitAsPerson(g, BRANCH, `theirs-${n}`, 'x\n', words)
    commitAsPerson(g, 'main', 'other', 'of main, later\n', 'Main goes on and on')
    expect(await begun(g, g.run())).toMatchObject({ state: 'pushed', head: tip })
    expect(await begun(g, g.run(), aFollowUp({}, 'fu-2'))).toMatchObject({ state: 'rebased' })
  })

  test('pushes nothing if another attempt of the same follow-up has pushed', async () => {
    const g = drifted()
    const [firstRun, secondRun] = [g.run(), g.run()]
    const [first, second] = [await begun(g, firstRun), await begun(g, secondRun)]
    await firstRun.sh('echo 1 > one')
    await secondRun.sh('echo 2 > two')
    const done = got(await push(g, firstRun, first))
    expect(got(await push(g, secondRun, second)).pushed).toBe(done.pushed)
    expect(tipOf(g)).toBe(done.pushed)
  })

  test('does not mistake a commit message for a seal', async () => {
    const g = drifted()
    commitAsPerson(g, BRANCH, 'x', 'x\n', 'X\n\nswitchyard-follow-up fu-1')
    expect(await begun(g, g.run())).toMatchObject({ state: 'rebased' })
  })

  test('refuses an id with characters that are not allowed', async () => {
    const g = drifted()
    const run = g.run()
    const job = aFollowUp({}, 'fu/1; x')
    const order = { job, folders: run.folders, sandbox: run.sandbox, isRetained: false }
    expect(refusalOf(await g.sources.followUps.begin(order, never))).toMatch(/names no follow-up/)
  })

  test('pushes nothing after the lease is lost', async () => {
    const g = drifted()
    const run = g.run()
    const before = tipOf(g)
    expect(refusalOf(await push(g, run, await begun(g, run), aFollowUp(), () => false))).toMatch(
      /lease is gone/,
    )
    expect(tipOf(g)).toBe(before)
  })
})

/** A pull request from `main` of a fork, whose base has one newer commit. */
function forked() {
  const g = createGitFixture()
  const fork = join(g.folder, 'codehost/bo/lamps.git')
  mkdirSync(join(g.folder, 'codehost/bo'), { recursive: true })
  execFileSync('git', ['clone', '-q', '--bare', g.remote, fork])
  git(g.person, 'remote', 'add', 'fork', fork)
  writeFileSync(join(g.person, 'theirs'), 'x\n')
  git(g.person, 'add', '-A')
  git(g.person, 'commit', '-q', '-m', 'Of the fork')
  git(g.person, 'push', '-q', 'fork', 'HEAD:main')
  git(g.person, 'reset', '-q', '--hard', 'origin/main')
  const base = commitAsPerson(g, 'main', 'other', 'of main\n', 'Main goes on')
  return { g, fork, base, job: aFollowUp({ headRemote: 'bo/lamps', headBranch: 'main' }) }
}

test('the branch of a fork is fetched from there and pushed to there', async () => {
  const { g, fork, base, job } = forked()
  const run = g.run()
  const from = await begun(g, run, job)
  expect(from).toMatchObject({ state: 'rebased', base })
  const done = got(await push(g, run, from, job))
  expect(git(fork, 'rev-parse', 'main')).toBe(done.pushed)
  expect(git(fork, 'log', '--format=%s', 'main').split('\n').slice(0, 2)).toEqual([
    'Of the fork',
    'Main goes on',
  ])
  expect(tipOf(g, 'main')).toBe(base)
  const config = readFileSync(join(run.folders.work, '.git/config'), 'utf8')
  expect(config).toContain('url = /repository.git')
  expect(config).not.toContain('bo/lamps')
})
