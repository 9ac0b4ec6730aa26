/** Tests of counting what an agent spends as its model requests pass through the worker. */
import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import type { PriceTable } from '../../../core/run/price.ts'
import type { AgentProvider } from '../../../protocol/agents/registry.ts'
import { MODEL_ANSWER_BYTES_MAX } from '../../../protocol/limits.ts'
import { createModelMeter } from '../../../worker/model-api/create-model-meter.ts'
import type { ModelMeter } from '../../../worker/model-api/meter.ts'

/** A dollar for each token of input, two for output, tenths for the cache. */
const RATES = { input: 1e6, output: 2e6, cacheRead: 1e5, cacheWrite: 2e5, source: 'test' }
const prices: PriceTable = { asOf: '2026-11-23', models: { 'model-x': RATES } }

const EVENTS = { 'content-type': 'text/event-stream; charset=utf-8' }
const JSON_BODY = { 'content-type': 'application/json' }

const events = (...values: readonly object[]): string =>
  values.map((value) => `event: e\ndata: ${JSON.stringify(value)}\n\n`).join('')

const anthropic = events(
  {
    type: 'message_start',
    message: {
      model: 'model-x',
      usage: {
        input_tokens: 10,
        cache_creation_input_tokens: 20,
        cache_read_input_tokens: 30,
        output_tokens: 1,
      },
    },
  },
  { type: 'content_block_delta', delta: { text: 'a text with "usage": {"output_tokens": 9999} in it' } },
  { type: 'message_delta', usage: { output_tokens: 5 } },
  { type: 'message_delta', usage: { output_tokens: 7 } },
  { type: 'message_stop' },
)
const openAi = events(
  { type: 'response.created', response: { model: 'model-x', usage: null } },
  { type: 'response.output_text.delta', delta: 'hello' },
  {
    type: 'response.completed',
    response: {
      model: 'model-x',
      output: [{ content: 'x'.repeat(10_000) }],
      usage: {
        input_tokens: 60,
        input_tokens_details: { cached_tokens: 30, cache_write_tokens: 20 },
        output_tokens: 7,
      },
    },
  },
)
const google = events(
  { candidates: [], usageMetadata: { promptTokenCount: 40 }, modelVersion: 'model-x' },
  {
    usageMetadata: {
      promptTokenCount: 36,
      toolUsePromptTokenCount: 4,
      cachedContentTokenCount: 30,
      candidatesTokenCount: 4,
      thoughtsTokenCount: 3,
    },
    modelVersion: 'model-x',
  },
)

interface Passing {
  readonly path: string
  readonly answer: string
  readonly headers?: Record<string, string>
  readonly status?: number
  readonly request?: string
  /** Where the answer is split into pieces. */
  readonly splits?: readonly number[]
}

function pass(
  meter: ModelMeter,
  { path, answer, headers = EVENTS, status = 200, request = '', splits = [] }: Passing,
): void {
  const bytes = Buffer.from(answer)
  const counted = meter.onRequest({ method: 'POST', path })
  counted.onRequestChunk(Buffer.from(request))
  counted.onResponseHead(status, headers)
  const borders = [
    0,
    ...[...splits].map((split) => split % (bytes.length + 1)).sort((a, b) => a - b),
    bytes.length,
  ]
  for (const [at, from] of borders.entries()) {
    const piece = Buffer.from(bytes.subarray(from, borders[at + 1]))
    if (piece.length > 0) counted.onChunk(piece)
    // The proxy reuses its buffers.
    piece.fill(0)
  }
  counted.onEnd()
}

const meterOf = (provider: AgentProvider, maxCostUsd?: number, onSpent?: (costUsd: number) => void) =>
  createModelMeter({
    provider,
    prices,
    limits: maxCostUsd === undefined ? {} : { maxCostUsd },
    ...(onSpent === undefined ? {} : { onSpent }),
  })

const row = { model: 'model-x', inputTokens: 10, outputTokens: 7, cacheReadTokens: 30, cacheWriteTokens: 20 }
const cases: [AgentProvider, Passing, object][] = [
  ['agentA', { path: '/v1/messages?beta=true', answer: anthropic }, { ...row, costUsd: 31 }],
  ['agentB', { path: '/v1/responses', answer: openAi }, { ...row, costUsd: 31 }],
  ['agentB', { path: '/backend-api/codex/responses', answer: openAi }, { ...row, costUsd: 31 }],
  [
    'agentC',
    { path: '/v1beta/models/model-x:streamGenerateContent?alt=sse', answer: google },
    { ...row, cacheWriteTokens: 0, costUsd: 27 },
  ],
]

describe.each(cases)('%s', (provider, passing, expected) => {
  test(`${passing.path}: the last figures of a stream count, wherever the stream is split`, () => {
    fc.assert(
      fc.property(fc.array(fc.nat(), { maxLength: 20 }), (splits) => {
        const meter = meterOf(provider)
        pass(meter, { ...passing, splits })
        expect(meter.rows()).toEqual([expected])
      }),
      { numRuns: 50 },
    )
  })

  test(`${passing.path}: garbage in the stream changes nothing`, () => {
    const meter = meterOf(provider)
    const garbage = 'data: {"usage\ndata: "usage"\ndata: [1,"usage"]\n: usage\n\u0000data: {"usage":1}\n'
    pass(meter, { ...passing, answer: `${garbage}data: null "usage"\n${passing.answer}${garbage}` })
    expect(meter.rows()).toMatchObject([expected])
  })

  test(`${passing.path}: a refused request costs nothing`, () => {
    const meter = meterOf(provider)
    pass(meter, { ...passing, status: 429 })
    expect(meter.rows()).toEqual([])
  })
})

