/**
 * Finished work that the code host does not take, executed by a real executor: real sandboxes, real git over http with
 * the hooks of the code host, the scripted agent. A later job publishes what the sandbox holds.
 */
import { chmodSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, expect, test } from '@jest/globals'
import { realClock, realRandom } from '../../../../bin/process/clock.ts'
import type { AgentOutcome, Execution, ExecutionReport } from '../../../../core/daemon/ports.ts'
import type { Refusal } from '../../../../core/result.ts'
import { publishJob } from '../../../../core/run/job.ts'
import type { AgentJob, Job, RunOutcome } from '../../../../protocol/frames.ts'
import { UNPUBLISHED_BUNDLE } from '../../../../protocol/kept-bundle.ts'
import { createCodeHost } from '../../../../providers/codehost/registry.ts'
import { createHttp } from '../../../../providers/http/http.ts'
import type { ClosableExecutor } from '../../../../worker/executor.ts'
import { createGitSources } from '../../../../worker/git/create-git-sources.ts'
import { createGit, type Git, type GitCall } from '../../../../worker/git/git.ts'
import { GITCONFIG_TEXT } from '../../../../worker/git/git-inside-sandbox.ts'
import { RemotePolicy } from '../../../../worker/git/remote-policy.ts'
import { openSandboxEgress } from '../../../../worker/sandbox/egress/sandbox-egress.ts'
import { GITHUB_TOKEN, KEYS } from '../../../support/made-up-keys.ts'
import { openTestExecutor } from '../../../support/resumed-sandbox.ts'
import { aJob, commitAsPerson, createGitFixture, type GitFixture, git } from '../git/git-fixture.ts'
import { type GitServer, gitServer } from '../git/git-server.ts'

const TOKEN = 'ghp_the-token-of-the-evening'
const BRANCH = 'switchyard/eng-12'
const open: { close(): Promise<void> }[] = []
afterEach(async () => {
  for (const part of open.splice(0)) await part.close()
})

interface Site {
  readonly g: GitFixture
  readonly server: GitServer
  /** The code host has a rule that refuses every push. */
  refuse(): void
  allow(): void
  /** The code host takes this token only. */
  renewToken(token: string): void
  /** Called before each push but a dry one. */
  beforePush: () => Promise<void> | void
  /** Called before each step of git outside the sandbox. */
  beforeGit: (call: GitCall) => Promise<void> | void
  finalizingMs: number | undefined
  /** Called before the network of a sandbox is opened. */
  beforeEgress: () => void
  /** The worker; a second one is the worker after a restart. */
  worker(): Promise<ClosableExecutor>
}

async function openSite(): Promise<Site> {
  const g = createGitFixture()
  let token = TOKEN
  const server = await gitServer({
    folder: join(g.folder, 'codehost'),
    get token() {
      return token
    },
  })
  const { port } = new URL(server.origin)
  const policy = new RemotePolicy({ privateHosts: [`127.0.0.1:${port}`] })
  const http = createHttp({ clock: realClock, random: realRandom })
  open.push(server, http)
  const codehostFor = ({ credentials }: Job) =>
    createCodeHost({ driver: 'github', apiUrl: server.origin }, credentials.codehost ?? '', {
      http,
      clock: realClock,
    })
  const hook = join(g.remote, 'hooks/pre-receive')
  const site: Site = {
    g,
    server,
    refuse: () => writeFileSync(hook, '#!/bin/sh\necho "no pushes at night" >&2\nexit 1\n', { mode: 0o755 }),
    allow: () => rmSync(hook, { force: true }),
    renewToken: (renewed) => {
      token = renewed
    },
    beforePush: () => {},
    beforeGit: () => {},
    finalizingMs: undefined,
    beforeEgress: () => {},
    worker: async () => {
      const folder = join(g.folder, 'one')
      mkdirSync(folder, { recursive: true })
      const executor = await openTestExecutor(folder, {
        gitSources: createGitSources({
          folder: join(folder, 'sources'),
          clock: realClock,
          random: realRandom,
          codehostFor,
          git: withCalls(createGit({ folder: join(folder, 'git'), clock: realClock, policy }), site),
        }),
        codehostFor,
        openEgress: async (options) => {
          site.beforeEgress()
          return openSandboxEgress(options)
        },
        gitconfig: GITCONFIG_TEXT,
        ...(site.finalizingMs === undefined ? {} : { finalizingMs: site.finalizingMs }),
      })
      open.push(executor)
      return executor
    },
  }
  return site
}

const withCalls = (real: Git, site: Site): Git => ({
  runChecked: async (doing, call) => {
    await site.beforeGit(call)
    return real.runChecked(doing, call)
  },
  run: async (call) => {
    await site.beforeGit(call)
    if (call.args[0] === 'push' && !call.args.includes('--dry-run')) await site.beforePush()
    return real.run(call)
  },
})

