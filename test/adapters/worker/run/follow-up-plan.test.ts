/**
 * A follow-up executed by a real executor: real sandboxes, real git, a folder as code host, the scripted agent.
 * A crash is simulated at a step: the executor does nothing more, and the next one finds only what is on disk.
 */
import { execFileSync } from 'node:child_process'
import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, describe, expect, test } from '@jest/globals'
import { realClock, realRandom } from '../../../../bin/process/clock.ts'
import { deriveOutcome } from '../../../../core/daemon/outcome.ts'
import type {
  AgentOutcome,
  Execution,
  ExecutionReport,
  Progress,
  StopRequest,
} from '../../../../core/daemon/ports.ts'
import type { CodeHost } from '../../../../core/ports/code-host.ts'
import { no, type Refusal, yes } from '../../../../core/result.ts'
import { followUpMarker, sandboxHolder } from '../../../../core/run/follow-up.ts'
import { publishJob } from '../../../../core/run/job.ts'
import { finishRun } from '../../../../core/run/run-transitions.ts'
import { type AgentJob, type Job, RunOutcome } from '../../../../protocol/frames.ts'
import { bundleName } from '../../../../protocol/kept-bundle.ts'
import { createChecker } from '../../../../protocol/parse.ts'
import type { PullComment, PullThread } from '../../../../protocol/pulls.ts'
import { createLocalCodeHost } from '../../../../providers/codehost/local/code-host.ts'
import type { ClosableExecutor } from '../../../../worker/executor.ts'
import { createGitSources } from '../../../../worker/git/create-git-sources.ts'
import { createGit, type Git } from '../../../../worker/git/git.ts'
import { GITCONFIG_TEXT } from '../../../../worker/git/git-inside-sandbox.ts'
import { makeLauncher } from '../../../../worker/sandbox/bwrap/launch.ts'
import type { SandboxLauncher, SandboxOrder } from '../../../../worker/sandbox/driver.ts'
import { thisMachine } from '../../../../worker/sandbox/local-machine.ts'
import { openTestExecutor } from '../../../support/resumed-sandbox.ts'
import { createSkippingClock } from '../../../support/skipping-clock.ts'
import {
  aJob,
  commitAsPerson,
  createGitFixture,
  type GitFixture,
  git,
  got,
  passableFolder,
} from '../git/git-fixture.ts'

const BRANCH = 'switchyard/eng-12'
const AT = '2026-03-01T08:00:00.000Z'
const isOutcome = createChecker(RunOutcome)

// ---- a fixture whose worker can crash at any step ----------------------------------------------------------------

type Step = 'fetch' | 'rebase' | 'agent' | 'collect' | 'push' | 'ask' | 'comment'
interface Crash {
  readonly step: Step
  readonly when: 'before' | 'after'
}

interface CrashingWorker {
  readonly executor: ClosableExecutor
  readonly crashed: Promise<void>
  /** Lets the blocked step continue, so that no process is left after the test. */
  release(): void
}

interface FollowUpFixture {
  readonly g: GitFixture
  /** Refuses this step at the code host while it is set. */
  refuses?: 'push' | 'comment' | undefined
  /** Opens an executor on its own folder; the same name again is the worker after a crash. */
  worker(name: string, crash?: Crash, clock?: typeof realClock): Promise<CrashingWorker>
  pull(): { comments: PullComment[] }
  /** Every commit that the branch has had, newest first. */
  stood(): string[]
}

function createFollowUpFixture(g = createGitFixture()): FollowUpFixture {
  git(g.remote, 'config', 'core.logAllRefUpdates', 'always')
  const y: FollowUpFixture = {
    g,
    pull: () => JSON.parse(readFileSync(join(g.folder, 'codehost/ada/lamps.pulls/1.json'), 'utf8')),
    stood: () => git(g.remote, 'reflog', '--format=%H', `refs/heads/${BRANCH}`).split('\n'),
    worker: async (name, crash, clock = realClock) => {
      const [crashed, raise] = signal()
      const [released, release] = signal()
      const fault = faulty(crash, raise, released)
      const folder = join(g.folder, name)
      mkdirSync(folder, { recursive: true })
      const codehostFor = () => yes(faultyCodehost(g.codehost, fault, () => y.refuses === 'comment'))
      const sources = createGitSources({
        folder: join(folder, 'sources'),
        clock,
        random: realRandom,
        codehostFor,
        git: faultyGit(
          createGit({ folder: join(folder, 'git'), clock: realClock, policy: g.policy }),
          fault,
          () => y.refuses === 'push',
        ),
      })
      const launcher = faultyLauncher(fault)
      const executor = await openTestExecutor(folder, {
        gitSources: sources,
        codehostFor,
        launcher,
        gitconfig: GITCONFIG_TEXT,
      })
      executors.push(executor)
      return { executor, crashed, release }
    },
  }
  return y
}

