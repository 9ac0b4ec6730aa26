/** A session answers each message, right or wrong, line by line. */
import { PassThrough } from 'node:stream'
import { describe, expect, test } from '@jest/globals'
import { serveStdio } from '../../../bin/cli/mcp/serve-stdio.ts'
import { type CallTool, MCP_CALLS_MAX, McpSession } from '../../../bin/cli/mcp/session.ts'
import { listMcpTools } from '../../../protocol/mcp-tools.ts'

interface Opened {
  readonly session: McpSession
  readonly sent: Record<string, unknown>[]
  /** Sends one message, and returns what is sent in the same moment. */
  ask(message: unknown): unknown[]
}

const done: CallTool = async (name) => ({ content: [{ type: 'text', text: name }] })

function open(callTool: CallTool = done): Opened {
  const sent: Record<string, unknown>[] = []
  const session = new McpSession({
    tools: listMcpTools(new Set()),
    instructions: 'Be careful.',
    callTool,
    send: (message) => sent.push(JSON.parse(JSON.stringify(message))),
  })
  return {
    session,
    sent,
    ask: (message) => {
      const before = sent.length
      session.onLine(
        typeof message === 'string' ? message : JSON.stringify({ jsonrpc: '2.0', ...Object(message) }),
      )
      return sent.slice(before)
    },
  }
}

const hello = (protocolVersion = '2025-11-25') => ({
  id: 0,
  method: 'initialize',
  params: { protocolVersion, capabilities: {}, clientInfo: { name: 'test', version: '1' } },
})

function openInitialized(callTool?: CallTool): Opened {
  const opened = open(callTool)
  opened.ask(hello())
  opened.sent.length = 0
  return opened
}

const call = (id: unknown, name: unknown, more: object = {}) => ({
  id,
  method: 'tools/call',
  params: { name, arguments: {}, ...more },
})
const settled = () => new Promise((resolve) => setImmediate(resolve))
const failed = (id: unknown, code: number) =>
  expect.objectContaining({ id, error: expect.objectContaining({ code }) })

describe('initialize', () => {
  test.each([
    ['2025-11-25', '2025-11-25'],
    ['2025-06-18', '2025-06-18'],
    ['2025-03-26', '2025-03-26'],
    ['2024-11-05', '2024-11-05'],
    ['2024-10-07', '2024-10-07'],
    ['1999-01-01', '2025-11-25'],
    // This revision has no `initialize`.
    ['2026-07-28', '2025-11-25'],
  ])('asked for %s, the session speaks %s', (asked, spoken) => {
    expect(open().ask(hello(asked))).toEqual([
      {
        jsonrpc: '2.0',
        id: 0,
        result: {
          protocolVersion: spoken,
          capabilities: { tools: {} },
          serverInfo: expect.objectContaining({ name: 'switchyard' }),
          instructions: 'Be careful.',
        },
      },
    ])
  })

  test('without a revision, or a second time, it is refused', () => {
    const { ask } = open()
    expect(ask({ id: 0, method: 'initialize', params: {} })).toEqual([failed(0, -32602)])
    ask(hello())
    expect(ask({ ...hello(), id: 'again' })).toEqual([failed('again', -32600)])
  })

  test('comes before everything but ping', () => {
    const { ask } = open()
    expect(ask({ id: 1, method: 'tools/list' })).toEqual([failed(1, -32600)])
    expect(ask(call(2, 'status'))).toEqual([failed(2, -32600)])
    expect(ask({ id: 3, method: 'ping' })).toEqual([{ jsonrpc: '2.0', id: 3, result: {} }])
  })
})