function signal(): [Promise<void>, () => void] {
  let raise = () => {}
  const raised = new Promise<void>((resolve) => {
    raise = resolve
  })
  return [raised, raise]
}

const script = ['write lamp', '  mended', 'artifact log.txt', '  lit', 'say Mended.']

function jobWith(token = TOKEN, lines: readonly string[] = script): AgentJob {
  const job = aJob({ codehost: { driver: 'github' }, credentials: { codehost: token } })
  const description = ['```switchyard', ...lines, '```'].join('\n')
  return {
    ...job,
    run: { ...job.run, ticket: { ...job.run.ticket, description } },
    agent: { ...job.agent, command: 'scripted-agent' },
    sandbox: { network: 'none', allowedHosts: [], maxProcesses: 256, exposeCodehostToken: false },
  }
}

interface Executed {
  readonly outcome: RunOutcome
  readonly reports: readonly ExecutionReport[]
}

async function execute(executor: ClosableExecutor, job: Job, leaseId = 'ls-1'): Promise<Executed> {
  const reports: ExecutionReport[] = []
  const reporter = {
    report: (report: ExecutionReport) => void reports.push(report),
    waitForCapacity: async () => {},
  }
  const execution = executor.start({ leaseId, workerId: 'wk-1', job }, reporter, () => {})
  return { outcome: await carryOut(execution), reports }
}

const failedBy = ({ message, failure }: Refusal): AgentOutcome => ({
  verdict: 'failed',
  reason: message,
  ...(failure === undefined ? {} : { failure }),
})

async function carryOut(execution: Execution): Promise<RunOutcome> {
  const prepared = await execution.prepare()
  const worked = prepared.ok ? await execution.runAgent() : failedBy(prepared.refusal)
  const outcome = await execution.finish(worked)
  await execution.whenExited()
  return outcome
}

/** The file of an object in the checkout of run-1. */
function objectFile(site: Site, object: string): string {
  const checkout = join(site.g.folder, 'one/sandboxes/run-1/work')
  const id = git(checkout, '-c', 'safe.directory=*', 'rev-parse', object)
  return join(checkout, '.git/objects', id.slice(0, 2), id.slice(2))
}

function artifactOf({ reports }: Executed, wanted: string): Buffer | undefined {
  const parts = reports.flatMap((report) =>
    report.is === 'artifact' && report.name === wanted ? [Buffer.from(report.data, 'base64')] : [],
  )
  return parts.length === 0 ? undefined : Buffer.concat(parts)
}

test('work that a rule refuses stays in its sandbox, and a later job publishes it without an agent', async () => {
  const site = await openSite()
  site.refuse()
  const first = await execute(await site.worker(), jobWith())
  expect(first.outcome).toMatchObject({
    status: 'failed',
    failure: 'publish',
    error: expect.stringMatching(/hook of the code host refused.*no pushes at night/),
    costs: [{ provider: 'agentA' }],
    result: { summary: 'Mended.', artifacts: ['log.txt', UNPUBLISHED_BUNDLE] },
    sandbox: { id: 'run-1', unpublished: true, retainedUntil: expect.any(String) },
  })

  // The worker was restarted meanwhile.
  const executor = await site.worker()
  const again = await execute(executor, publishJob(jobWith()), 'ls-2')
  expect(again.outcome).toMatchObject({
    status: 'failed',
    failure: 'publish',
    costs: [],
    result: { artifacts: [UNPUBLISHED_BUNDLE] },
    sandbox: { unpublished: true, retainedUntil: first.outcome.sandbox?.retainedUntil },
  })
  expect(artifactOf(again, UNPUBLISHED_BUNDLE)).toBeUndefined()

  site.allow()
  const last = await execute(executor, publishJob(jobWith()), 'ls-3')
  expect(last.outcome).toMatchObject({
    status: 'completed',
    costs: [],
    prUrl: expect.any(String),
    result: { summary: 'Mended.', branch: BRANCH, artifacts: [] },
  })
  expect(last.outcome.sandbox).not.toHaveProperty('unpublished')
  expect(git(site.g.remote, 'show', `${BRANCH}:lamp`)).toBe('mended')
  expect(site.server.pulls).toHaveLength(1)
})