const executors: ClosableExecutor[] = []
afterEach(() => Promise.all(executors.splice(0).map((executor) => executor.close())))

type Fault = <T>(step: Step | undefined, work: () => Promise<T>) => Promise<T>

function signal(): [Promise<void>, () => void] {
  let raise = () => {}
  const reports = new Promise<void>((resolve) => {
    raise = resolve
  })
  return [reports, raise]
}

/** Blocks everything at the given step; results of earlier calls are dropped. */
function faulty(crash: Crash | undefined, raise: () => void, released: Promise<void>): Fault {
  return async (step, work) => {
    if (step === undefined || step !== crash?.step) return work()
    const done = crash.when === 'after' ? await work() : undefined
    raise()
    await released
    if (done === undefined) throw new Error('killed')
    return done
  }
}

const REFUSED_PUSH = {
  code: 1,
  output: '!\tx:refs/heads/x\t[remote rejected] (pre-receive hook declined)',
  stderr: 'remote: no pushes at night',
}

function faultyGit(real: Git, fault: Fault, refuses: () => boolean): Git {
  const stepOf = (args: readonly string[]) =>
    args[0] === 'fetch' || args[0] === 'push' ? args[0] : undefined
  return {
    run: (call) =>
      stepOf(call.args) === 'push' && refuses()
        ? Promise.resolve(yes(REFUSED_PUSH))
        : fault(stepOf(call.args), () => real.run(call)),
    runChecked: (doing, call) => fault(stepOf(call.args), () => real.runChecked(doing, call)),
  }
}

function faultyCodehost(real: CodeHost, fault: Fault, refuses: () => boolean): CodeHost {
  return {
    gitAddress: (remote) => real.gitAddress(remote),
    findPull: (...args) => real.findPull(...args),
    openPull: (order) => real.openPull(order),
    hasComment: (...args) => fault('ask', () => real.hasComment(...args)),
    comment: (...args) =>
      refuses()
        ? Promise.resolve(no('forbidden', 'comments are locked'))
        : fault('comment', () => real.comment(...args)),
    dropRepeats: (...args) => real.dropRepeats(...args),
  }
}

function faultyLauncher(fault: Fault): SandboxLauncher {
  const real = makeLauncher({ bwrap: '/usr/bin/bwrap', clock: realClock, machine: thisMachine() })
  return {
    launch: (order) => {
      const step = stepIn(order)
      const started = real.launch(order)
      return {
        ...(started.input === undefined ? {} : { input: started.input }),
        stdout: started.stdout,
        stderr: started.stderr,
        interrupt: () => started.interrupt(),
        kill: () => started.kill(),
        ended: fault(step, () => started.ended).catch(() => started.ended),
      }
    },
  }
}

/** `before`: the step has started, and its result is dropped. */
function stepIn({ command }: SandboxOrder): Step | undefined {
  const text = command.join(' ')
  if (text.includes('answer state rebased')) return 'rebase'
  if (text.includes('answer state unfinished')) return 'collect'
  return text.includes('exec scripted-agent') ? 'agent' : undefined
}

// ---- jobs --------------------------------------------------------------------------------------------------------

const script = (lines: readonly string[]) => ['```switchyard', ...lines, '```'].join('\n')

function firstJob(lines: readonly string[]): AgentJob {
  const job = aJob()
  return {
    ...job,
    run: { ...job.run, ticket: { ...job.run.ticket, description: script(lines) } },
    agent: { ...job.agent, command: 'scripted-agent' },
    sandbox: { network: 'none', allowedHosts: [], maxProcesses: 256, exposeCodehostToken: false },
  }
}

