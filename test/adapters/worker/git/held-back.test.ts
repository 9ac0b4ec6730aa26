/** An agent that changes CI definitions: real git, and they never reach the code host unless the repository allows it. */
import { readFileSync } from 'node:fs'
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
  refusalOf,
} from './git-fixture.ts'

const BRANCH = 'switchyard/eng-12'
const WORKFLOW = '.github/workflows/ci.yml'

/** A repository whose base has a workflow. */
function withWorkflow(): GitFixture {
  const g = createGitFixture()
  writeAsPerson(g, 'main', WORKFLOW, 'on: push')
  return g
}

const writeAsPerson = (g: GitFixture, branch: string, path: string, text: string) =>
  commitAsPerson(g, branch, path, `${text}\n`, `Write ${path}`)

/** Checks out, lets the agent work, and publishes as an execution does. */
async function publish(g: GitFixture, script: string, job: Job = aJob()) {
  const run = g.run()
  const { folders, sandbox } = run
  const from = got(await g.sources.checkOut(job, folders, sandbox, never))
  await run.sh(`cd /work; set -e; ${script}`)
  const collected = got(await g.sources.collect(job, folders, sandbox, from))
  const request = { job, leaseId: 'l1', folders, from, collected, summary: 'Done.' }
  const published = await g.sources.publish(request, g.codehost, () => true, never)
  return { collected, published }
}

const pushed = (g: GitFixture, path: string): string =>
  git(g.remote, 'show', '--format=', '--no-patch', `${BRANCH}:${path}`)
const log = (g: GitFixture, ...paths: readonly string[]): string[] =>
  git(g.remote, 'log', '--format=%s', `main..${BRANCH}`, '--', ...paths)
    .split('\n')
    .filter((line) => line !== '')

describe('what an agent does to a CI definition is not pushed:', () => {
  const g = withWorkflow()

  test.each<[string, string, string[]]>([
    ['a new one', 'mkdir -p .circleci; echo run >.circleci/config.yml', ['.circleci/config.yml']],
    ['one committed', `echo evil >${WORKFLOW}; git add -A; git commit -qm evil`, [WORKFLOW]],
    [
      'one changed and changed back except for a space',
      `echo evil >${WORKFLOW}; git commit -qam evil; echo 'on:  push' >${WORKFLOW}`,
      [WORKFLOW],
    ],
    [
      'one added and removed again',
      'mkdir -p .circleci; echo evil >.circleci/config.yml; git add -A; git commit -qm evil; git rm -qr .circleci; git commit -qm gone',
      ['.circleci/config.yml'],
    ],
    ['one deleted', `git rm -q ${WORKFLOW}; git commit -qm gone`, [WORKFLOW]],
    ['one made executable', `chmod +x ${WORKFLOW}`, [WORKFLOW]],
    ['one replaced by a link', `ln -sf ../../evil.yml ${WORKFLOW}`, [WORKFLOW]],
    [
      'one in a merged branch',
      `git checkout -qb side; echo evil >${WORKFLOW}; git commit -qam evil; git checkout -q ${BRANCH}; echo x >x; git add x; git commit -qm x; git merge -q --no-ff -m merge side`,
      [WORKFLOW],
    ],
    [
      'one that a merge adds and a second merge removes',
      [
        'git checkout -qb side; echo s >s; git add s; git commit -qm s',
        `git checkout -q ${BRANCH}; git merge -q --no-ff --no-commit side; mkdir -p .circleci`,
        'echo evil >.circleci/config.yml; git add -A; git commit -qm merge; git checkout -qb other HEAD^',
        `echo y >y; git add y; git commit -qm y; git checkout -q ${BRANCH}`,
        'git merge -q --no-ff --no-commit other; git rm -qrf .circleci; git commit -qm gone',
      ].join('; '),
      ['.circleci/config.yml'],
    ],
    [
      'an action',
      'mkdir -p .github/actions/a; echo x >.github/actions/a/action.yml',
      ['.github/actions/a/action.yml'],
    ],
  ])('%s', async (_, script, paths) => {
    const { collected, published } = await publish(
      g,
      `echo new >file; git add file; git commit -qm 'Add a file'; ${script}`,
    )
    expect(collected.heldBack?.paths).toEqual(paths)
    const { pushed: head, prUrl } = got(published)
    expect(pushed(g, 'file')).toBe('new')
    expect(git(g.remote, 'rev-parse', BRANCH)).toBe(head)
    expect(
      git(
        g.remote,
        'diff',
        '--name-only',
        'main',
        BRANCH,
        '--',
        '.github/workflows',
        '.circleci',
        '.github/actions',
      ),
    ).toBe('')
    expect(log(g, '.github', '.circleci')).toEqual([])
    expect(prUrl).toMatch(/pull/)
    git(g.remote, 'update-ref', '-d', `refs/heads/${BRANCH}`)
  })
})

test('the patch, the log and the pull request tell what was held back', async () => {
  const g = withWorkflow()
  const { collected, published } = await publish(g, `echo new >file; echo 'on: [push, "evil"]' >${WORKFLOW}`)
  expect(collected.heldBack?.patch).toContain('+on: [push, "evil"]')
  expect(collected.diff.files).toBe(1)
  got(published)
  expect(JSON.parse(readFileSync(join(g.remote, '../lamps.pulls/1.json'), 'utf8')).body).toMatch(
    /^\*\*Held back:\*\* changes of CI definitions \(`\.github\/workflows\/ci\.yml`\)/,
  )
})