test('work that holds a key waits for a person, who says that it is published anyway', async () => {
  const site = await openSite()
  const job = jobWith(TOKEN, ['write lamp', '  mended', `  ${GITHUB_TOKEN}`, 'say Mended.'])
  const held = {
    status: 'failed',
    failure: 'publish',
    keys: [{ kind: 'a GitHub token', file: 'lamp', line: 2 }],
    error: expect.stringMatching(/^lamp line 2 .* a GitHub token, so nothing was published$/),
    sandbox: { unpublished: true },
  }
  const first = await execute(await site.worker(), job)
  expect(first.outcome).toMatchObject({ ...held, costs: [{ provider: 'agentA' }] })
  expect(artifactOf(first, UNPUBLISHED_BUNDLE)).toBeDefined()
  expect(JSON.stringify(first.outcome)).not.toContain(GITHUB_TOKEN)
  expect(git(site.g.remote, 'for-each-ref', '--format=%(refname)')).toBe('refs/heads/main')

  const executor = await site.worker()
  const again = await execute(executor, publishJob(job), 'ls-2')
  expect(again.outcome).toMatchObject({ ...held, costs: [] })

  // The word is for the key that was shown, and not for one that somebody added in the run's terminal since.
  const { keysDigest } = again.outcome
  expect(keysDigest).toBe(first.outcome.keysDigest)
  const anyway = publishJob(job, { anyway: true, shownKeys: keysDigest ?? '' })
  const lamp = join(site.g.folder, 'one/sandboxes/run-1/work/lamp')
  const shown = readFileSync(lamp, 'utf8')
  writeFileSync(lamp, `first line\n${shown}${KEYS['an npm token']}\n`)
  const more = await execute(executor, anyway, 'ls-3')
  expect(more.outcome).toMatchObject({
    failure: 'publish',
    keys: expect.arrayContaining([{ kind: 'an npm token', file: 'lamp', line: 4 }]),
  })
  expect(more.outcome.keysDigest).not.toBe(keysDigest)
  expect(git(site.g.remote, 'for-each-ref', '--format=%(refname)')).toBe('refs/heads/main')

  const { keysDigest: both = '' } = more.outcome
  const last = await execute(executor, publishJob(job, { anyway: true, shownKeys: both }), 'ls-4')
  expect(last.outcome).toMatchObject({ status: 'completed', prUrl: expect.any(String) })
  expect(git(site.g.remote, 'show', `${BRANCH}:lamp`)).toContain(GITHUB_TOKEN)
})

const OVERDUE = {
  status: 'failed',
  failure: 'publish',
  error: expect.stringContaining('did not end within a minute'),
  sandbox: { unpublished: true },
}
const later = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

test('work whose search does not come to an end stays, and is published later without its agent', async () => {
  const site = await openSite()
  site.finalizingMs = 5_000
  site.beforeGit = ({ args, signal }) =>
    args[0] === 'cat-file'
      ? new Promise((resolve) => {
          setTimeout(resolve, 20_000).unref()
          signal?.addEventListener('abort', () => resolve())
        })
      : undefined
  const first = await execute(await site.worker(), jobWith())
  expect(first.outcome).toMatchObject({ ...OVERDUE, costs: [{ provider: 'agentA' }] })
  expect(git(site.g.remote, 'for-each-ref', '--format=%(refname)')).toBe('refs/heads/main')
  site.beforeGit = () => {}
  site.finalizingMs = undefined
  const last = await execute(await site.worker(), publishJob(jobWith()), 'ls-2')
  expect(last.outcome).toMatchObject({ status: 'completed', costs: [], result: { summary: 'Mended.' } })
  expect(git(site.g.remote, 'show', `${BRANCH}:lamp`)).toBe('mended')
})

test('a hook that takes the time of all steps is ended, and runs again when the work is published', async () => {
  const site = await openSite()
  site.finalizingMs = 5_000
  const job = jobWith()
  const withHook = (afterAgent: string) => ({ ...job, repo: { ...job.repo, hooks: { afterAgent } } })
  const executor = await site.worker()
  const first = await execute(executor, withHook('sleep 20'))
  expect(first.outcome).toMatchObject(OVERDUE)
  const again = await execute(executor, publishJob(withHook('sleep 20')), 'ls-2')
  expect(again.outcome).toMatchObject({ ...OVERDUE, costs: [] })
  site.finalizingMs = undefined
  const last = await execute(await site.worker(), publishJob(withHook('echo oiled >>lamp')), 'ls-3')
  expect(last.outcome.status).toBe('completed')
  expect(git(site.g.remote, 'show', `${BRANCH}:lamp`)).toBe('mended\noiled')
})

test('the time that the code host takes is not that of the steps before', async () => {
  const site = await openSite()
  site.finalizingMs = 8_000
  site.beforePush = () => later(9_000)
  const { outcome } = await execute(await site.worker(), jobWith())
  expect(outcome.status).toBe('completed')
})

test('people fetch the branch from the bundle', async () => {
  const site = await openSite()
  site.refuse()
  const first = await execute(await site.worker(), jobWith())
  const bundle = join(site.g.folder, 'fetched.bundle')
  writeFileSync(bundle, artifactOf(first, UNPUBLISHED_BUNDLE) ?? '')
  git(site.g.person, 'fetch', '-q', bundle, BRANCH)
  expect(git(site.g.person, 'show', 'FETCH_HEAD:lamp')).toBe('mended')
})