function followUpJob(more: Partial<NonNullable<Job['pull']>> = {}, id = 'fu-1'): AgentJob {
  const job = firstJob([])
  return {
    ...job,
    kind: 'follow-up',
    followUp: { id, number: 1 },
    run: {
      ...job.run,
      ticket: { ...job.run.ticket, description: 'Nothing to be done.' },
      prUrl: 'https://code.example/1',
      prState: 'open',
    },
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
  }
}

const commentOf = (body: string): PullComment => ({
  id: 'c1',
  author: 'bo',
  body,
  createdAt: AT,
  url: 'https://code.example/1#c1',
})

const thread = (body: string): PullThread => ({
  id: 't1',
  resolved: false,
  path: 'lamp',
  line: 1,
  diffHunk: '@@ -1 +1 @@\n-one\n+two',
  comments: [commentOf(body)],
})

interface Executed {
  readonly outcome: RunOutcome
  readonly worked: AgentOutcome
  readonly reports: readonly ExecutionReport[]
  readonly progress: readonly Progress[]
}

async function executed(executor: ClosableExecutor, job: Job): Promise<Executed> {
  const [reports, progress]: [ExecutionReport[], Progress[]] = [[], []]
  const reporter = {
    report: (report: ExecutionReport) => void reports.push(report),
    waitForCapacity: async () => {},
  }
  const order = { leaseId: 'ls-1', workerId: 'wk-1', job }
  const execution = executor.start(order, reporter, (event) => void progress.push(event))
  const { worked, outcome } = await carriedOut(execution)
  expect(isOutcome(outcome)).toMatchObject({ ok: true })
  return { outcome, worked, reports, progress }
}

const failedBy = ({ message, failure }: Refusal): AgentOutcome => ({
  verdict: 'failed',
  reason: message,
  ...(failure === undefined ? {} : { failure }),
})

async function carriedOut(execution: Execution) {
  const prepared = await execution.prepare()
  const worked: AgentOutcome = prepared.ok ? await execution.runAgent() : failedBy(prepared.refusal)
  const outcome = await execution.finish(worked)
  await execution.whenExited()
  return { worked, outcome }
}

const logOf = ({ reports }: Executed) =>
  reports
    .flatMap((report) => (report.is === 'event' && report.event.type === 'log' ? [report.event.text] : []))
    .join('\n')

const onMain = (g: GitFixture, file: string, text: string) =>
  commitAsPerson(g, 'main', file, text, `Main changes ${file}`)

type Change = (g: GitFixture) => void
const mainMoves: Change = (g) => onMain(g, 'other', 'of main\n')

/** A run that opened its pull request on worker one, and a base with a newer commit. */
async function opened(change = mainMoves) {
  const y = createFollowUpFixture()
  const { executor } = await y.worker('one')
  const first = await executed(
    executor,
    firstJob(['write lamp', '  branch', 'artifact old.txt', '  old', 'say Mended.']),
  )
  expect(first.outcome).toMatchObject({ status: 'completed' })
  change(y.g)
  return { y, executor, first }
}

/** The same with worker one started again. All these tests share one run: each finds the files that it left. */
async function reopened(change = mainMoves) {
  finishedRun ??= keepFinishedRun()
  const { g, kept, first } = await finishedRun
  // In the same place, because git's mirrors are named after paths.
  rmSync(g.folder, { recursive: true })
  execFileSync('cp', ['-a', kept, g.folder])
  const codehost = createLocalCodeHost({ path: join(g.folder, 'codehost'), clock: realClock })
  const y = createFollowUpFixture({ ...g, codehost })
  change(y.g)
  return { y, first }
}

let finishedRun: ReturnType<typeof keepFinishedRun> | undefined

async function keepFinishedRun() {
  const { y, executor, first } = await opened(() => {})
  await executor.close()
  const kept = passableFolder()
  execFileSync('cp', ['-a', `${y.g.folder}/.`, kept])
  return { g: y.g, kept, first }
}

const shown = (y: FollowUpFixture, path: string) => git(y.g.remote, 'show', `${BRANCH}:${path}`)
const marker = '<!-- switchyard:follow-up fu-1 -->'

// ---- behaviour --------------------------------------------------------------------------------------------------

