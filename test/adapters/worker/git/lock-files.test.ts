/** The hosts of a checkout's network: from lock files of the base branch, whatever an agent's branch holds. */
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { expect, test } from '@jest/globals'
import type { Job, JobSandbox } from '../../../../protocol/frames.ts'
import { LOCK_FILE_BYTES_MAX } from '../../../../worker/git/checkout/lock-files.ts'
import { aJob, createGitFixture, type GitFixture, git, got, never } from './git-fixture.ts'

const BRANCH = 'switchyard/eng-12'
const sandbox: JobSandbox = {
  network: 'allowlist',
  allowedHosts: [],
  maxProcesses: 99,
  exposeCodehostToken: false,
}
const codehost = { driver: 'github', apiUrl: 'https://git.corp.example:8443/api/v3' } as const
const allowlisted = (more: Partial<Job> = {}) => aJob({ sandbox, codehost, ...more })
const lockFile = (host: string) => JSON.stringify({ p: { resolved: `https://${host}/a.tgz` } })

/** Commits files as a person on a branch, and pushes it. */
function pushed(g: GitFixture, branch: string, files: Readonly<Record<string, string>>): void {
  git(g.person, 'checkout', '-q', '-B', branch)
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(g.person, path)), { recursive: true })
    writeFileSync(join(g.person, path), text)
  }
  git(g.person, 'add', '-A', '--force')
  git(g.person, 'commit', '-q', '-m', 'Files')
  git(g.person, 'push', '-q', 'origin', branch)
}

async function reachable(g: GitFixture, job = allowlisted()) {
  const { folders, sandbox: runner } = g.run()
  const checked = got(await g.sources.checkOut(job, folders, runner, never))
  return checked.reachable
}

const CODE_HOST = { host: 'git.corp.example:8443', from: 'code host' }

test('the base decides, not the branch that an earlier run has pushed', async () => {
  const g = createGitFixture()
  pushed(g, 'main', {
    'app/package-lock.json': lockFile('npm.corp.example'),
    'requirements.txt': 'a==1\n',
    'node_modules/x/yarn.lock': '',
  })
  pushed(g, BRANCH, { 'app/package-lock.json': lockFile('evil.example'), 'Cargo.lock': '' })
  expect(await reachable(g)).toEqual({
    hosts: [
      { host: 'pypi.org', from: 'requirements.txt' },
      { host: 'files.pythonhosted.org', from: 'requirements.txt' },
      { host: 'npm.corp.example', from: 'app/package-lock.json' },
      CODE_HOST,
    ],
    leftOut: [],
  })
})

test('a follow-up asks the newest base, not the pull request’s branch', async () => {
  const g = createGitFixture()
  pushed(g, BRANCH, { 'package-lock.json': lockFile('evil.example') })
  git(g.person, 'checkout', '-q', 'main')
  pushed(g, 'main', { 'package-lock.json': lockFile('npm.corp.example') })
  const job = allowlisted({
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
  const { folders, sandbox: runner } = g.run()
  const start = got(
    await g.sources.followUps.begin({ job, folders, sandbox: runner, isRetained: false }, never),
  )
  expect(start.reachable?.hosts).toEqual([{ host: 'npm.corp.example', from: 'package-lock.json' }, CODE_HOST])
})

test('a link counts as no lock file, and a large one is read up to a limit', async () => {
  const g = createGitFixture()
  symlinkSync('/etc/passwd', join(g.person, 'yarn.lock'))
  const large = `${lockFile('npm.corp.example')}${' '.repeat(LOCK_FILE_BYTES_MAX)}${lockFile('late.example')}`
  pushed(g, 'main', { 'package-lock.json': large, 'd/go.mod': 'module m\n' })
  expect((await reachable(g))?.hosts.map(({ host }) => host)).toEqual([
    'npm.corp.example',
    'proxy.golang.org',
    'sum.golang.org',
    CODE_HOST.host,
  ])
})

test.each(['open', 'none'] as const)('with network %s nothing is read', async (network) => {
  expect(
    await reachable(createGitFixture(), allowlisted({ sandbox: { ...sandbox, network } })),
  ).toBeUndefined()
})