test.each<[AgentProvider, string, object]>([
  ['agentA', '/v1/messages', { model: 'model-x', usage: { input_tokens: 3, output_tokens: 4 } }],
  ['agentB', '/v1/responses', { model: 'model-x', usage: { input_tokens: 3, output_tokens: 4 } }],
  ['agentB', '/v1/chat/completions', { model: 'model-x', usage: { prompt_tokens: 3, completion_tokens: 4 } }],
  [
    'agentC',
    '/v1beta/models/model-x:generateContent',
    { modelVersion: 'model-x', usageMetadata: { promptTokenCount: 3, candidatesTokenCount: 4 } },
  ],
  [
    'agentC',
    '/v1beta/models/model-x:streamGenerateContent',
    [
      { candidates: [] },
      { modelVersion: 'model-x', usageMetadata: { promptTokenCount: 3, candidatesTokenCount: 4 } },
    ] as object,
  ],
])('%s %s: an answer in one piece counts', (provider, path, value) => {
  const meter = meterOf(provider)
  pass(meter, { path, answer: JSON.stringify(value, undefined, 2), headers: JSON_BODY, splits: [5, 9] })
  expect(meter.rows()).toMatchObject([{ model: 'model-x', inputTokens: 3, outputTokens: 4, costUsd: 11 }])
})

test('a model without a price costs the dearest of its vendor, and shows its tokens', () => {
  const told: number[] = []
  const table = {
    ...prices,
    models: { 'claude-a': RATES, 'claude-b': { ...RATES, output: 9e6 }, 'gpt-a': { ...RATES, input: 9e6 } },
  }
  const meter = createModelMeter({
    provider: 'agentA',
    prices: table,
    limits: { maxCostUsd: 60 },
    onSpent: (costUsd) => told.push(costUsd),
  })
  const usage = { input_tokens: 3, output_tokens: 7 }
  for (const model of ['claude-next', 'other'])
    pass(meter, { path: '/v1/messages', answer: JSON.stringify({ model, usage }), headers: JSON_BODY })
  const tokens = { inputTokens: 3, outputTokens: 7, costUsd: 66 }
  expect(meter.rows()).toMatchObject([
    { model: 'claude-next', ...tokens },
    { model: 'other', ...tokens },
  ])
  expect(told).toEqual([66, 132])
  expect(meter.spent()).toMatch(/^the agent spent more/)
})

test('free routes and other methods count nothing', () => {
  const meter = meterOf('agentA')
  const answer = JSON.stringify({ input_tokens: 5, usage: { input_tokens: 5 } })
  pass(meter, { path: '/v1/messages/count_tokens', answer, headers: JSON_BODY })
  const listed = meter.onRequest({ method: 'GET', path: '/v1/messages' })
  listed.onResponseHead(200, JSON_BODY)
  listed.onChunk(Buffer.from(answer))
  listed.onEnd()
  expect(meter.rows()).toEqual([])
})

test('the budget is spent by the answer that exceeds it, and every change is told', () => {
  const told: number[] = []
  const meter = meterOf('agentA', 40, (costUsd) => told.push(costUsd))
  pass(meter, { path: '/v1/messages', answer: anthropic })
  expect(meter.spent()).toBeUndefined()
  pass(meter, { path: '/v1/messages', answer: anthropic })
  expect(meter.spent()).toBe('the agent spent more than agent.maxCostUsd allows: $62.0000 of $40')
  // Each answer tells its input, then its output so far.
  expect(told).toEqual([19, 27, 31, 50, 58, 62])
})

test('the budget is spent in the middle of an answer', () => {
  const meter = meterOf('agentA', 20)
  const counted = meter.onRequest({ method: 'POST', path: '/v1/messages' })
  counted.onResponseHead(200, EVENTS)
  const [start = '', ...rest] = anthropic.split('\n\n')
  counted.onChunk(Buffer.from(`${start}\n\n`))
  expect(meter.spent()).toBeUndefined()
  counted.onChunk(Buffer.from(`${rest.slice(0, 2).join('\n\n')}\n\n`))
  expect(meter.spent()).toMatch(/^the agent spent more/)
})

test('an answer that breaks off before its figures is estimated by its size', () => {
  const meter = meterOf('agentB')
  const [created = ''] = openAi.split('\n\n')
  pass(meter, {
    path: '/v1/responses',
    answer: `${created}\n\n${'x'.repeat(3_200)}`,
    request: 'y'.repeat(400),
  })
  const [{ inputTokens = 0, outputTokens = 0, model } = {}] = meter.rows()
  expect([model, inputTokens]).toEqual(['model-x', 100])
  expect(outputTokens).toBeGreaterThanOrEqual(100)
  expect(outputTokens).toBeLessThan(110)
  const named = meterOf('agentA')
  const [start = ''] = anthropic.split('\n\n')
  pass(named, { path: '/v1/messages', answer: `${start}\n\n${'x'.repeat(320)}`, request: 'y'.repeat(4_000) })
  expect(named.rows()).toMatchObject([{ inputTokens: 10, cacheReadTokens: 30 }])
  expect(named.rows()[0]?.outputTokens).toBeGreaterThan(10)
})

test('an answer in one piece beyond the limit is estimated, and not kept', () => {
  const meter = meterOf('agentC')
  const counted = meter.onRequest({ method: 'POST', path: '/v1beta/models/model-x:generateContent' })
  counted.onResponseHead(200, JSON_BODY)
  const piece = Buffer.alloc(1024 * 1024, 0x20)
  for (let sent = 0; sent <= MODEL_ANSWER_BYTES_MAX; sent += piece.length) counted.onChunk(piece)
  counted.onEnd()
  expect(meter.rows()).toMatchObject([{ model: 'unknown', inputTokens: 0 }])
  expect(meter.spent()).toBeUndefined()
})