test('a branch that is only behind is rebased without an agent, and one comment says so', async () => {
  const { y, executor } = await opened()
  const followUp = await executed(executor, followUpJob())
  expect(followUp.outcome).toMatchObject({
    status: 'completed',
    costs: [],
    prUrl: 'https://code.example/1',
    prState: 'open',
    result: { branch: BRANCH, prUrl: 'https://code.example/1', artifacts: [] },
    sandbox: { id: 'run-1', retainedUntil: expect.any(String) },
  })
  expect(y.stood()).toHaveLength(2)
  expect(shown(y, 'other')).toBe('of main')
  const [comment, ...others] = y.pull().comments
  expect(others).toEqual([])
  expect(comment?.body).toMatch(
    /^The branch was rebased onto the newest `main` \([0-9a-f]{12}\), without conflicts\. Pushed as [0-9a-f]{12}\.\n\n<!-- switchyard:follow-up fu-1 -->$/,
  )
  expect(followUp.progress.at(-1)).toMatchObject({ pushed: y.stood()[0], prUrl: 'https://code.example/1' })
})

test('the words of the operator start an agent, even without a remark', async () => {
  const { y } = await reopened()
  const { executor } = await y.worker('one')
  const job = followUpJob()
  const instructions = script(['write lamp', '  as told', 'say Done as told.'])
  const followUp = await executed(executor, { ...job, run: { ...job.run, instructions } })
  expect(followUp.outcome).toMatchObject({ status: 'completed', costs: [{}] })
  expect(shown(y, 'lamp')).toBe('as told')
  expect(y.pull().comments.map(({ body }) => body)).toEqual([expect.stringContaining('Done as told.')])
})

test('work that was pushed with neutral messages counts as pushed', async () => {
  const y = createFollowUpFixture()
  const { executor } = await y.worker('one')
  const first = await executed(
    executor,
    firstJob(['write lamp', '  branch', 'commit Fixes #3', 'say Mended.']),
  )
  expect(first.outcome).toMatchObject({ status: 'completed' })
  expect(git(y.g.remote, 'log', '--format=%s', `main..${BRANCH}`)).toBe('Fixes \u200b#3')
  onMain(y.g, 'other', 'of main\n')
  const followUp = await executed(executor, followUpJob())
  expect(followUp.outcome.status).toBe('completed')
  expect(logOf(followUp)).not.toContain('before-follow-up')
})

test('a follow-up begins with a new home, for which the setup runs again', async () => {
  const { y } = await reopened()
  const { executor } = await y.worker('one')
  const planted = firstJob([
    `run echo 'echo acted >>/work/acted' | tee ~/.bashrc ~/.profile; printf '[core]\\nhooksPath = /work/hooks\\n' >~/.gitconfig`,
    'say Planted.',
  ])
  await executed(executor, {
    ...followUpJob({}, 'fu-1'),
    run: { ...followUpJob().run, instructions: planted.run.ticket.description },
  })
  const job = followUpJob({}, 'fu-2')
  const instructions = script([
    'run bash -lic true; find ~ -maxdepth 1 | sort >homes; ls >>homes',
    'say Looked.',
  ])
  const setup = 'echo tool >~/.tool; echo "setup ran"'
  const followUp = await executed(executor, {
    ...job,
    repo: { ...job.repo, setup },
    run: { ...job.run, instructions },
  })
  expect(followUp.outcome).toMatchObject({ status: 'completed' })
  expect(logOf(followUp)).toContain('setup ran')
  const names = shown(y, 'homes').split('\n')
  expect(names).toEqual(expect.arrayContaining(['/home/agent/.tool', '/home/agent/.claude']))
  for (const path of ['/home/agent/.bashrc', '/home/agent/.profile', '/home/agent/.gitconfig', 'acted'])
    expect(names).not.toContain(path)
})

test('a sandbox without an agent is not retained, so the next follow-up need not wait for this worker', async () => {
  const { y } = await reopened()
  const { executor } = await y.worker('two')
  const { outcome: reported, progress } = await executed(executor, followUpJob())
  expect(reported).toMatchObject({ status: 'completed', costs: [] })
  const facts = { begun: true, progress: Object.assign({}, ...progress), costs: [], stop: null }
  const outcome = deriveOutcome(facts, reported)
  const now = realClock.now()
  const by = { workerId: 'wk-2', costsBefore: 0, label: 'follow-up 1', retentionHours: 24 }
  const run = finishRun(aJob().run, outcome, { ...by, now: new Date(now).toISOString() })
  expect(sandboxHolder(run, now)).toBeUndefined()
})

