/** The model meter in an execution counts its cost, and ends the agent midway when the budget is spent. */
import { once } from 'node:events'
import { mkdirSync } from 'node:fs'
import { createServer, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { afterAll, beforeAll, beforeEach, expect, test } from '@jest/globals'
import { realClock } from '../../../../bin/process/clock.ts'
import type { Execution, ExecutionReport } from '../../../../core/daemon/ports.ts'
import { yes } from '../../../../core/result.ts'
import type { CostEntry } from '../../../../protocol/cost.ts'
import type { Job, JobLimits } from '../../../../protocol/frames.ts'
import type { AgentDriver } from '../../../../worker/agents/agent.ts'
import { openExecutor } from '../../../../worker/executor.ts'
import { DialedUpstream } from '../../../../worker/model-api/dialed-upstream.ts'
import type { ExecutorDependencies } from '../../../../worker/run/execution/executor-dependencies.ts'
import type { SandboxLauncher } from '../../../../worker/sandbox/driver.ts'
import { confirmedClock } from '../../../support/confirmed-clock.ts'
import { createRecordingLog } from '../../../support/recording-log.ts'
import { tempFolder } from '../../../support/temp-folder.ts'
import { until } from '../../../support/until.ts'

const MODEL = 'claude-sonnet-5-5'
/** An answer costs $0.0006: 100 tokens of input at $2 a million, and 40 of output at $10. */
const USAGE = { input_tokens: 100, output_tokens: 40 }
const ANSWER_USD = 0.0006
const tokens = { inputTokens: 100, outputTokens: 40, cacheReadTokens: 0, cacheWriteTokens: 0 }

const toEvent = (value: { readonly type: string }): string =>
  `event: ${value.type}\ndata: ${JSON.stringify(value)}\n\n`
const start = toEvent({
  type: 'message_start',
  message: { model: MODEL, usage: { ...USAGE, output_tokens: 1 } },
} as { type: string })
const end = toEvent({ type: 'message_delta', usage: USAGE } as { type: string })

let asked = 0
/** Answers after this many begin, and never end. */
let endingAnswers = Number.POSITIVE_INFINITY
const bodies: Record<string, unknown>[] = []
const vendor = createServer(async (incoming, response) => {
  const pieces: Buffer[] = []
  for await (const piece of incoming) pieces.push(piece)
  bodies.push(JSON.parse(Buffer.concat(pieces).toString()))
  asked += 1
  response.writeHead(200, { 'content-type': 'text/event-stream' }).write(start)
  if (asked <= endingAnswers) response.end(end)
})
const dialed = new DialedUpstream({})

beforeAll(async () => {
  vendor.listen(0, '127.0.0.1')
  await once(vendor, 'listening')
})
beforeEach(() => {
  asked = 0
  bodies.length = 0
  begun = 0
  endingAnswers = Number.POSITIVE_INFINITY
})
afterAll(async () => {
  await dialed.close()
  vendor.closeAllConnections()
  vendor.close()
})

/** The agent asks until it is ended, or this often. It hears the status of each answer. */
interface Conduct {
  readonly questions: number
  /** The cost that the agent states at its end. */
  readonly states?: CostEntry
  readonly isDeaf?: true
  readonly body?: object
}

function ask(socketPath: string, body: object): Promise<number> {
  return new Promise((resolve) => {
    const sent = request({ socketPath, method: 'POST', path: '/v1/messages', agent: false }, (response) => {
      response.once('data', () => {
        begun += 1
      })
      response.resume().on('close', () => resolve(response.statusCode ?? 0))
    })
    sent.on('error', () => resolve(0)).end(JSON.stringify(body))
  })
}

const statuses: number[] = []
/** Answers whose first bytes the agent has. */
let begun = 0

function launcherOf({
  questions,
  isDeaf,
  body = { model: MODEL, max_tokens: 60 },
}: Conduct): SandboxLauncher {
  return {
    launch: ({ mounts = [] }) => {
      const socket = mounts.find(({ from }) => from.endsWith('model-api.sock'))?.from
      let isOver = false
      let kill = () => {}
      const killed = new Promise<void>((resolve) => {
        kill = () => {
          isOver = true
          resolve()
        }
      })
      const work = async () => {
        for (let n = 0; n < questions && !isOver && socket !== undefined; n++)
          statuses.push(await ask(socket, body))
      }
      const ended = Promise.race([work(), killed]).then(() => ({ code: 0 }))
      const stdout = new Readable({ read() {} })
      void ended.then(() => stdout.push(null))
      return {
        stdout,
        stderr: Readable.from([]),
        interrupt: isDeaf === true ? () => {} : kill,
        kill,
        ended,
      }
    },
  }
}

const driverOf = ({ states }: Conduct): AgentDriver => ({
  provider: 'agentA',
  locate: async () => ({ is: 'found', program: '/usr/bin/agent', readOnlyPaths: [] }),
  probe: async () => ({ found: true }),
  buildCommand: () => ({ command: ['agent'], environment: {}, files: [], seeds: [], readOnlyPaths: [] }),
  createListener: () => ({
    onOutputLine: () => [],
    onErrorLine: () => [],
    onExit: () => ({
      verdict: 'done',
      summary: 'Mended.',
      events: [],
      ...(states === undefined ? {} : { cost: states }),
    }),
  }),
  readUsage: async () => [],
})

interface VendorSettings {
  readonly modelUse?: object
  readonly network?: string
}

const jobWith = (limits: JobLimits, { modelUse, network }: VendorSettings) =>
  ({
    kind: 'run',
    run: { id: 'run-1', ticket: { identifier: 'A-1', title: 'Mend', url: '', labels: [], description: '' } },
    repo: { key: 'a', remote: 'o/a', defaultBranch: 'main' },
    branch: 'switchyard/a-1',
    base: 'main',
    agent: { provider: 'agentA', instructions: '', memories: [] },
    credentials: {
      agent: { kind: 'api-key', value: 'sk-ant-api03-the-key-of-a-person' },
      ...(modelUse === undefined ? {} : { modelUse }),
    },
    ...(network === undefined
      ? {}
      : { sandbox: { network, allowedHosts: [], maxProcesses: 64, exposeCodehostToken: false } }),
    limits,
    retentionHours: 1,
  }) as unknown as Job

function dependenciesOf(conduct: Conduct, folder: string): ExecutorDependencies {
  return {
    folder,
    clock: realClock,
    retentionClock: confirmedClock(realClock),
    log: createRecordingLog(),
    uuid: () => 'a-session',
    launcher: launcherOf(conduct),
    userFor: () => ({ uid: 0, gid: 0 }),
    firstNumber: 0,
    isRoot: false,
    removeFolder: async () => {},
    gitSources: {
      checkOut: async () => yes({ base: 'a' }),
      collect: async () => yes(undefined),
      publish: async () => yes({ prUrl: 'https://code/1', prState: 'open' }),
    },
    codehostFor: () => yes({}),
    drivers: { agentA: driverOf(conduct) },
    modelUpstream: {
      send: (question: Parameters<typeof dialed.send>[0]) => {
        const { port } = vendor.address() as AddressInfo
        return dialed.send({ ...question, origin: `http://127.0.0.1:${port}` })
      },
      close: async () => {},
    },
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
  } as unknown as ExecutorDependencies
}

async function execute(
  conduct: Conduct,
  limits: JobLimits = {},
  meanwhile: (execution: Execution) => Promise<void> = async () => {},
  settings: VendorSettings = {},
) {
  const folder = tempFolder()
  for (const name of ['sandboxes', 'trash']) mkdirSync(join(folder, name), { recursive: true })
  statuses.length = 0
  const reports: ExecutionReport[] = []
  const executor = await openExecutor(dependenciesOf(conduct, folder))
  const order = { leaseId: 'ls-1', workerId: 'wk-1', job: jobWith(limits, settings) }
  const reporter = {
    report: (each: ExecutionReport) => void reports.push(each),
    waitForCapacity: async () => {},
  }
  const execution = executor.start(order as never, reporter, () => {})
  expect(await execution.prepare()).toMatchObject({ ok: true })
  const [worked] = await Promise.all([execution.runAgent(), meanwhile(execution)])
  const outcome = await execution.finish(worked)
  await execution.whenExited()
  await executor.close()
  const costs = reports.flatMap((each) =>
    each.is === 'event' && each.event.type === 'cost' ? [each.event] : [],
  )
  return { outcome, costs }
}

const counted = (answers: number) => ({
  label: 'run',
  provider: 'agentA',
  model: MODEL,
  inputTokens: 100 * answers,
  outputTokens: 40 * answers,
  costUsd: expect.closeTo(ANSWER_USD * answers, 9),
  estimated: true,
  source: 'estimated',
})

test('the budget ends an agent midway that says nothing of its costs', async () => {
  const { outcome, costs } = await execute({ questions: 50 }, { maxCostUsd: 0.001 })
  expect(outcome).toMatchObject({
    status: 'failed',
    error: expect.stringMatching(/agent\.maxCostUsd.*\$0\.0012 of \$0\.001/),
    costs: [counted(2)],
  })
  expect(costs).toHaveLength(1)
  expect(asked).toBe(2)
})

test('an agent that ignores its interruption gets no further answer from the model', async () => {
  const { outcome } = await execute({ questions: 5, isDeaf: true }, { maxCostUsd: 0.001 })
  expect(outcome).toMatchObject({ status: 'failed', error: expect.stringMatching(/agent\.maxCostUsd/) })
  expect([asked, statuses]).toEqual([2, [200, 200, 403, 403, 403]])
})

test('an agent that is killed before it states its costs has cost what passed, the last answer included', async () => {
  endingAnswers = 1
  const { outcome } = await execute({ questions: 3, isDeaf: true }, {}, async (execution) => {
    await until('the second answer has begun', () => begun === 2)
    execution.stop({ how: 'kill', reason: 'the lease is lost' })
  })
  expect(outcome.status).toBe('cancelled')
  // The first answer had 40 tokens. The end of the second was not seen, so all that it might have had count. Both named
  // their input.
  expect(outcome.costs).toMatchObject([{ inputTokens: 200, outputTokens: 100, source: 'estimated' }])
})

test('a run has one figure: the larger of what its agent states and what has passed', async () => {
  const states: CostEntry = {
    label: 'run',
    provider: 'agentA',
    model: MODEL,
    ...tokens,
    costUsd: 0.0007,
    estimated: false,
  }
  const honest = await execute({ questions: 1, states })
  expect(honest.outcome.costs).toEqual([{ ...states, source: 'reported' }])
  const wrong = await execute({ questions: 3, states })
  expect(wrong.outcome.costs).toMatchObject([counted(3)])
  expect(wrong.costs).toHaveLength(1)
})

test('the settings of the run reach its requests: models, tools of the vendor, prices', async () => {
  const search = { type: 'web_search_20250305', name: 'web_search' }
  const body = { model: 'claude-next', max_tokens: 60, tools: [search] }
  const modelUse = {
    serverTools: ['web_search'],
    models: ['claude-next'],
    prices: [{ model: MODEL, input: 1_000_000, output: 0 }],
  }
  const run = await execute({ questions: 1, body }, {}, undefined, { modelUse, network: 'open' })
  expect(run.outcome.costs).toMatchObject([{ model: MODEL, costUsd: 100 }])
  expect(bodies).toMatchObject([{ tools: [search] }])
  const usual = await execute({ questions: 1, body }, {}, undefined, { network: 'open' })
  expect([usual.outcome.costs, bodies[1]]).toMatchObject([
    [{ costUsd: ANSWER_USD }],
    { model: 'claude-next' },
  ])
  expect(bodies[1]).not.toHaveProperty('tools')
})

test('without a network there is none through the vendor either', async () => {
  const search = { type: 'web_search_20250305', name: 'web_search' }
  const body = { model: MODEL, max_tokens: 60, tools: [search] }
  await execute({ questions: 1, body }, {}, undefined, {
    modelUse: { serverTools: ['web_search'] },
    network: 'none',
  })
  expect(bodies).toHaveLength(1)
  expect(bodies[0]).not.toHaveProperty('tools')
})