describe('a message that is none', () => {
  test.each([
    ['no JSON', 'what?', null, -32700],
    ['half of a message', '{"jsonrpc":"2.0","id":1,', null, -32700],
    ['a batch', '[{"jsonrpc":"2.0","id":1,"method":"ping"}]', null, -32600],
    ['a number', '7', null, -32600],
    ['null', 'null', null, -32600],
    ['no jsonrpc', '{"id":1,"method":"ping"}', 1, -32600],
    ['another jsonrpc', '{"jsonrpc":"1.0","id":1,"method":"ping"}', 1, -32600],
    ['no method', '{"jsonrpc":"2.0","id":1}', 1, -32600],
    ['a method that is a number', '{"jsonrpc":"2.0","id":1,"method":7}', 1, -32600],
    ['a fraction as its id', '{"jsonrpc":"2.0","id":1.5,"method":"ping"}', null, -32600],
    ['null as its id', '{"jsonrpc":"2.0","id":null,"method":"ping"}', null, -32600],
    ['a list as params', '{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}', 1, -32602],
    ['a prototype key', '{"jsonrpc":"2.0","id":1,"method":"ping","params":{"__proto__":{}}}', 1, -32600],
    [
      'too deep',
      `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":${'['.repeat(40)}${']'.repeat(40)}}}`,
      1,
      -32600,
    ],
  ])('%s', (_, line, id, code) => {
    expect(openInitialized().ask(line)).toEqual([failed(id, code)])
  })

  test('a line that is too long has one answer', () => {
    const { session, sent } = openInitialized()
    session.onTooLong(1_000)
    expect(sent).toEqual([failed(null, -32600)])
  })
})

describe('a request', () => {
  test('of an unknown method is refused, and an unknown notification or an answer is ignored', () => {
    const { ask } = openInitialized()
    expect(ask({ id: 1, method: 'resources/list' })).toEqual([failed(1, -32601)])
    expect(ask({ id: 2, method: 'constructor' })).toEqual([failed(2, -32601)])
    expect(ask({ method: 'notifications/initialized' })).toEqual([])
    expect(ask({ method: 'notifications/roots/list_changed' })).toEqual([])
    expect(ask({ id: 3, result: {} })).toEqual([])
  })

  test('lists all tools in one page', () => {
    const { ask } = openInitialized()
    expect(ask({ id: 1, method: 'tools/list', params: {} })).toEqual([
      { jsonrpc: '2.0', id: 1, result: { tools: listMcpTools(new Set()) } },
    ])
    expect(ask({ id: 2, method: 'tools/list', params: { cursor: 'x' } })).toEqual([failed(2, -32602)])
  })

  test.each([
    ['no name', { id: 1, method: 'tools/call', params: {} }],
    ['an unknown name', call(1, 'rm_rf')],
    ['a name of every object', call(1, 'toString')],
    ['arguments that are a list', call(1, 'status', { arguments: [] })],
  ])('a call with %s is refused', (_, message) => {
    expect(openInitialized().ask(message)).toEqual([failed(1, -32602)])
  })
})

describe('calls', () => {
  test('are answered when they are done, with the id that they had', async () => {
    const { ask, sent } = openInitialized()
    expect(ask(call('a', 'status'))).toEqual([])
    expect(ask({ ...call(7, 'costs'), params: { name: 'costs' } })).toEqual([])
    await settled()
    expect(sent).toEqual([
      { jsonrpc: '2.0', id: 'a', result: { content: [{ type: 'text', text: 'status' }] } },
      { jsonrpc: '2.0', id: 7, result: { content: [{ type: 'text', text: 'costs' }] } },
    ])
  })

  test('are limited, and no id is used twice at once', async () => {
    const ends: (() => void)[] = []
    const { ask, sent } = openInitialized(
      () => new Promise((resolve) => ends.push(() => resolve({ content: [] }))),
    )
    for (let id = 0; id < MCP_CALLS_MAX; id++) expect(ask(call(id, 'status'))).toEqual([])
    expect(ask(call(0, 'status'))).toEqual([failed(0, -32600)])
    expect(ask(call('more', 'status'))).toMatchObject([{ id: 'more', result: { isError: true } }])
    ends[0]?.()
    await settled()
    expect(sent.at(-1)).toMatchObject({ id: 0, result: { content: [] } })
    expect(ask(call('more', 'status'))).toEqual([])
  })

  test('that the client cancels are aborted and get no answer', async () => {
    const { ask, sent } = openInitialized(
      (_, __, { signal }) =>
        new Promise((resolve) => signal.addEventListener('abort', () => resolve({ content: [] }))),
    )
    ask(call(1, 'runs_wait'))
    expect(ask({ method: 'notifications/cancelled', params: { requestId: 2 } })).toEqual([])
    expect(ask({ method: 'notifications/cancelled', params: { requestId: 1, reason: 'enough' } })).toEqual([])
    await settled()
    expect(sent).toEqual([])
    ask({ id: 1, method: 'ping' })
    expect(sent).toEqual([{ jsonrpc: '2.0', id: 1, result: {} }])
  })

  test('report progress while they run, to a client that wants it', async () => {
    const { ask, sent } = openInitialized(async (_, __, { report }) => {
      report(1, 45, 'ENG-1 running')
      setImmediate(() => report(2, 45, 'too late'))
      return { content: [] }
    })
    ask(call(1, 'runs_wait', { _meta: { progressToken: 'p' } }))
    ask(call(2, 'runs_wait'))
    await settled()
    await settled()
    expect(sent.map(({ method, params, id }) => params ?? method ?? id)).toEqual([
      { progressToken: 'p', progress: 1, total: 45, message: 'ENG-1 running' },
      1,
      2,
    ])
  })

  test('are answered before the session is closed', async () => {
    const { ask, sent, session } = openInitialized(
      (_, __, { signal }) =>
        new Promise((resolve) =>
          signal.addEventListener('abort', () => resolve({ content: [], isError: true })),
        ),
    )
    ask(call(1, 'runs_wait'))
    await session.close()
    expect(sent).toEqual([{ jsonrpc: '2.0', id: 1, result: { content: [], isError: true } }])
  })
})