test.each([
  ['the newest commit', 'HEAD'],
  ['a file of the work', 'HEAD:lamp'],
])('work whose sandbox lost %s is not tried again for ever', async (_, object) => {
  const site = await openSite()
  site.refuse()
  const executor = await site.worker()
  await execute(executor, jobWith())
  site.allow()
  const path = objectFile(site, object)
  rmSync(path)
  writeFileSync(path, 'not what git has written')
  const { outcome } = await execute(executor, publishJob(jobWith()), 'ls-2')
  expect(outcome).toMatchObject({ status: 'failed', error: expect.stringMatching(/damaged.*no retry/) })
  expect(outcome.failure).toBeUndefined()
  expect(outcome.sandbox).not.toHaveProperty('unpublished')
  expect(outcome.sandbox?.retainedUntil).toBeDefined()
})

test.each(['HEAD:lamp', 'HEAD'])(
  'work whose object %s nobody may read stays until it can be read',
  async (object) => {
    const site = await openSite()
    site.refuse()
    const executor = await site.worker()
    await execute(executor, jobWith())
    site.allow()
    const path = objectFile(site, object)
    chmodSync(path, 0)
    const { outcome } = await execute(executor, publishJob(jobWith()), 'ls-2')
    expect(outcome).toMatchObject({ failure: 'publish', sandbox: { unpublished: true } })
    chmodSync(path, 0o400)
    const last = await execute(executor, publishJob(jobWith()), 'ls-3')
    expect(last.outcome.status).toBe('completed')
  },
)

test('work beside an unborn HEAD outlives a push that fails, and is published later', async () => {
  const site = await openSite()
  site.beforePush = () => {
    throw new Error('the requested URL returned error: 503')
  }
  const executor = await site.worker()
  const job = jobWith()
  const command = "sh -c 'echo mended >lamp; git commit -qam Mend; git switch -q --orphan x' agent"
  const first = await execute(executor, { ...job, agent: { ...job.agent, provider: 'agentB', command } })
  expect(first.outcome).toMatchObject({ failure: 'publish', sandbox: { unpublished: true } })
  expect(artifactOf(first, UNPUBLISHED_BUNDLE)).toBeDefined()
  site.beforePush = () => {}
  const last = await execute(executor, publishJob(job), 'ls-2')
  expect(last.outcome.status).toBe('completed')
  expect(git(site.g.remote, 'show', `${BRANCH}:lamp`)).toBe('mended')
})

test('a token that dies during the run leaves work to publish, and a new token publishes it', async () => {
  const site = await openSite()
  site.beforePush = () => site.renewToken('ghp_the-token-of-the-morning')
  const executor = await site.worker()
  const first = await execute(executor, jobWith())
  expect(first.outcome).toMatchObject({
    status: 'failed',
    failure: 'publish',
    error: expect.stringMatching(/^credential of github is refused: /),
    sandbox: { unpublished: true },
  })
  const morning = publishJob(jobWith('ghp_the-token-of-the-morning'))
  expect((await execute(executor, morning, 'ls-2')).outcome).toMatchObject({ status: 'completed', costs: [] })
})

test('a branch that somebody else changed fails the run, and its work is published when the branch is free', async () => {
  const site = await openSite()
  site.beforePush = () => void commitAsPerson(site.g, BRANCH, 'lamp', 'of Bo', 'Mine')
  const executor = await site.worker()
  const first = await execute(executor, jobWith())
  expect(first.outcome).toMatchObject({
    status: 'failed',
    error: expect.stringMatching(/^somebody else changed the branch/),
    sandbox: { unpublished: true },
    result: { artifacts: ['log.txt', UNPUBLISHED_BUNDLE] },
  })
  expect(first.outcome.failure).toBeUndefined()
  site.beforePush = () => {}
  const still = await execute(executor, publishJob(jobWith()), 'ls-2')
  expect(still.outcome).toMatchObject({ status: 'failed', sandbox: { unpublished: true } })
  expect(still.outcome.failure).toBeUndefined()
  git(site.g.remote, 'update-ref', '-d', `refs/heads/${BRANCH}`)
  expect((await execute(executor, publishJob(jobWith()), 'ls-3')).outcome.status).toBe('completed')
})

