/** Each tool against a host that writes down its requests: which routes it asks, and how much it answers. */
import { describe, expect, test } from '@jest/globals'
import { createToolCaller } from '../../../bin/cli/mcp/call-tool.ts'
import type { McpToolResult } from '../../../bin/cli/mcp/session.ts'
import { createClient } from '../../../client/client.ts'
import type { ClientConnection } from '../../../client/connection.ts'
import { REQUEST_LINES } from '../../../client/request-lines.ts'
import { MCP_RESULT_BYTES_MAX } from '../../../protocol/limits.ts'
import {
  MCP_GRANTS,
  type McpGrant,
  type McpTool,
  type McpToolName,
  mcpTools,
} from '../../../protocol/mcp-tools.ts'
import type { RouteName } from '../../../protocol/routes.ts'
import { fakeRun, fakeTicket } from '../../support/fake-host-api.ts'

const AT = '2026-03-01T08:30:00.000Z'
const LONG = 'ä'.repeat(60_000)
const runIdOf = (index: number): string => `run-${String(index).padStart(32, '0')}`
const RUN = { ...fakeRun(runIdOf(1), 'completed'), prUrl: 'https://code.example/api/pull/7' }
const RUNS = Array.from({ length: 300 }, (_, index) => fakeRun(runIdOf(300 - index), 'completed'))
const TICKETS = [...Array.from({ length: 44 }, (_, index) => `ENG-${index}`), 'a; true #1'].map((name) => ({
  ...fakeTicket(name),
  description: LONG,
}))
const event = (index: number) => ({
  runId: RUN.id,
  index,
  at: AT,
  type: 'log',
  stream: 'stdout',
  text: `line ${index} ${'x'.repeat(300)}`,
})
const EVENTS = Array.from({ length: 500 }, (_, index) => event(index))
const PATCH = Array.from({ length: 5_000 }, (_, line) => `+line ${line} "ü"`).join('\n')
const PULL = {
  repo: 'api',
  remote: 'acme/api',
  number: 7,
  url: RUN.prUrl,
  title: 'Greet',
  state: 'open',
  author: 'ann',
  baseBranch: 'main',
  headBranch: 'b',
  createdAt: AT,
  updatedAt: AT,
  body: LONG,
  draft: false,
  headSha: 'abc',
  additions: 1,
  deletions: 1,
  changedFiles: 2,
  conversation: {
    comments: Array.from({ length: 50 }, () => ({
      id: 'c',
      author: 'bo',
      body: LONG,
      createdAt: AT,
      url: '',
    })),
    reviews: [],
    threads: [],
  },
  files: ['a.ts', 'b.ts'].map((path) => ({
    path,
    status: 'modified',
    additions: 1,
    deletions: 0,
    patch: PATCH,
  })),
  commits: [],
  checks: [{ name: 'test', status: 'completed', conclusion: 'success', source: 'status' }],
}
const ANSWERS: Partial<Record<RouteName, unknown>> = {
  health: { ok: true, version: '1.0.0', sandboxProvider: 'bwrap' },
  readTrackerStatus: { state: 'connected' },
  readConfig: {
    policy: { paused: true },
    agent: { agentAApiKey: '***' },
    repos: { api: { remote: 'acme/api' } },
  },
  listWorkers: {
    workers: [
      { id: 'wk-1', name: 'atlas', state: 'active', connection: 'online', activeRuns: 0, enrolledAt: AT },
    ],
  },
  readAttention: { items: [{ id: 'x', kind: 'failed', message: LONG, since: AT }] },
  summarizeTickets: { total: TICKETS.length },
  readRun: { ...RUN, ticket: { ...RUN.ticket, description: LONG } },
  explainTicket: { run: RUN, gates: [{ id: 'tracker', status: 'pass', message: 'connected' }] },
  listPulls: { pulls: [PULL], errors: [] },
  readPull: PULL,
  createTicket: { ticket: RUN.ticket, run: RUN },
  mergePull: { merged: true, message: 'done' },
  commentPull: { ok: true },
}

