/** An execution on a failing machine: a full disk, unreadable transcripts, a crash of the worker. */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PassThrough, Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { finished } from 'node:stream/promises'
import { afterEach, beforeEach, expect, jest, test } from '@jest/globals'
import type { AgentExecutionRequest, ExecutionReporter } from '../../../../core/daemon/ports.ts'
import { no, type Result, yes } from '../../../../core/result.ts'
import type { AgentJob } from '../../../../protocol/frames.ts'
import type { AgentDriver } from '../../../../worker/agents/agent.ts'
import { openExecutor } from '../../../../worker/executor.ts'
import type { CheckedOut, GitSources } from '../../../../worker/git/git-ports.ts'
import { Sandboxes } from '../../../../worker/run/disk/sandboxes.ts'
import { RunExecution } from '../../../../worker/run/execution/execution.ts'
import type { RunExecutionOptions } from '../../../../worker/run/execution/execution-state.ts'
import type { ExecutorDependencies } from '../../../../worker/run/execution/executor-dependencies.ts'
import type { SandboxLauncher, SandboxOrder } from '../../../../worker/sandbox/driver.ts'
import { openSandboxEgress } from '../../../../worker/sandbox/egress/sandbox-egress.ts'
import { confirmedClock } from '../../../support/confirmed-clock.ts'
import { ManualClock, settlePromises } from '../../../support/manual-clock.ts'
import { createRecordingLog } from '../../../support/recording-log.ts'
import { until } from '../../../support/until.ts'

let data = ''
beforeEach(async () => {
  data = await mkdtemp(join(tmpdir(), 'switchyard-execution-'))
  for (const name of ['sandboxes', 'trash']) mkdirSync(join(data, name))
})
afterEach(() => rm(data, { recursive: true, force: true }))

const RUN = 'run-1'
const COST = {
  label: 'run',
  provider: 'agentA',
  inputTokens: 1,
  outputTokens: 2,
  cacheReadTokens: 0,
  cacheWriteTokens: 0,
  costUsd: 0.5,
  estimated: false,
}
const FULL = new Error('ENOSPC: no space left on device, write')
const broken = () => Promise.reject(FULL)

const good: GitSources = {
  checkOut: async () => yes({ base: 'a' }),
  bundle: async () => yes(undefined),
  collect: async () =>
    yes({ head: 'b', commits: 1, diff: { files: 1, additions: 1, deletions: 0, text: '' } }),
  publish: async () => yes({ pushed: 'b', prUrl: 'https://code/1', prState: 'open', adopted: false }),
  followUps: {
    begin: async () => no('invalid', 'this is no follow-up'),
    push: async () => no('invalid', 'this is no follow-up'),
    hasComment: async () => yes(false),
    postComment: async () => yes(undefined),
  },
}

/** Starts processes that print nothing and succeed. */
const launcher: SandboxLauncher = {
  launch: () => ({
    stdout: Readable.from([]),
    stderr: Readable.from([]),
    interrupt: () => {},
    kill: () => {},
    ended: Promise.resolve({ code: 0 }),
  }),
}

const driver: AgentDriver = {
  provider: 'agentA',
  locate: async () => ({ is: 'found', program: '/usr/bin/agent', readOnlyPaths: [] }),
  probe: async () => ({ found: true }),
  buildCommand: () => ({ command: ['agent'], environment: {}, files: [], seeds: [], readOnlyPaths: [] }),
  createListener: () => ({
    onOutputLine: () => [],
    onErrorLine: () => [],
    onExit: () => ({ verdict: 'done', summary: 'Mended.', cost: COST, events: [] }),
  }),
  readUsage: async () => [],
}

const job = {
  kind: 'run',
  run: {
    id: RUN,
    ticket: { identifier: 'A-1', title: 'Mend', url: '', labels: [], description: '' },
    sandbox: {},
  },
  repo: { key: 'a', remote: 'o/a', defaultBranch: 'main' },
  branch: 'switchyard/a-1',
  base: 'main',
  agent: { provider: 'agentA', instructions: '', memories: [] },
  credentials: {},
  limits: {},
  retentionHours: 1,
} as unknown as AgentJob