test('a worker that died while it published knows that its sandbox holds finished work', async () => {
  const site = await openSite()
  const [died, die] = signal()
  const [released, release] = signal()
  site.beforePush = () => {
    die()
    return released
  }
  const dying = await site.worker()
  const left = execute(dying, jobWith())
  await died
  const executor = await site.worker()
  const recovered = await executor.recover({ leaseId: 'ls-1', runId: 'run-1' }, {}, 1)
  expect(recovered).toMatchObject({ costs: [{ provider: 'agentA' }], sandbox: { unpublished: true } })
  site.beforePush = () => {}
  const last = await execute(executor, publishJob(jobWith()), 'ls-2')
  expect(last.outcome).toMatchObject({ status: 'completed', costs: [], result: { summary: 'Mended.' } })
  // An execution that only published has spent nothing.
  expect(await executor.recover({ leaseId: 'ls-2', runId: 'run-1' }, {}, 1)).not.toHaveProperty('costs')
  release()
  await left
})

test('a worker that died in the moment in which its agent was done keeps the work, and its artifacts', async () => {
  const site = await openSite()
  const dying = await site.worker()
  const silent = { report: () => {}, waitForCapacity: async () => {} }
  const execution = dying.start({ leaseId: 'ls-1', workerId: 'wk-1', job: jobWith() }, silent, () => {})
  await execution.prepare()
  await execution.runAgent()
  const executor = await site.worker()
  const recovered = await executor.recover({ leaseId: 'ls-1', runId: 'run-1' }, {}, 1)
  expect(recovered).toMatchObject({ costs: [{ provider: 'agentA' }], sandbox: { unpublished: true } })
  const last = await execute(executor, publishJob(jobWith()), 'ls-2')
  expect(last.outcome).toMatchObject({
    status: 'completed',
    costs: [],
    result: { summary: 'Mended.', artifacts: ['log.txt'] },
  })
  expect(artifactOf(last, 'log.txt')?.toString().trim()).toBe('lit')
})

test('work of an agent that was done when its worker was stopped is kept', async () => {
  const site = await openSite()
  const executor = await site.worker()
  const silent = { report: () => {}, waitForCapacity: async () => {} }
  const execution = executor.start({ leaseId: 'ls-1', workerId: 'wk-1', job: jobWith() }, silent, () => {})
  await execution.prepare()
  await execution.runAgent()
  execution.stop({ how: 'kill', reason: 'the worker ends' })
  const outcome = await execution.finish({ verdict: 'stopped', reason: 'the worker ends' })
  expect(outcome).toMatchObject({ status: 'cancelled', sandbox: { unpublished: true } })
  await execution.whenExited()
})

test('work whose publishing is stopped before it is collected stays in its sandbox, and is published later', async () => {
  const site = await openSite()
  const executor = await site.worker()
  const reporter = { report: () => {}, waitForCapacity: async () => {} }
  const execution = executor.start({ leaseId: 'ls-1', workerId: 'wk-1', job: jobWith() }, reporter, () => {})
  await execution.prepare()
  const finishing = execution.finish(await execution.runAgent())
  execution.stop({ how: 'kill', reason: 'the worker ends' })
  expect(await finishing).toMatchObject({ sandbox: { unpublished: true }, costs: [{ provider: 'agentA' }] })
  await execution.whenExited()
  const last = await execute(await site.worker(), publishJob(jobWith()), 'ls-2')
  expect(last.outcome).toMatchObject({ status: 'completed', costs: [], result: { summary: 'Mended.' } })
})

/** The first time the hook does not end. */
const HOOK =
  'if [ ! -e began ]; then echo began >began; echo the hook began; sleep 600; fi; echo tidy >tidied'

function hookedJob(hook: string): AgentJob {
  const job = jobWith()
  return { ...job, repo: { ...job.repo, hooks: { afterAgent: hook } } }
}

async function interruptHook(site: Site) {
  const executor = await site.worker()
  const [began, begin] = signal()
  const report = (made: ExecutionReport) => {
    if (made.is === 'event' && made.event.type === 'log' && made.event.text.includes('the hook began'))
      begin()
  }
  const reporter = { report, waitForCapacity: async () => {} }
  const request = { leaseId: 'ls-1', workerId: 'wk-1', job: hookedJob(HOOK) }
  const execution = executor.start(request, reporter, () => {})
  await execution.prepare()
  const finishing = execution.finish(await execution.runAgent())
  await began
  return { execution, finishing }
}

test.each([
  ['that is repeated', HOOK, { status: 'completed', prUrl: expect.any(String) }],
  [
    'that fails when it is repeated',
    'exit 3',
    { status: 'failed', error: expect.stringContaining('exit code 3') },
  ],
])(
  'work whose worker is stopped during a hook %s is kept, and no agent is asked again',
  async (_, hook, end) => {
    const site = await openSite()
    const { execution, finishing } = await interruptHook(site)
    execution.stop({ how: 'kill', reason: 'the worker ends' })
    expect(await finishing).toMatchObject({ sandbox: { unpublished: true }, costs: [{ provider: 'agentA' }] })
    await execution.whenExited()
    const last = await execute(await site.worker(), publishJob(hookedJob(hook)), 'ls-2')
    expect(last.outcome).toMatchObject({ ...end, costs: [] })
    expect(last.outcome.sandbox).not.toHaveProperty('unpublished')
    if (hook === HOOK) expect(git(site.g.remote, 'show', `${BRANCH}:tidied`)).toBe('tidy')
  },
)