test('manual changes in a merge that cannot be restored go to an agent', async () => {
  const { y } = await reopened((g) => {
    onMain(g, 'other', 'of main\n')
    git(g.person, 'fetch', '-q', 'origin')
    git(g.person, 'checkout', '-q', '-B', BRANCH, `origin/${BRANCH}`)
    git(g.person, 'merge', '-q', '--no-ff', '--no-commit', 'origin/main')
    writeFileSync(join(g.person, 'other'), 'as the branch needs it\n')
    git(g.person, 'commit', '-q', '-a', '-m', 'Merge main')
    git(g.person, 'push', '-q', 'origin', BRANCH)
    onMain(g, 'other', 'of main, otherwise\n')
  })
  const { executor } = await y.worker('one')
  const followUp = await executed(executor, followUpJob())
  expect(followUp.outcome.costs).toHaveLength(1)
})

test('remarks are handled by the session that did the work, and only the new usage is billed', async () => {
  const { y, executor, first } = await opened()
  const job = followUpJob({
    threads: [thread('Make it brighter.')],
    comments: [
      commentOf(script(['write lamp', '  brighter', 'remember Lamps are bright.', 'say Made it brighter.'])),
    ],
  })
  const followUp = await executed(executor, job)
  expect(followUp.outcome).toMatchObject({ status: 'completed', result: { artifacts: [] } })
  expect(followUp.outcome.agentSessionId).toBe(first.outcome.agentSessionId)
  expect(shown(y, 'lamp')).toBe('brighter')
  expect(y.pull().comments.map(({ body }) => body)).toEqual([expect.stringContaining('Made it brighter.')])
  const [before, now] = [first.outcome.costs[0], followUp.outcome.costs[0]]
  const [snapshot] = followUp.reports.flatMap((report) => (report.is === 'usage' ? [report.snapshot] : []))
  const whole = snapshot?.entries.reduce((sum, { outputTokens }) => sum + outputTokens, 0)
  expect((before?.outputTokens ?? 0) + (now?.outputTokens ?? 0)).toBe(whole)
})

test('a conflict is resolved by the agent', async () => {
  const { y, executor } = await opened((g) => onMain(g, 'lamp', 'main\n'))
  const resolve = ['write lamp', '  both', 'run git add lamp && git rebase --continue', 'say Took both.']
  const followUp = await executed(executor, followUpJob({ comments: [commentOf(script(resolve))] }))
  expect(followUp.outcome).toMatchObject({ status: 'completed' })
  expect(shown(y, 'lamp')).toBe('both')
  expect(y.pull().comments[0]?.body).toMatch(
    /conflicts in `lamp` were resolved\. Pushed as .*\n\nTook both\./,
  )
})

test.each(['push', 'comment'] as const)(
  'a follow-up whose %s is refused keeps its work, and a later job publishes it without an agent',
  async (step) => {
    const { y } = await reopened()
    const { executor } = await y.worker('one')
    const words = commentOf(script(['write lamp', '  brighter', 'say Made it brighter.']))
    const job = followUpJob({ comments: [words] })
    y.refuses = step
    const first = await executed(executor, job)
    expect(first.outcome).toMatchObject({
      status: 'failed',
      failure: 'publish',
      costs: [{ provider: 'agentA' }],
      sandbox: { unpublished: true },
      result: { artifacts: step === 'push' ? [bundleName(job.followUp)] : [] },
    })
    // Somebody else pushed meanwhile.
    if (step === 'push') commitAsPerson(y.g, BRANCH, 'shade', 'of Bo\n', 'Add a shade')
    const again = await executed(executor, publishJob(job))
    expect(again.outcome).toMatchObject({ status: 'failed', failure: 'publish', costs: [] })
    y.refuses = undefined
    const last = await executed(executor, publishJob(job))
    expect(last.outcome).toMatchObject({ status: 'completed', costs: [], result: { artifacts: [] } })
    expect(shown(y, 'lamp')).toBe('brighter')
    if (step === 'push') expect(shown(y, 'shade')).toBe('of Bo')
    expect(y.pull().comments.map(({ body }) => body)).toEqual([expect.stringContaining('Made it brighter.')])
  },
)