function executorDependencies(
  changes: Partial<ExecutorDependencies>,
  clock: ManualClock,
): ExecutorDependencies {
  return {
    folder: data,
    clock,
    retentionClock: confirmedClock(clock),
    log: createRecordingLog(),
    uuid: () => 'a-session',
    launcher,
    userFor: () => ({ uid: 0, gid: 0 }),
    firstNumber: 0,
    isRoot: false,
    removeFolder: (folder: string) => rm(folder, { recursive: true, force: true }),
    gitSources: good,
    codehostFor: () => yes({}),
    drivers: { agentA: driver },
    openEgress: async () => ({
      environment: {},
      wrapCommand: (command: readonly string[]) => command,
      allow: () => {},
      close: async () => {},
    }),
    insidePrograms: '/usr',
    node: { program: '/usr/bin/node', mounts: [] },
    gitconfig: '',
    stallMs: 60_000,
    freeSpace: async () => ({ bytes: 2 ** 40, files: 2 ** 30 }),
    diskBytes: async () => 2 ** 42,
    measureFolder: async () => 0,
    onClosed: async () => {},
    ...changes,
  } as unknown as ExecutorDependencies
}

async function made(
  changes: Partial<ExecutorDependencies>,
  order: AgentJob,
  clock: ManualClock,
  report: ExecutionReporter['report'] = () => {},
) {
  const dependencies = executorDependencies(changes, clock)
  const sandboxes = await Sandboxes.open({
    folder: join(data, 'sandboxes'),
    trash: join(data, 'trash'),
    clock: dependencies.retentionClock,
    log: dependencies.log,
    ownerFor: () => undefined,
    firstNumber: 0,
    diskBytes: dependencies.diskBytes,
    deleteFolder: dependencies.removeFolder,
  })
  const execution = new RunExecution({
    dependencies,
    sandboxes,
    request: { leaseId: 'ls-1', workerId: 'wk-1', job: order } as AgentExecutionRequest,
    reporter: { report, waitForCapacity: async () => {} },
    onProgress: () => {},
    onGone: () => {},
  } satisfies RunExecutionOptions)
  return { execution, sandboxes }
}

async function carriedOut(
  changes: Partial<ExecutorDependencies>,
  spoil: (sandboxes: Sandboxes) => void = () => {},
) {
  const { execution, sandboxes } = await made(changes, job, new ManualClock())
  expect(await execution.prepare()).toMatchObject({ ok: true })
  const { work } = sandboxes.foldersOf(RUN)
  writeFileSync(join(work, 'precious.txt'), 'what the agent made')
  const worked = await execution.runAgent()
  expect(worked).toEqual({ verdict: 'done' })
  spoil(sandboxes)
  const outcome = await execution.finish(worked)
  await execution.whenExited()
  await sandboxes.waitUntilSettled()
  return { outcome, sandboxes, work: join(work, 'precious.txt') }
}

test.each<[string, Partial<GitSources>]>([
  ['collecting', { collect: broken }],
  ['publishing', { publish: broken }],
])('a disk that is full while %s loses neither the work nor its cost', async (_, changes) => {
  const { outcome, work, sandboxes } = await carriedOut({ gitSources: { ...good, ...changes } })
  expect(outcome).toMatchObject({ status: 'failed', error: FULL.message, costs: [COST] })
  expect(outcome.result?.summary).toBe('Mended.')
  expect(outcome.sandbox).toMatchObject({ id: RUN, retainedUntil: expect.any(String) })
  expect(readFileSync(work, 'utf8')).toBe('what the agent made')
  expect(sandboxes.get(RUN)).toMatchObject({ unpushed: true })
})

test('unreadable transcripts lose only their own usage', async () => {
  const { outcome } = await carriedOut({
    drivers: { agentA: { ...driver, readUsage: broken } } as unknown as ExecutorDependencies['drivers'],
  })
  expect(outcome).toMatchObject({ status: 'completed', prUrl: 'https://code/1', costs: [COST] })
})

test('published work is completed, even if its sandbox cannot be retained', async () => {
  const { outcome, work } = await carriedOut({}, (sandboxes) => {
    sandboxes.retain = broken
  })
  expect(outcome).toMatchObject({ status: 'completed', prUrl: 'https://code/1', costs: [COST] })
  expect(existsSync(work)).toBe(true)
})