test('work whose worker dies during a hook is kept too', async () => {
  const site = await openSite()
  const { execution, finishing } = await interruptHook(site)
  const executor = await site.worker()
  const recovered = await executor.recover({ leaseId: 'ls-1', runId: 'run-1' }, {}, 1)
  expect(recovered).toMatchObject({ costs: [{ provider: 'agentA' }], sandbox: { unpublished: true } })
  execution.stop({ how: 'kill', reason: 'the test is over' })
  await finishing
})

test('a worker that died while it published again keeps the sandbox for no longer', async () => {
  const site = await openSite()
  site.refuse()
  const { outcome } = await execute(await site.worker(), jobWith())
  const executor = await site.worker()
  const { sandbox } = await executor.recover({ leaseId: 'ls-2', runId: 'run-1' }, {}, 0)
  expect(sandbox).toMatchObject({ unpublished: true, retainedUntil: outcome.sandbox?.retainedUntil })
})

test('work whose sandbox cannot be opened for a moment is published later', async () => {
  const site = await openSite()
  site.refuse()
  const executor = await site.worker()
  const first = await execute(executor, jobWith())
  site.allow()
  site.beforeEgress = () => {
    throw new Error('ENOSPC: no space left on device')
  }
  const again = await execute(executor, publishJob(jobWith()), 'ls-2')
  expect(again.outcome).toMatchObject({
    status: 'failed',
    failure: 'publish',
    error: expect.stringMatching(/^ENOSPC/),
    result: { artifacts: [UNPUBLISHED_BUNDLE] },
    sandbox: { id: 'run-1', unpublished: true, retainedUntil: first.outcome.sandbox?.retainedUntil },
  })
  site.beforeEgress = () => {}
  expect((await execute(executor, publishJob(jobWith()), 'ls-3')).outcome.status).toBe('completed')
})

test.each([
  ['is published', () => {}, { status: 'completed' }],
  [
    'is remembered when it is refused and there is room again',
    (site: Site) => site.refuse(),
    { status: 'failed', failure: 'publish', sandbox: { unpublished: true } },
  ],
])('work that a full disk does not let the worker remember %s', async (_, prepareSite, expected) => {
  const site = await openSite()
  prepareSite(site)
  const executor = await site.worker()
  const reporter = { report: () => {}, waitForCapacity: async () => {} }
  const execution = executor.start({ leaseId: 'ls-1', workerId: 'wk-1', job: jobWith() }, reporter, () => {})
  await execution.prepare()
  const agent = await execution.runAgent()
  // The folder stands where the worker writes its record of unpublished work.
  const obstacle = join(site.g.folder, 'one/sandboxes/run-1/desk/unpublished.json.new')
  mkdirSync(obstacle)
  site.beforePush = () => rmSync(obstacle, { recursive: true })
  expect(await execution.finish(agent)).toMatchObject(expected)
  await execution.whenExited()
})

test('changes that a person makes in the sandbox are published too', async () => {
  const site = await openSite()
  site.refuse()
  const executor = await site.worker()
  await execute(executor, jobWith())
  writeFileSync(join(site.g.folder, 'one/sandboxes/run-1/work/shade'), 'of a person\n', { mode: 0o644 })
  const again = await execute(executor, publishJob(jobWith()), 'ls-2')
  expect(artifactOf(again, UNPUBLISHED_BUNDLE)).toBeDefined()
  site.allow()
  await execute(executor, publishJob(jobWith()), 'ls-3')
  expect(git(site.g.remote, 'show', `${BRANCH}:shade`)).toBe('of a person')
})

test('a job to publish fails when the sandbox is gone, or holds nothing to publish', async () => {
  const site = await openSite()
  const executor = await site.worker()
  const never = await execute(executor, publishJob(jobWith()))
  expect(never.outcome).toEqual({
    status: 'failed',
    error: expect.stringMatching(/ is gone$/),
    costs: [],
  })
  await execute(executor, jobWith(), 'ls-2')
  expect((await execute(executor, publishJob(jobWith()), 'ls-3')).outcome.error).toMatch(/is gone$/)
})

test('work is not published to another repository than it was made for', async () => {
  const site = await openSite()
  site.refuse()
  const executor = await site.worker()
  await execute(executor, jobWith())
  const job = publishJob(jobWith())
  const elsewhere = await execute(executor, { ...job, repo: { ...job.repo, remote: 'ada/other' } }, 'ls-2')
  expect(elsewhere.outcome).toMatchObject({
    status: 'failed',
    error: expect.stringMatching(/of ada\/lamps/),
    sandbox: { unpublished: true },
  })
  expect(elsewhere.outcome.failure).toBeUndefined()
})