interface AskedTool {
  readonly requests: readonly RouteName[]
  readonly bodies: readonly unknown[]
  readonly answer: McpToolResult
  readonly result: Readonly<Record<string, unknown>>
}

const lines = Object.entries(REQUEST_LINES) as [RouteName, string][]
const patterns = lines.map(([name, line]): [RouteName, RegExp] => [
  name,
  new RegExp(`^${line.replace(/:\w+/g, '[^/]+')}$`),
])
const routeOf = (request: string): RouteName =>
  patterns.find(([, pattern]) => pattern.test(request))?.[0] ?? 'readOpenApi'

function answerTo(route: RouteName, query: URLSearchParams, path: string): unknown {
  if (route === 'explainTicket') {
    const name = decodeURIComponent(path.split('/')[3] ?? '')
    const ticket = TICKETS.find(({ identifier }) => identifier === name)
    return { ...Object(ANSWERS.explainTicket), ...(ticket === undefined ? {} : { ticket }) }
  }
  const limit = Number(query.get('limit') ?? query.get('tail') ?? 1_000)
  if (route === 'listTickets') {
    const skip = Number(query.get('skip'))
    return TICKETS.slice(skip, skip + limit)
  }
  if (route === 'listRuns') {
    const before = query.get('before')
    const older = RUNS.filter(({ id }) => before === null || id < before)
    const ticket = query.get('ticket')
    if (ticket === null) return older.slice(0, limit)
    return ticket === RUN.ticket.identifier ? [RUN] : []
  }
  if (route !== 'readRunEvents') return ANSWERS[route] ?? RUN
  const [after, before] = [query.get('after'), query.get('before')]
  if (before !== null) return EVENTS.slice(Math.max(0, Number(before) - limit), Number(before))
  return after === null ? EVENTS.slice(-limit) : EVENTS.slice(Number(after) + 1, Number(after) + 1 + limit)
}

async function ask(
  name: McpToolName,
  input: object,
  grants: readonly McpGrant[] = MCP_GRANTS,
): Promise<AskedTool> {
  const requests: RouteName[] = []
  const bodies: unknown[] = []
  const connection: ClientConnection = {
    address: () => ({ url: 'http://host', token: 'planted-token' }),
    send: async ({ method, url, body }) => {
      const { pathname, searchParams } = new URL(url)
      const route = routeOf(`${method} ${pathname}`)
      requests.push(route)
      if (body !== undefined) bodies.push(JSON.parse(body))
      const text = JSON.stringify(answerTo(route, searchParams, pathname))
      return { status: 200, header: () => undefined, body: chunksOf(text) }
    },
    dial: (_, __, listener) => {
      requests.push('dashboardSocket')
      setImmediate(() => {
        listener.onOpen()
        listener.onText(JSON.stringify({ type: 'hello', runs: [RUN] }))
      })
      return { send: () => {}, backlog: () => 0, close: () => {} }
    },
  }
  const callTool = createToolCaller({
    connection,
    client: createClient(connection),
    present: () => ({ now: Date.parse(AT), offset: () => 0 }),
    grants: new Set(grants),
    onBug: (text) => {
      throw new Error(text)
    },
  })
  const call = { signal: new AbortController().signal, report: () => {} }
  const answer = await callTool(name, { ...input }, call)
  // Clients receive JSON, which has no field without a value.
  return { requests, bodies, answer, result: JSON.parse(JSON.stringify(answer.structuredContent ?? {})) }
}

async function* chunksOf(text: string): AsyncGenerator<Uint8Array> {
  yield Buffer.from(text)
}

/** Names are found by these. */
const LOOKUPS: readonly RouteName[] = ['listRuns', 'readRun', 'listPulls', 'listTickets', 'readConfig']