const KEY = 'sk-ant-api03-Zx9qLmT7vB2nR5wK8dJ4sH1f'
const hiddenKey = Buffer.from(`key ${KEY}`).toString('base64')
const withKey = { ...job, credentials: { agent: { kind: 'api-key', value: KEY } } } as AgentJob

/** Lets an agent end with this last message, after it has left these outputs; nothing may reach the code host. */
async function leaked(summary: string, leave: (out: string) => void) {
  const reports: string[] = []
  const asked: string[] = []
  const note = (step: string) => async () => {
    asked.push(step)
    return broken()
  }
  const reported = {
    ...driver.createListener({} as never),
    onExit: () => ({ verdict: 'done', summary, events: [] }),
  }
  const changes = {
    gitSources: { ...good, collect: note('collect'), publish: note('publish') },
    drivers: { agentA: { ...driver, createListener: () => reported } },
  } as unknown as Partial<ExecutorDependencies>
  const report: ExecutionReporter['report'] = (each) => void reports.push(JSON.stringify(each))
  const { execution, sandboxes } = await made(changes, withKey, new ManualClock(), report)
  await execution.prepare()
  leave(sandboxes.foldersOf(RUN).out)
  const outcome = await execution.finish(await execution.runAgent())
  await execution.whenExited()
  await sandboxes.waitUntilSettled()
  return { outcome, asked, all: `${reports.join()} ${JSON.stringify(outcome)}` }
}

test.each<[string, string, (out: string) => void, RegExp]>([
  [
    'an artifact',
    'Mended.',
    (out) => {
      mkdirSync(join(out, 'artifacts'), { recursive: true })
      writeFileSync(join(out, 'artifacts/report.txt'), hiddenKey)
    },
    /^the artifact report\.txt holds the agent’s credential, so nothing was published/,
  ],
  ['a memory', 'Mended.', (out) => writeFileSync(join(out, 'memories'), hiddenKey), /^a memory holds /],
  ['the last message', `Used ${hiddenKey}.`, () => {}, /^the agent’s last message holds /],
])(
  'a run whose agent puts its key into %s fails, and publishes nothing',
  async (_, summary, leave, error) => {
    const { outcome, asked, all } = await leaked(summary, leave)
    expect(outcome).toMatchObject({ status: 'failed', error: expect.stringMatching(error) })
    expect(outcome.failure).toBeUndefined()
    expect(outcome.result?.artifacts).toEqual([])
    expect(asked).toEqual([])
    for (const form of [KEY, hiddenKey]) expect(all).not.toContain(form)
  },
)

test('a setup that prints a secret of the run does not bring it into the log', async () => {
  const lines: string[] = []
  const report: ExecutionReporter['report'] = (each) => void lines.push(JSON.stringify(each))
  const printing: SandboxLauncher = {
    launch: (order) => ({
      ...launcher.launch(order),
      stdout: Readable.from([Buffer.from(`${KEY} ${hiddenKey}\n`)]),
    }),
  }
  const order = { ...withKey, repo: { ...job.repo, setup: 'env' } } as AgentJob
  const { execution } = await made({ launcher: printing }, order, new ManualClock(), report)
  expect(await execution.prepare()).toMatchObject({ ok: true })
  expect(lines.join()).toContain('***')
  for (const form of [KEY, hiddenKey.slice(4, -4)]) expect(lines.join()).not.toContain(form)
})

const setUp = { ...job.repo, setup: 'npm ci' }

test('a setup that never ends is killed, and the refusal says why', async () => {
  const clock = new ManualClock()
  let kill = () => {}
  const ended = new Promise<{ signal: string }>((resolve) => {
    kill = () => resolve({ signal: 'SIGKILL' })
  })
  const deaf: SandboxLauncher = { launch: (order) => ({ ...launcher.launch(order), kill, ended }) }
  const order = { ...job, repo: setUp, sandbox: { network: 'open' } } as AgentJob
  const { execution } = await made({ launcher: deaf }, order, clock)
  const prepared = execution.prepare()
  await until('the execution waits for the setup', () => clock.timers > 0)
  await clock.advance(30 * 60_000)
  expect(await prepared).toMatchObject({
    refusal: {
      message: expect.stringMatching(/setup did not end within 30 minutes/),
    },
  })
})