test('a follow-up whose finished work cannot be read asks no agent again', async () => {
  const { y } = await reopened()
  const { executor } = await y.worker('one')
  const job = followUpJob({ comments: [commentOf(script(['write lamp', '  brighter', 'say Done.']))] })
  y.refuses = 'push'
  await executed(executor, job)
  y.refuses = undefined
  const note = join(y.g.folder, 'one/sandboxes/run-1/desk/unpublished.json')
  renameSync(note, `${note}.whole`)
  writeFileSync(note, 'not what the worker has written')
  const again = await executed(executor, job)
  expect(again.outcome).toMatchObject({ failure: 'publish', costs: [], sandbox: { unpublished: true } })
  renameSync(`${note}.whole`, note)
  const last = await executed(executor, publishJob(job))
  expect(last.outcome).toMatchObject({ status: 'completed', costs: [] })
  expect(shown(y, 'lamp')).toBe('brighter')
})

test('an unresolved conflict fails the follow-up: no push and no comment', async () => {
  const { y } = await reopened((g) => onMain(g, 'lamp', 'main\n'))
  const { executor } = await y.worker('one')
  const idle = commentOf(script(['say I would rather not.']))
  const followUp = await executed(executor, followUpJob({ comments: [idle] }))
  expect(followUp.outcome).toMatchObject({
    status: 'failed',
    error: expect.stringMatching(/rebase onto main was not finished/),
    sandbox: { retainedUntil: expect.any(String) },
  })
  expect(y.stood()).toHaveLength(1)
  expect(y.pull().comments).toEqual([])
})

test('without its sandbox it starts with a fresh checkout on another worker, and the prompt contains the ticket', async () => {
  const { y } = await reopened()
  const { executor } = await y.worker('two')
  const job = followUpJob({ comments: [commentOf(script(['write new', '  x', 'say Done.']))] })
  const setup = 'echo set-up; touch built.log'
  const sandbox = job.sandbox && { ...job.sandbox, diskQuotaGib: 3 }
  const more = sandbox === undefined ? {} : { sandbox }
  const followUp = await executed(executor, { ...job, ...more, repo: { ...job.repo, setup } })
  expect(followUp.outcome).toMatchObject({ status: 'completed' })
  expect(logOf(followUp)).toContain('set-up')
  const record = readFileSync(join(y.g.folder, 'two', 'sandboxes', job.run.id, 'sandbox.json'), 'utf8')
  expect(JSON.parse(record)).toMatchObject({ quotaGib: 3 })
  expect([shown(y, 'new'), shown(y, 'other')]).toEqual(['x', 'of main'])
})

test('our own comments start no agent, and a follow-up without work says so in its log alone', async () => {
  const { y } = await reopened(() => {})
  const { executor } = await y.worker('one')
  const own = commentOf('Pushed.\n\n<!-- switchyard:follow-up fu-0 -->')
  const followUp = await executed(executor, followUpJob({ comments: [own] }))
  expect(followUp.outcome).toMatchObject({ status: 'completed', costs: [] })
  expect(y.stood()).toHaveLength(1)
  expect(y.pull().comments).toEqual([])
  expect(followUp.outcome.result?.summary).toBeUndefined()
  expect(logOf(followUp)).toMatch(
    /The branch holds the newest `main` .* already\. Nothing was changed, so nothing was pushed\./,
  )
})

test('the pushed commit does not reveal the marker of our comment', async () => {
  const { y } = await reopened()
  const dying = await y.worker('one', { step: 'comment', when: 'before' })
  const reporter = { report: () => {}, waitForCapacity: async () => {} }
  const order = { leaseId: 'ls-2', workerId: 'wk-1', job: followUpJob() }
  const execution = dying.executor.start(order, reporter, () => {})
  const over = carriedOut(execution)
  await dying.crashed
  await dying.executor.close()

  const header = git(y.g.remote, 'cat-file', 'commit', BRANCH).split('\n\n')[0] ?? ''
  const words = header.split(/\s+/).map((word) => followUpMarker(word))
  got(await y.g.codehost.comment('ada/lamps', 1, words.join('\n')))
  const again = await y.worker('one', undefined, createSkippingClock())
  await again.executor.recover({ leaseId: 'ls-2', runId: 'run-1' }, {}, 1)
  expect(await executed(again.executor, followUpJob())).toMatchObject({ outcome: { status: 'completed' } })
  expect(y.stood()).toHaveLength(2)
  expect(y.pull().comments.map(({ body }) => body)).toEqual([
    words.join('\n'),
    expect.stringMatching(/^The branch was brought up to date.*fu-1 -->$/s),
  ])
  execution.stop({ how: 'kill', reason: 'its worker is gone', leaseLost: true })
  dying.release()
  await over
  await again.executor.close()
})