const INPUTS: { readonly [N in McpToolName]: object } = {
  status: {},
  attention: {},
  tickets_list: {},
  tickets_show: { ticket: 'ENG-3' },
  runs_list: {},
  runs_show: { run: RUN.id },
  runs_logs: { run: RUN.id },
  runs_wait: { run: RUN.id },
  explain: { name: 'ENG-3' },
  pulls_list: {},
  pulls_show: { pull: 'api#7' },
  pulls_diff: { pull: 'api#7' },
  pulls_checks: { pull: RUN.ticket.identifier },
  workers_list: {},
  costs: {},
  tickets_create: { title: 'Greet', repo: 'api' },
  tickets_start: { ticket: 'ENG-3', instructions: 'Be kind.' },
  runs_retry: { run: RUN.id },
  runs_followup: { run: RUN.id, instructions: 'Be kind.' },
  runs_cancel: { run: RUN.id },
  pulls_comment: { pull: 'api#7', body: 'Nice.' },
  pulls_merge: { pull: 'api#7', method: 'squash' },
}

test.each(Object.entries(INPUTS) as [McpToolName, object][])(
  '%s asks its own routes, and its result is small',
  async (name, input) => {
    const { requests, answer } = await ask(name, input)
    expect([name, answer.isError, answer.content[0]?.text]).toEqual([
      name,
      undefined,
      JSON.stringify(answer.structuredContent),
    ])
    const tool: McpTool = mcpTools[name]
    expect(requests).toContain(tool.routes[0])
    expect(requests.filter((route) => ![...tool.routes, ...LOOKUPS].includes(route))).toEqual([])
    expect(Buffer.byteLength(answer.content[0]?.text ?? '')).toBeLessThanOrEqual(MCP_RESULT_BYTES_MAX)
    expect(answer.content[0]?.text).not.toContain('planted-token')
  },
)

describe('a long result is read on', () => {
  test('runs, by the last one', async () => {
    const found: unknown[] = []
    let input: object | undefined = { limit: 70 }
    while (input !== undefined) {
      const { result }: AskedTool = await ask('runs_list', input)
      found.push(...(result.runs as { run: string }[]).map(({ run }) => run))
      input = result.readOn === undefined ? undefined : { limit: 70, ...Object(result.readOn) }
    }
    expect(found).toEqual(RUNS.map(({ id }) => id))
  })

  test('tickets, by their number', async () => {
    const first = await ask('tickets_list', {})
    expect(first.result).toMatchObject({ total: 45, readOn: { offset: 20 } })
    const last = await ask('tickets_list', { offset: 40 })
    expect(last.result.tickets).toHaveLength(5)
    expect(last.result.readOn).toBeUndefined()
  })

  test('a log, backwards from its end and forwards from its beginning', async () => {
    const indexes = ({ result }: AskedTool) =>
      (result.lines as string[]).map((line) => Number(/line (\d+)/.exec(line)?.[1]))
    const backwards: number[] = []
    let input: object | undefined = {}
    while (input !== undefined) {
      const page: AskedTool = await ask('runs_logs', { run: RUN.id, limit: 400, ...input })
      backwards.unshift(...indexes(page))
      input = page.result.earlier as object | undefined
    }
    expect(backwards).toEqual(EVENTS.map(({ index }) => index))
    const forwards: number[] = []
    for (
      let page = await ask('runs_logs', { run: RUN.id, after: -1, limit: 400 });
      indexes(page).length > 0;
    ) {
      forwards.push(...indexes(page))
      page = await ask('runs_logs', { run: RUN.id, limit: 400, ...Object(page.result.later) })
    }
    expect(forwards).toEqual(backwards)
  })

  test('a diff, by the place in its text', async () => {
    let [text, input]: [string, object | undefined] = ['', {}]
    while (input !== undefined) {
      const { result }: AskedTool = await ask('pulls_diff', { pull: 'api#7', path: 'b.ts', ...input })
      text += String(result.diff)
      input = result.readOn as object | undefined
    }
    expect(text).toBe(`b.ts  +1 -0\n${PATCH}\n`)
  })

  test('a ticket, by a command that a shell takes as it is', async () => {
    const { result } = await ask('tickets_show', { ticket: 'a; true #1' })
    expect(result.shortened).toMatch(/switchyard tickets show 'a; true #1' --json$/)
  })

  test('a record, by the command that prints it in full', async () => {
    const { result } = await ask('pulls_show', { pull: 'api#7' })
    expect(result.shortened).toEqual(expect.stringContaining('switchyard pulls show api 7 --json'))
    expect(result.body).toMatch(/… \(\d+ more characters\)$/)
    expect(result).toMatchObject({ number: 7, files: [{ path: 'a.ts' }, { path: 'b.ts' }] })
  })
})