test.each([
  ['open', /exit code 6; [^()]*$/],
  ['allowlist', /exit code 6; .*\(sandbox\.network is allowlist: .*sandbox\.allowedHosts\)$/],
  ['none', /exit code 6; .*\(sandbox\.network is none: [^()]*\)$/],
])('the refusal after a failed setup names its exit code and network %s', async (network, words) => {
  const failing: SandboxLauncher = {
    launch: (order) => ({ ...launcher.launch(order), ended: Promise.resolve({ code: 6 }) }),
  }
  const order = { ...job, repo: setUp, sandbox: { network } } as AgentJob
  const { execution } = await made({ launcher: failing }, order, new ManualClock())
  expect(await execution.prepare()).toMatchObject({ refusal: { message: expect.stringMatching(words) } })
})

test('allowlist entries that allow nothing are named in the run’s log', async () => {
  const reports: unknown[] = []
  const order = { ...job, sandbox: { network: 'allowlist', allowedHosts: ['intranet'] } } as AgentJob
  const { execution } = await made(
    { openEgress: openSandboxEgress },
    order,
    new ManualClock(),
    (notice) => void reports.push(notice),
  )
  expect(await execution.prepare()).toMatchObject({ ok: true })
  await execution.whenExited()
  const text = expect.stringContaining('sandbox.allowedHosts has "intranet", which allows nothing')
  const event = expect.objectContaining({ type: 'log', stream: 'system', text })
  expect(reports).toContainEqual({ is: 'event', event })
})

test('the hosts that the repository’s lock files name are allowed, named in the log, and kept for a resume', async () => {
  const reachable = {
    hosts: [
      { host: 'registry.npmjs.org', from: 'package-lock.json' },
      { host: 'git.example:8443', from: 'code host' },
    ],
    leftOut: ['package-lock.json names 10.0.0.1'],
  }
  const asked: (readonly string[])[] = []
  const egress: ExecutorDependencies['openEgress'] = async () => ({
    environment: {},
    wrapCommand: (command: readonly string[]) => command,
    allow: (entries) => void asked.push(entries),
    close: async () => {},
  })
  const lines: string[] = []
  const report: ExecutionReporter['report'] = (each) => {
    if (each.is === 'event' && each.event.type === 'log') lines.push(each.event.text)
  }
  const gitSources = { ...good, checkOut: async () => yes({ base: 'a', reachable }) }
  const order = { ...job, sandbox: { network: 'allowlist', allowedHosts: ['a.example'] } } as AgentJob
  const { execution, sandboxes } = await made(
    { openEgress: egress, gitSources },
    order,
    new ManualClock(),
    report,
  )
  expect(await execution.prepare()).toMatchObject({ ok: true })
  const derived = ['registry.npmjs.org:443', 'git.example:8443']
  expect(asked).toEqual([[...derived, 'api.anthropic.com:443']])
  expect(lines).toContain(
    'network: may reach registry.npmjs.org (package-lock.json), git.example:8443 (code host), ' +
      'api.anthropic.com (agent), a.example (sandbox.allowedHosts)\npackage-lock.json names 10.0.0.1',
  )
  await execution.finish(await execution.runAgent())
  expect(sandboxes.get(RUN)?.walls?.allowedHosts).toEqual(['a.example', ...derived])
  await execution.whenExited()
})