test('an outage of the code host delays the comment, is logged, and causes no second comment', async () => {
  const { y } = await reopened()
  const comment = y.g.codehost.comment.bind(y.g.codehost)
  let answers = 0
  y.g.codehost.comment = async (...posted) => {
    // The last request succeeds, but its response is lost.
    if (answers++ === 5) await comment(...posted)
    return no('unavailable', 'the code host has trouble')
  }
  const { executor } = await y.worker('one', undefined, createSkippingClock())
  const followUp = await executed(executor, followUpJob())
  expect(followUp.outcome).toMatchObject({ status: 'completed' })
  expect(logOf(followUp)).toMatch(/the code host has trouble; trying again for up to \d+ minutes/)
  expect(y.pull().comments.filter(({ body }) => body.includes(marker))).toHaveLength(1)
  expect(answers).toBe(6)
})

test('work that a person left in the sandbox is preserved and named', async () => {
  const { y } = await reopened()
  const { executor } = await y.worker('one')
  const work = join(y.g.folder, 'one/sandboxes/run-1/work')
  writeFileSync(join(work, 'mine'), 'precious\n')
  const followUp = await executed(executor, followUpJob())
  expect(logOf(followUp)).toContain('switchyard/before-follow-up-1')
  expect(git(work, '-c', 'safe.directory=*', 'show', 'switchyard/before-follow-up-1:mine')).toBe('precious')
  expect(git(y.g.remote, 'ls-tree', '--name-only', BRANCH).split('\n')).not.toContain('mine')
})

describe('cancelled', () => {
  const cancelled = { how: 'interrupt', reason: 'somebody cancelled it' } as const
  const lost = { ...cancelled, how: 'kill', leaseLost: true } as const

  /** Stops right before the comment, when the push is already visible. */
  async function stoppedAfterThePush(...orders: readonly StopRequest[]) {
    const { y, executor } = await opened()
    const hasComment = y.g.codehost.hasComment.bind(y.g.codehost)
    const reporter = { report: () => {}, waitForCapacity: async () => {} }
    let searches = 0
    y.g.codehost.hasComment = async (...asked) => {
      if (++searches === 2) for (const order of orders) execution.stop(order)
      return hasComment(...asked)
    }
    const execution = executor.start(
      { leaseId: 'ls-2', workerId: 'wk-1', job: followUpJob() },
      reporter,
      () => {},
    )
    const { outcome } = await carriedOut(execution)
    expect(y.stood()).toHaveLength(2)
    return { outcome, comments: y.pull().comments.length }
  }

  test('after its push it still posts the comment', async () => {
    const { outcome, comments } = await stoppedAfterThePush(cancelled)
    expect(outcome.status).toBe('completed')
    expect(comments).toBe(1)
  })

  test('without its lease it posts nothing, because the new holder of the lease does', async () => {
    expect((await stoppedAfterThePush(lost)).comments).toBe(0)
  })

  test('it posts nothing either when it loses its lease after the cancel', async () => {
    const revoked = { how: 'interrupt', reason: 'the worker is revoked', leaseLost: true } as const
    expect((await stoppedAfterThePush(cancelled, revoked)).comments).toBe(0)
  })
})

test('a stopped follow-up leaves the sandbox usable for a person', async () => {
  const { y } = await reopened()
  const { executor } = await y.worker('one')
  const reporter = { report: () => {}, waitForCapacity: async () => {} }
  const execution = executor.start(
    { leaseId: 'ls-2', workerId: 'wk-1', job: followUpJob() },
    reporter,
    () => {},
  )
  await execution.prepare()
  execution.stop({ how: 'kill', reason: 'the lease is gone', leaseLost: true })
  const outcome = await execution.finish({ verdict: 'stopped', reason: 'the lease is gone' })
  await execution.whenExited()
  expect(outcome.status).toBe('cancelled')
  expect(y.stood()).toHaveLength(1)
  expect(y.pull().comments).toEqual([])
  expect(await executed(executor, followUpJob())).toMatchObject({ outcome: { status: 'completed' } })
})