test('what changes something is sent as it was said', async () => {
  expect((await ask('tickets_create', INPUTS.tickets_create)).bodies).toEqual([INPUTS.tickets_create])
  expect((await ask('runs_retry', INPUTS.runs_retry)).bodies).toEqual([])
  expect((await ask('runs_followup', INPUTS.runs_followup)).bodies).toEqual([{ instructions: 'Be kind.' }])
  expect((await ask('pulls_merge', INPUTS.pulls_merge)).bodies).toEqual([{ method: 'squash' }])
})

test('a comment has no effect at the code host besides its words', async () => {
  const { bodies } = await ask('pulls_comment', { pull: 'api#7', body: 'Fixes #3, says @ada <!-- x' })
  expect(bodies).toEqual([{ body: 'Fixes \u200b#3, says @\u200bada &lt;!-- x' }])
})

test('status has no setting but whether the host is paused', async () => {
  const { result } = await ask('status', {})
  expect(result.paused).toBe(true)
  expect(JSON.stringify(result)).not.toContain('***')
})

describe('a refusal is a result with a sentence', () => {
  const sentence = ({ answer }: AskedTool) => [answer.isError, answer.content[0]?.text]

  test.each<[McpToolName, readonly McpGrant[], string]>([
    ['tickets_create', [], '--write'],
    ['runs_cancel', ['merge'], '--write --merge'],
    ['pulls_merge', ['write'], '--write --merge'],
    ['runs_followup', [], '--write --instruct'],
    ['runs_followup', ['write'], '--write --instruct'],
  ])('for %s with %j, by the options that allow it, and nothing is asked', async (name, grants, options) => {
    const refused = await ask(name, INPUTS[name], grants)
    expect(sentence(refused)).toEqual([true, expect.stringMatching(new RegExp(`switchyard mcp ${options}$`))])
    expect(refused.requests).toEqual([])
  })

  test('for a merge that something speaks against, which only a person may make', async () => {
    const { checks } = PULL
    PULL.checks = [{ name: 'lint', status: 'completed', source: 'check-run', conclusion: 'failure' }]
    const refused = await ask('pulls_merge', INPUTS.pulls_merge)
    PULL.checks = checks
    expect(sentence(refused)).toEqual([
      true,
      'api#7 is not merged: check lint is red\nNext: switchyard pulls merge api 7 --anyway',
    ])
    expect(refused.requests).not.toContain('mergePull')
  })

  test('for wrong arguments, by their field', async () => {
    expect(sentence(await ask('runs_show', {}))).toEqual([true, 'runs_show: /run: is required'])
    expect(sentence(await ask('runs_wait', { run: 'x', timeoutSeconds: 1e9 }))).toEqual([
      true,
      expect.stringContaining('/timeoutSeconds'),
    ])
    expect(sentence(await ask('costs', { since: 'yesterday' }))).toEqual([
      true,
      expect.stringContaining('30m, 3d'),
    ])
  })

  test('for a name that fits several runs, with some of them', async () => {
    const refused = await ask('runs_show', { run: '00000000' })
    expect(sentence(refused)).toEqual([
      true,
      expect.stringMatching(/^00000000 may be \d+ \(ENG-1\) or .*\nNext: /),
    ])
  })

  test('for a pull request that is none', async () => {
    expect(sentence(await ask('pulls_diff', { pull: 'api#7', path: 'c.ts' }))).toEqual([
      true,
      expect.stringContaining('Next: '),
    ])
  })
})