test('work with a secret in it is neither bundled nor published later', async () => {
  const site = await openSite()
  site.refuse()
  const first = await execute(await site.worker(), jobWith(TOKEN, ['write lamp', `  ${TOKEN}`]))
  expect(first.outcome).toMatchObject({ status: 'failed', result: { artifacts: [] } })
  expect([first.outcome.failure, first.outcome.sandbox?.unpublished]).toEqual([undefined, undefined])
})

test('an agent that is asked for more goes on in its session, on top of its unpublished work', async () => {
  const site = await openSite()
  site.refuse()
  const executor = await site.worker()
  const { outcome } = await execute(executor, jobWith())
  const session = outcome.agentSessionId ?? ''
  site.allow()
  const job = jobWith(TOKEN, ['write shade', '  new', 'say Shaded.'])
  const sandbox = { ...job.run.sandbox, ...outcome.sandbox }
  const run = { ...job.run, sandbox, instructions: 'A shade, too.' }
  const again = await execute(executor, { ...job, run, continueSession: session }, 'ls-2')
  expect(again.outcome).toMatchObject({
    status: 'completed',
    agentSessionId: session,
    result: { summary: 'Shaded.', artifacts: [] },
  })
  expect(git(site.g.remote, 'show', `${BRANCH}:lamp`)).toBe('mended')
  expect(git(site.g.remote, 'show', `${BRANCH}:shade`)).toBe('new')
})

test('finished work that its host does not know of is published when the run comes back, without an agent', async () => {
  const site = await openSite()
  site.refuse()
  const executor = await site.worker()
  const { outcome } = await execute(executor, jobWith())
  site.allow()
  const job = { ...jobWith(), continueSession: outcome.agentSessionId ?? '' }
  expect((await execute(executor, job, 'ls-2')).outcome).toMatchObject({
    status: 'completed',
    costs: [],
    result: { summary: 'Mended.', artifacts: ['log.txt'] },
  })
  expect(git(site.g.remote, 'show', `${BRANCH}:lamp`)).toBe('mended')
})

/** Root reads every file, so a folder stands for a file that the disk does not give. */
const SPOILS: [string, (note: string) => void][] = [
  ['is damaged', (note) => writeFileSync(note, '{"remote":"ada/la')],
  ['cannot be read', (note) => mkdirSync(note)],
]

/** Returns how to make the note readable again. */
function spoilNote(site: Site, spoil: (note: string) => void): () => void {
  const note = join(site.g.folder, 'one/sandboxes/run-1/desk/unpublished.json')
  renameSync(note, `${note}.whole`)
  spoil(note)
  return () => {
    rmSync(note, { recursive: true })
    renameSync(`${note}.whole`, note)
  }
}

const UNREAD = {
  status: 'failed',
  failure: 'publish',
  error: expect.stringMatching(/desk\/unpublished\.json, cannot be read: /),
  costs: [],
}

test.each(SPOILS)('finished work whose note %s is published when it can be read', async (_, spoil) => {
  const site = await openSite()
  site.refuse()
  const executor = await site.worker()
  const first = await execute(executor, jobWith())
  site.allow()
  const mend = spoilNote(site, spoil)
  const { sandbox } = await executor.recover({ leaseId: 'ls-1', runId: 'run-1', isLeaseLost: true }, {}, 0)
  const kept = { id: 'run-1', unpublished: true, retainedUntil: first.outcome.sandbox?.retainedUntil }
  expect(sandbox).toMatchObject(kept)
  for (const job of [
    publishJob(jobWith()),
    { ...jobWith(), continueSession: first.outcome.agentSessionId ?? '' },
  ])
    expect((await execute(executor, job, 'ls-2')).outcome).toMatchObject({ ...UNREAD, sandbox: kept })
  mend()
  const last = await execute(executor, publishJob(jobWith()), 'ls-3')
  expect(last.outcome).toMatchObject({ status: 'completed', costs: [], result: { summary: 'Mended.' } })
  expect(git(site.g.remote, 'show', `${BRANCH}:lamp`)).toBe('mended')
})

test('work whose note is damaged while it is published goes on to be published', async () => {
  const site = await openSite()
  const executor = await site.worker()
  let mend = () => {}
  site.beforePush = () => {
    site.refuse()
    mend = spoilNote(site, (note) => mkdirSync(note))
  }
  const first = await execute(executor, jobWith())
  expect(first.outcome).toMatchObject({ failure: 'publish', sandbox: { unpublished: true } })
  expect(artifactOf(first, UNPUBLISHED_BUNDLE)).toBeDefined()
  mend()
  site.allow()
  site.beforePush = () => {}
  expect((await execute(executor, publishJob(jobWith()), 'ls-2')).outcome.status).toBe('completed')
})