describe('requests that name their revision themselves', () => {
  const meta = (more: object = {}) => ({
    _meta: {
      'io.modelcontextprotocol/protocolVersion': '2026-07-28',
      'io.modelcontextprotocol/clientCapabilities': {},
      ...more,
    },
  })

  test('need no initialize, and results are complete', async () => {
    const { ask, sent } = open()
    expect(ask({ id: 1, method: 'server/discover', params: meta() })).toEqual([
      {
        jsonrpc: '2.0',
        id: 1,
        result: {
          resultType: 'complete',
          supportedVersions: expect.arrayContaining(['2026-07-28', '2025-11-25']),
          capabilities: { tools: {} },
          instructions: 'Be careful.',
          ttlMs: expect.any(Number),
          cacheScope: 'private',
          _meta: { 'io.modelcontextprotocol/serverInfo': expect.objectContaining({ name: 'switchyard' }) },
        },
      },
    ])
    expect(ask({ id: 2, method: 'tools/list', params: meta() })).toMatchObject([
      { id: 2, result: { resultType: 'complete', cacheScope: 'private' } },
    ])
    ask({ ...call(3, 'status'), params: { name: 'status', ...meta() } })
    await settled()
    expect(sent.at(-1)).toMatchObject({
      id: 3,
      result: { resultType: 'complete', content: [{ text: 'status' }] },
    })
    expect(Object(sent.at(-1)?.result).ttlMs).toBeUndefined()
  })

  test('the question for revisions is answered without one', () => {
    expect(open().ask({ id: 1, method: 'server/discover' })).toMatchObject([
      { id: 1, result: { supportedVersions: expect.arrayContaining(['2026-07-28']) } },
    ])
  })

  test('an unknown revision, or none of the capabilities, is refused', () => {
    const { ask } = open()
    const unknown = meta({ 'io.modelcontextprotocol/protocolVersion': '2031-01-01' })
    expect(ask({ id: 1, method: 'tools/list', params: unknown })).toMatchObject([
      {
        id: 1,
        error: {
          code: -32022,
          data: { supported: expect.arrayContaining(['2026-07-28']), requested: '2031-01-01' },
        },
      },
    ])
    const bare = meta({ 'io.modelcontextprotocol/clientCapabilities': undefined })
    expect(ask({ id: 2, method: 'tools/list', params: bare })).toEqual([failed(2, -32602)])
    expect(ask({ id: 3, method: 'ping', params: meta() })).toEqual([failed(3, -32601)])
  })
})

test('while the client reads no answers, no further message is read', async () => {
  const [input, output] = [new PassThrough(), new PassThrough({ highWaterMark: 1_000 })]
  let answered = 0
  const serving = serveStdio({ input, output, stopped: new Promise(() => {}) }, (send) => {
    const { session } = open()
    return Object.assign(session, {
      onLine: () => {
        answered += 1
        send({ answer: 'x'.repeat(100) })
      },
    })
  })
  input.end('{}\n'.repeat(500))
  for (let turn = 0; turn < 20; turn++) await settled()
  expect(answered).toBeLessThan(50)
  output.resume()
  await serving
  expect(answered).toBe(500)
})