test('each line of the log names the phase in which it was written', async () => {
  const lines: string[] = []
  const printing: SandboxLauncher = {
    launch: (order) => ({
      ...launcher.launch(order),
      stdout: Readable.from([Buffer.from(`${order.command.at(-1)}\n`)]),
    }),
  }
  const listening: AgentDriver = {
    ...driver,
    createListener: () => ({
      ...driver.createListener({} as Parameters<AgentDriver['createListener']>[0]),
      onOutputLine: (text, at) => [{ is: 'event', event: { type: 'log', at, stream: 'stdout', text } }],
    }),
  }
  const gitSources: GitSources = {
    ...good,
    checkOut: async (_job, _folders, _runner, _signal, logToRun) => {
      logToRun?.('cloned')
      return good.checkOut(_job, _folders, _runner, _signal, logToRun)
    },
    publish: async (request, ...rest) => {
      request.logToRun?.('pushed')
      return good.publish(request, ...rest)
    },
  }
  const hooks = { beforeAgent: 'warm up', afterAgent: 'cool down' }
  const order = { ...job, repo: { ...job.repo, setup: 'npm ci', hooks } }
  const changes = {
    launcher: printing,
    drivers: { agentA: listening } as ExecutorDependencies['drivers'],
    gitSources,
  }
  const { execution } = await made(changes, order, new ManualClock(), (report) => {
    if (report.is === 'event' && report.event.type === 'log')
      lines.push(`${report.event.phase}: ${report.event.text}`)
  })
  expect(await execution.prepare()).toMatchObject({ ok: true })
  const outcome = await execution.runAgent()
  await execution.finish(outcome)
  await execution.whenExited()
  expect(lines).toEqual([
    'checkout: cloned',
    'setup: npm ci',
    'hook: warm up',
    'agent: agent',
    'hook: cool down',
    'publish: pushed',
  ])
})

test('after a crash the disk of a run stays until it is recovered, and then until the host has it discarded', async () => {
  const clock = new ManualClock()
  const order = { leaseId: 'ls-1', workerId: 'wk-1', job } as AgentExecutionRequest
  const first = await openExecutor(executorDependencies({}, clock))
  const execution = first.start(order, { report: () => {}, waitForCapacity: async () => {} }, () => {})
  expect(await execution.prepare()).toMatchObject({ ok: true })
  await execution.runAgent()
  await clock.advance(1_000)
  const disk = join(data, 'sandboxes', RUN)

  const second = await openExecutor(executorDependencies({}, clock))
  await second.reclaim((runId) => runId === RUN)
  expect(existsSync(disk)).toBe(true)
  expect(await second.recover({ leaseId: 'ls-1', runId: RUN }, {}, 1)).toMatchObject({ sandbox: { id: RUN } })
  await second.reclaim(() => false)
  expect(existsSync(disk)).toBe(true)
  await clock.advance(3_600_000)
  expect(await second.reclaim(() => false)).toMatchObject([{ runId: RUN }])
  await second.discard(RUN)
  expect(existsSync(disk)).toBe(false)
  await second.close()
})

test('the usage of an agent whose worker died is read from its transcripts', async () => {
  const clock = new ManualClock()
  const asked: string[] = []
  const tokens = { inputTokens: 3, outputTokens: 4, cacheReadTokens: 0, cacheWriteTokens: 0 }
  const used = { id: 'u1', at: '2026-03-01T08:00:00.000Z', model: 'm', ...tokens, costUsd: 0.25 }
  const snapshot = { projectKey: '-work', sessionId: 'a-session', entries: [used] }
  const recorded: AgentDriver = {
    ...driver,
    readUsage: async (_, session) => {
      asked.push(session)
      return [snapshot]
    },
  }
  const changes = { drivers: { agentA: recorded } as unknown as ExecutorDependencies['drivers'] }
  const first = await openExecutor(executorDependencies(changes, clock))
  const order = { leaseId: 'ls-1', workerId: 'wk-1', job } as AgentExecutionRequest
  const execution = first.start(order, { report: () => {}, waitForCapacity: async () => {} }, () => {})
  await execution.prepare()
  await execution.runAgent()
  await first.close()

  const second = await openExecutor(executorDependencies(changes, clock))
  const cost = { label: 'run', provider: 'agentA', model: 'm', ...tokens, costUsd: 0.25, estimated: true }
  expect(await second.recover({ leaseId: 'ls-1', runId: RUN }, {}, 1)).toMatchObject({
    usage: [snapshot],
    costs: [cost],
  })
  expect(asked).toEqual(['a-session'])
  // The next execution in this sandbox dies before it starts its agent, so it has spent nothing.
  const next = await second.recover({ leaseId: 'ls-2', runId: RUN }, {}, 1)
  expect([next.costs, next.usage, asked.length]).toEqual([undefined, undefined, 1])
  await second.close()
})