test('the pull request names first what runs on a reviewer’s machine or decides who reviews', async () => {
  const g = withWorkflow()
  const script = `mkdir -p .vscode .claude; echo '{}' >.vscode/tasks.json; echo '{}' >.claude/settings.json; echo '* @a' >CODEOWNERS; echo new >file; echo evil >${WORKFLOW}`
  const job = aJob({ repo: { ...aJob().repo, allowWorkflows: true } })
  got((await publish(g, script, job)).published)
  const { body } = JSON.parse(readFileSync(join(g.remote, '../lamps.pulls/1.json'), 'utf8'))
  expect(body).toMatch(
    /^\*\*Look here first:\*\* `\.claude\/settings\.json`, `\.github\/workflows\/ci\.yml`, `\.vscode\/tasks\.json`, `CODEOWNERS` – /,
  )
})

test('authors, dates and messages of the other commits stay', async () => {
  const g = withWorkflow()
  const commit =
    "GIT_AUTHOR_DATE='2026-01-02T03:04:05Z' git -c user.name='Ada Å' -c user.email=ada@example.com commit -qm"
  await publish(
    g,
    `echo 1 >a; git add a; ${commit} 'First: ünïcode

body'; echo evil >${WORKFLOW}; ${commit} evil -a; echo 2 >>a; echo more >>${WORKFLOW}; ${commit} Second -a`,
  )
  expect(log(g)).toEqual(['Second', 'First: ünïcode'])
  expect(git(g.remote, 'log', '-1', '--format=%an <%ae> %aI %b', `${BRANCH}~1`).trim()).toBe(
    'Ada Å <ada@example.com> 2026-01-02T03:04:05+00:00 body',
  )
})

test('a run that changed nothing but CI definitions publishes nothing, and keeps the changes', async () => {
  const g = withWorkflow()
  const { collected, published } = await publish(g, `echo evil >${WORKFLOW}; git commit -qam evil`)
  expect([collected.head, collected.commits, collected.heldBack?.paths]).toEqual([undefined, 0, [WORKFLOW]])
  expect(refusalOf(published)).toMatch(/nothing was changed/)
  expect(git(g.remote, 'for-each-ref', '--format=%(refname)')).toBe('refs/heads/main')
})

test('allowWorkflows of the repository lets the changes through', async () => {
  const g = withWorkflow()
  const { repo } = aJob()
  const job = aJob({ repo: { ...repo, allowWorkflows: true } })
  const { collected } = await publish(g, `echo good >${WORKFLOW}`, job)
  expect(collected.heldBack).toBeUndefined()
  expect(pushed(g, WORKFLOW)).toBe('good')
})

test('work that changes no CI definition keeps its commits', async () => {
  const g = withWorkflow()
  const { collected } = await publish(
    g,
    'mkdir -p docs/.github/workflows; echo x >docs/.github/workflows/a; git add -A; git commit -qm x; git rev-parse HEAD >/work/../tmp/head || true',
  )
  expect(collected.heldBack).toBeUndefined()
  expect(pushed(g, 'docs/.github/workflows/a')).toBe('x')
})

test('a folder of CI definitions that became a file is refused', async () => {
  const g = withWorkflow()
  const run = g.run()
  const { folders, sandbox } = run
  const from = got(await g.sources.checkOut(aJob(), folders, sandbox, never))
  await run.sh('cd /work; rm -r .github; echo x >.github')
  const collected = await g.sources.collect(aJob(), folders, sandbox, from)
  expect(refusalOf(collected)).toMatch(/can't be taken out of its commits/)
})

describe('a follow-up', () => {
  const followUp = aJob({
    kind: 'follow-up',
    followUp: { id: 'fu-1', number: 1 },
    pull: {
      number: 1,
      url: 'https://code.example/1',
      headBranch: BRANCH,
      headRemote: 'ada/lamps',
      baseBranch: 'main',
      threads: [],
      reviews: [],
      comments: [],
    },
  })

  async function push(g: GitFixture, script: string) {
    const run = g.run()
    const { folders, sandbox } = run
    const start = got(
      await g.sources.followUps.begin({ job: followUp, folders, sandbox, isRetained: false }, never),
    )
    await run.sh(`cd /work; set -e; ${script}`)
    return g.sources.followUps.push({ job: followUp, folders, sandbox, start }, () => true, never)
  }

  test('holds an agent’s change back', async () => {
    const g = withWorkflow()
    writeAsPerson(g, BRANCH, 'file', 'old')
    const done = got(
      await push(
        g,
        `echo new >file; git commit -qam 'Change it'; echo evil >${WORKFLOW}; git commit -qam evil`,
      ),
    )
    expect(done.heldBack?.paths).toEqual([WORKFLOW])
    expect([pushed(g, 'file'), pushed(g, WORKFLOW)]).toEqual(['new', 'on: push'])
    expect(git(g.remote, 'rev-parse', BRANCH)).toBe(done.pushed)
  })

  test('keeps what a person changed on the branch, also when it is rebased', async () => {
    const g = withWorkflow()
    writeAsPerson(g, BRANCH, WORKFLOW, 'on: person')
    writeAsPerson(g, 'main', 'other', 'newer base')
    const done = got(await push(g, "echo new >file; git add file; git commit -qm 'Add a file'"))
    expect(done.heldBack).toBeUndefined()
    expect([pushed(g, 'file'), pushed(g, WORKFLOW), pushed(g, 'other')]).toEqual([
      'new',
      'on: person',
      'newer base',
    ])
  })

  test('pushes nothing when a person and the agent changed them', async () => {
    const g = withWorkflow()
    writeAsPerson(g, BRANCH, WORKFLOW, 'on: person')
    writeAsPerson(g, 'main', 'other', 'newer base')
    const refusal = refusalOf(await push(g, `echo evil >${WORKFLOW}; git commit -qam evil`))
    expect(refusal).toMatch(/can't be taken out of its commits/)
    expect(pushed(g, WORKFLOW)).toBe('on: person')
  })
})