test.each([
  ['missing', (note: string) => rmSync(note)],
  ['damaged', (note: string) => writeFileSync(note, '')],
])('finished work needs no note of its checkout (%s) to be published', async (_, spoil) => {
  const site = await openSite()
  site.refuse()
  const executor = await site.worker()
  const { outcome } = await execute(executor, jobWith())
  site.allow()
  spoil(join(site.g.folder, 'one/sandboxes/run-1/desk/checkout.json'))
  const again = await execute(
    executor,
    { ...jobWith(), continueSession: outcome.agentSessionId ?? '' },
    'ls-2',
  )
  expect(again.outcome).toMatchObject({ status: 'completed', costs: [], result: { summary: 'Mended.' } })
})

const MEND = "sh -c 'echo mended >lamp' agent"

/** Codex reports no session, so no later attempt could go on in one. */
const withoutSession = (workerId?: string): AgentJob => {
  const job = jobWith()
  const sandbox = { provider: 'bwrap', id: 'run-1', ...(workerId === undefined ? {} : { workerId }) } as const
  return { ...job, agent: { ...job.agent, provider: 'agentB', command: MEND }, run: { ...job.run, sandbox } }
}

async function loseLeaseAfterAgent(executor: ClosableExecutor): Promise<() => Promise<void>> {
  const silent = { report: () => {}, waitForCapacity: async () => {} }
  const job = withoutSession()
  const execution = executor.start({ leaseId: 'ls-1', workerId: 'wk-1', job }, silent, () => {})
  await execution.prepare()
  const done = await execution.runAgent()
  expect(done.verdict).toBe('done')
  execution.stop({ how: 'kill', reason: 'the lease is lost', leaseLost: true })
  return async () => {
    await execution.finish(done)
    await execution.whenExited()
  }
}

test.each([
  ['is published by the last worker of its run', 'wk-1', false],
  ['is done anew when the last worker of its run was another one', 'wk-2', true],
])('work whose lease was lost after its agent was done %s', async (_, workerId, isAnew) => {
  const site = await openSite()
  const executor = await site.worker()
  const end = await loseLeaseAfterAgent(executor)
  await end()
  const lines: string[] = []
  const reporter = {
    report: (report: ExecutionReport) => {
      if (report.is === 'event' && report.event.type === 'log') lines.push(report.event.text)
    },
    waitForCapacity: async () => {},
  }
  const job = withoutSession(workerId)
  const outcome = await carryOut(
    executor.start({ leaseId: 'ls-2', workerId: 'wk-1', job }, reporter, () => {}),
  )
  expect(outcome.status).toBe('completed')
  expect(git(site.g.remote, 'show', `${BRANCH}:lamp`)).toBe('mended')
  expect(lines.some((line) => line.includes('its work is published'))).toBe(!isAnew)
})

test.each<[string, Partial<AgentJob['run']>]>([
  ['instructions', { instructions: 'A shade, too.' }],
  ['another model', { agent: { model: 'another' } }],
])('a person who retries such a run with %s has its agent asked', async (_, words) => {
  const site = await openSite()
  const executor = await site.worker()
  const end = await loseLeaseAfterAgent(executor)
  await end()
  const job = withoutSession('wk-1')
  const command = "sh -c 'echo shaded >shade' agent"
  const asked = { ...job, agent: { ...job.agent, command }, run: { ...job.run, ...words } }
  const { outcome } = await execute(executor, asked, 'ls-2')
  expect(outcome.status).toBe('completed')
  expect(git(site.g.remote, 'show', `${BRANCH}:shade`)).toBe('shaded')
})

test('work whose agent was asked for something is published when nothing else is asked since', async () => {
  const site = await openSite()
  site.refuse()
  const executor = await site.worker()
  const job = jobWith()
  const asked = { ...job, run: { ...job.run, instructions: 'A lamp.', agent: { model: 'one' } } }
  const { outcome } = await execute(executor, asked)
  site.allow()
  const again = { ...asked, continueSession: outcome.agentSessionId ?? '' }
  expect((await execute(executor, again, 'ls-2')).outcome).toMatchObject({
    status: 'completed',
    costs: [],
    result: { summary: 'Mended.' },
  })
})

test('a worker that died after it had lost such a lease keeps the work', async () => {
  const site = await openSite()
  await loseLeaseAfterAgent(await site.worker())
  const executor = await site.worker()
  const ended = { leaseId: 'ls-1', runId: 'run-1', isLeaseLost: true }
  const { sandbox } = await executor.recover(ended, {}, 2)
  expect(Date.parse(sandbox?.retainedUntil ?? '')).toBeGreaterThan(Date.now() + 3_600_000)
})