test('the sandbox of an abandoned execution stays until the daemon discards it, so its costs can be read again', async () => {
  const clock = new ManualClock()
  const tokens = { inputTokens: 3, outputTokens: 4, cacheReadTokens: 0, cacheWriteTokens: 0 }
  const used = { id: 'u1', at: '2026-03-01T08:00:00.000Z', model: 'm', ...tokens, costUsd: 0.25 }
  const spending: AgentDriver = {
    ...driver,
    readUsage: async () => [{ projectKey: '-work', sessionId: 'a-session', entries: [used] }],
    createListener: () => ({
      ...driver.createListener({} as Parameters<AgentDriver['createListener']>[0]),
      onExit: () => ({ verdict: 'failed', reason: 'it was killed', events: [] }),
    }),
  }
  const changes = { drivers: { agentA: spending } as unknown as ExecutorDependencies['drivers'] }
  const first = await openExecutor(executorDependencies(changes, clock))
  const order = { leaseId: 'ls-1', workerId: 'wk-1', job } as AgentExecutionRequest
  const execution = first.start(order, { report: () => {}, waitForCapacity: async () => {} }, () => {})
  await execution.prepare()
  const ended = await execution.runAgent()
  execution.stop({ how: 'kill', reason: 'the lease is lost', leaseLost: true })
  const { costs } = await execution.finish(ended)
  expect(costs).toMatchObject([{ costUsd: 0.25 }])
  await execution.whenExited()
  expect(execution.leavesNothing).toBe(true)

  const second = await openExecutor(executorDependencies(changes, clock))
  const lost = { leaseId: 'ls-1', runId: RUN, isLeaseLost: true }
  expect(await second.recover(lost, {}, 1)).toMatchObject({ costs })
  await first.discard(RUN)
  expect(existsSync(join(data, 'sandboxes', RUN))).toBe(false)
  await Promise.all([first.close(), second.close()])
})

// ---- the sandbox of the agent --------------------------------------------------------------------------------------

/** Agents end as soon as they begin. As with real sandboxes, an end needs somebody who reads the output. */
function createHoldingLauncher() {
  const events: string[] = []
  const launch: SandboxLauncher['launch'] = ({ openInput }) => {
    if (openInput !== true) {
      events.push('script')
      return launcher.launch({} as SandboxOrder)
    }
    events.push('agent: started')
    const [input, stdout, stderr] = [new PassThrough(), new PassThrough(), new PassThrough()]
    const ended = Promise.all([finished(stdout), finished(stderr)]).then(() => ({ code: 0 }))
    const end = (event: string) => {
      if (stdout.writableEnded) return
      events.push(`agent: ${event}`)
      for (const stream of [stdout, stderr]) stream.end('last words\n')
    }
    void text(input).then((words) => end(`${words.split('\n')[0]}`))
    return { input, stdout, stderr, ended, interrupt: () => {}, kill: () => end('killed') }
  }
  return { events, launcher: { launch } satisfies SandboxLauncher }
}

async function startedExecution(
  order: AgentJob,
  changes: Partial<ExecutorDependencies> = {},
  turn: Promise<void> = Promise.resolve(),
) {
  const holding = createHoldingLauncher()
  let endCheckout: (checked: Result<CheckedOut>) => void = () => {}
  const checkedOut = new Promise<Result<CheckedOut>>((resolve) => {
    endCheckout = resolve
  })
  const gitSources: GitSources = {
    ...good,
    checkOut: async (_job, _folders, _sandbox, _signal, _log, onTurn) => {
      await turn
      onTurn?.()
      return checkedOut
    },
  }
  const { execution } = await made(
    { launcher: holding.launcher, gitSources, ...changes },
    order,
    new ManualClock(),
  )
  return { events: holding.events, execution, prepared: execution.prepare(), endCheckout }
}

const CHECKED_OUT = yes({ base: 'a' })

test('the sandbox of the agent starts beside the checkout, and the agent begins after it', async () => {
  const { events, execution, prepared, endCheckout } = await startedExecution(job)
  await until('the sandbox has started', () => events.length > 0)
  endCheckout(CHECKED_OUT)
  expect(await prepared).toMatchObject({ ok: true })
  expect(events).toEqual(['agent: started'])
  expect(await execution.runAgent()).toEqual({ verdict: 'done' })
  expect(events).toEqual(['agent: started', 'agent: begin'])
  await execution.whenExited()
})