test('a fresh checkout that was interrupted before its agent started is made again and set up', async () => {
  const { y } = await reopened()
  const comments = [commentOf(script(['write new', '  x', 'say Done.']))]
  const job = followUpJob({ comments })
  const order = { leaseId: 'ls-1', workerId: 'wk-1', job }
  const dying = await y.worker('two', { step: 'rebase', when: 'after' })
  const reporter = { report: () => {}, waitForCapacity: async () => {} }
  const execution = dying.executor.start(order, reporter, () => {})
  const over = carriedOut(execution)
  await dying.crashed
  await dying.executor.close()

  const { executor } = await y.worker('two')
  await executor.recover({ leaseId: 'ls-1', runId: 'run-1' }, {}, 1)
  const again = await executed(executor, { ...job, repo: { ...job.repo, setup: 'echo set-up' } })
  expect(again.outcome).toMatchObject({ status: 'completed' })
  expect(logOf(again)).toContain('set-up')
  execution.stop({ how: 'kill', reason: 'its worker is gone', leaseLost: true })
  dying.release()
  await over
})

// ---- crashes at each step ----------------------------------------------------------------------------------------

const STEPS: readonly Step[] = ['ask', 'fetch', 'rebase', 'agent', 'collect', 'push', 'comment']
const CRASHES = STEPS.flatMap((step): Crash[] => [
  { step, when: 'before' },
  { step, when: 'after' },
])

/** On another worker only visible steps matter. */
const CRASHES_SEEN = CRASHES.filter(({ step }) => ['collect', 'push', 'comment'].includes(step))
/** Each takes seconds: `FOLLOW_UP_CRASHES=all` runs all, a normal run only those around visible steps. */
const SHORT = process.env.FOLLOW_UP_CRASHES !== 'all'
const isReported = ({ step, when }: Crash): boolean =>
  !SHORT || step === 'push' || step === 'comment' || (step === 'rebase' && when === 'after')

describe.each([
  { next: 'one', crashes: CRASHES.filter(isReported) },
  {
    next: 'two',
    crashes: CRASHES_SEEN.filter(({ step, when }) => !SHORT || (step !== 'collect' && when === 'after')),
  },
])('a crash on worker one, repeated on worker $next:', ({ next, crashes }) => {
  test.each(crashes)('$when $step: one push, one comment', async (crash) => {
    const { y } = await reopened()
    const work = script(['append lamp', '  brighter', 'say Made it brighter.'])
    const job = followUpJob({ comments: [commentOf(work)] })
    const dying = await y.worker('one', crash)
    const reporter = { report: () => {}, waitForCapacity: async () => {} }
    const execution = dying.executor.start({ leaseId: 'ls-2', workerId: 'wk-1', job }, reporter, () => {})
    const over = carriedOut(execution)
    await dying.crashed
    // A dead process writes nothing any more.
    await dying.executor.close()

    const again = await y.worker(next, undefined, createSkippingClock())
    if (next === 'one') await again.executor.recover({ leaseId: 'ls-2', runId: 'run-1' }, {}, 1)
    const followUp = await executed(again.executor, job)
    expect(followUp.outcome).toMatchObject({ status: 'completed', prUrl: 'https://code.example/1' })
    const isOnce = () => {
      expect(y.stood()).toHaveLength(2)
      expect(y.pull().comments.filter(({ body }) => body.includes(marker))).toHaveLength(1)
      expect(shown(y, 'lamp')).toBe('branch\nbrighter')
    }
    isOnce()
    const areWordsLost =
      next === 'two' && ['after push', 'before comment'].includes(`${crash.when} ${crash.step}`)
    if (!areWordsLost) expect(y.pull().comments[0]?.body).toContain('Made it brighter.')

    execution.stop({ how: 'kill', reason: 'its worker is gone', leaseLost: true })
    dying.release()
    await over
    isOnce()
    await again.executor.close()
  })
})