test('the sandbox of the agent does not start while other runs use the repository', async () => {
  let beginTurn = () => {}
  const turn = new Promise<void>((resolve) => {
    beginTurn = resolve
  })
  const { events, execution, prepared, endCheckout } = await startedExecution(job, {}, turn)
  await settlePromises()
  expect(events).toEqual([])
  beginTurn()
  await until('the sandbox has started', () => events.length > 0)
  endCheckout(CHECKED_OUT)
  expect(await prepared).toMatchObject({ ok: true })
  await execution.runAgent()
  await execution.whenExited()
})

test.each([{ setup: 'npm ci' }, { hooks: { beforeAgent: 'warm up' } }])(
  'the sandbox of the agent does not start beside scripts of the repository: %j',
  async (scripts) => {
    const order = { ...job, repo: { ...job.repo, ...scripts } }
    const { events, execution, prepared, endCheckout } = await startedExecution(order)
    endCheckout(CHECKED_OUT)
    expect(await prepared).toMatchObject({ ok: true })
    expect(events).toEqual(['script'])
    expect(await execution.runAgent()).toEqual({ verdict: 'done' })
    expect(events).toEqual(['script', 'agent: started', 'agent: begin'])
    await execution.whenExited()
  },
)

test('a checkout that fails ends the sandbox of the agent, which never begins', async () => {
  const { events, execution, prepared, endCheckout } = await startedExecution(job)
  await until('the sandbox has started', () => events.length > 0)
  endCheckout(no('failed', 'the code host is down'))
  expect(await prepared).toMatchObject({ ok: false })
  const outcome = await execution.finish({ verdict: 'failed', reason: 'the code host is down' })
  expect(outcome).toMatchObject({ status: 'failed', costs: [] })
  await execution.whenExited()
  expect(events).toEqual(['agent: started', 'agent: killed'])
})

test.each(['interrupt', 'kill'] as const)(
  'a stop by %s during the checkout ends the sandbox of the agent, which never begins',
  async (how) => {
    const { events, execution, prepared, endCheckout } = await startedExecution(job)
    await until('the sandbox has started', () => events.length > 0)
    execution.stop({ how, reason: 'enough' })
    endCheckout(CHECKED_OUT)
    expect(await prepared).toMatchObject({ ok: false })
    expect(await execution.runAgent()).toEqual({ verdict: 'stopped', reason: 'enough' })
    await execution.finish({ verdict: 'stopped', reason: 'enough' })
    await execution.whenExited()
    expect(events).toEqual(['agent: started', 'agent: killed'])
  },
)

test('an agent that cannot be prepared is tried again after the checkout, and fails then', async () => {
  const locate = jest.fn(() => Promise.reject(new Error('the disk is broken')))
  const changes = { drivers: { agentA: { ...driver, locate } } as unknown as ExecutorDependencies['drivers'] }
  const { events, execution, prepared, endCheckout } = await startedExecution(job, changes)
  await until('the agent is looked for', () => locate.mock.calls.length > 0)
  endCheckout(CHECKED_OUT)
  expect(await prepared).toMatchObject({ ok: true })
  expect(locate).toHaveBeenCalledTimes(1)
  expect(await execution.runAgent()).toEqual({ verdict: 'failed', reason: 'the disk is broken' })
  expect(locate).toHaveBeenCalledTimes(2)
  expect(events).toEqual([])
  await execution.whenExited()
})

test('an agent that could not be prepared beside the checkout may be prepared after it', async () => {
  let isBroken = true
  const locate: AgentDriver['locate'] = async () => {
    if (isBroken) throw new Error('too many files are open')
    return driver.locate()
  }
  const changes = { drivers: { agentA: { ...driver, locate } } as unknown as ExecutorDependencies['drivers'] }
  const { events, execution, prepared, endCheckout } = await startedExecution(job, changes)
  endCheckout(CHECKED_OUT)
  expect(await prepared).toMatchObject({ ok: true })
  isBroken = false
  expect(await execution.runAgent()).toEqual({ verdict: 'done' })
  expect(events).toEqual(['agent: started', 'agent: begin'])
  await execution.whenExited()
})
