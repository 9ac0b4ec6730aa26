/** Tests of counting what an agent spends as its model requests pass through the worker. */
import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import type { PriceTable } from '../../../core/run/price.ts'
import type { AgentProvider } from '../../../protocol/agents/registry.ts'
import { MODEL_ANSWER_BYTES_MAX } from '../../../worker/model-api/answer-usage.ts'
import { createModelMeter } from '../../../worker/model-api/create-model-meter.ts'
import type { MeteredRequest, ModelMeter, RequestEnd, RequestMeter } from '../../../worker/model-api/meter.ts'

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
  readonly end?: RequestEnd
}

const STAYS = new AbortController().signal

async function begin(meter: ModelMeter, request: Partial<MeteredRequest>): Promise<RequestMeter> {
  const begun = await meter.begin({ method: 'POST', path: '/v1/messages', bodyBytes: 2, ...request }, STAYS)
  if (!begun.ok) throw new Error(begun.refusal.message)
  return begun.value
}

async function pass(
  meter: ModelMeter,
  { path, answer, headers = EVENTS, status = 200, request = '', splits = [], end = 'complete' }: Passing,
): Promise<void> {
  const bytes = Buffer.from(answer)
  const counted = await begin(meter, { path, bodyBytes: request.length })
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
  counted.onEnd(status === 200 ? end : 'refused')
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
  test(`${passing.path}: the last figures of a stream count, wherever the stream is split`, async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.nat(), { maxLength: 20 }), async (splits) => {
        const meter = meterOf(provider)
        await pass(meter, { ...passing, splits })
        expect(meter.rows()).toEqual([expected])
      }),
      { numRuns: 50 },
    )
  })

  test(`${passing.path}: garbage in the stream changes nothing`, async () => {
    const meter = meterOf(provider)
    const garbage = 'data: {"usage\ndata: "usage"\ndata: [1,"usage"]\n: usage\n\u0000data: {"usage":1}\n'
    await pass(meter, { ...passing, answer: `${garbage}data: null "usage"\n${passing.answer}${garbage}` })
    expect(meter.rows()).toMatchObject([expected])
  })

  test(`${passing.path}: a refused request costs nothing`, async () => {
    const meter = meterOf(provider)
    await pass(meter, { ...passing, status: 429 })
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
])('%s %s: an answer in one piece counts', async (provider, path, value) => {
  const meter = meterOf(provider)
  await pass(meter, { path, answer: JSON.stringify(value, undefined, 2), headers: JSON_BODY, splits: [5, 9] })
  expect(meter.rows()).toMatchObject([{ model: 'model-x', inputTokens: 3, outputTokens: 4, costUsd: 11 }])
})

test('a model without a price costs the dearest of its vendor, and shows its tokens', async () => {
  const reported: number[] = []
  const table = {
    ...prices,
    models: { 'claude-a': RATES, 'claude-b': { ...RATES, output: 9e6 }, 'gpt-a': { ...RATES, input: 9e6 } },
  }
  const meter = createModelMeter({
    provider: 'agentA',
    prices: table,
    limits: {},
    onSpent: (costUsd) => reported.push(costUsd),
  })
  const usage = { input_tokens: 3, output_tokens: 7 }
  for (const model of ['claude-next', 'other'])
    await pass(meter, { path: '/v1/messages', answer: JSON.stringify({ model, usage }), headers: JSON_BODY })
  const tokens = { inputTokens: 3, outputTokens: 7, costUsd: 66 }
  expect(meter.rows()).toMatchObject([
    { model: 'claude-next', ...tokens },
    { model: 'other', ...tokens },
  ])
  expect(reported).toEqual([66, 132])
})

test('free routes and other methods count nothing', async () => {
  const meter = meterOf('agentA')
  const answer = JSON.stringify({ input_tokens: 5, usage: { input_tokens: 5 } })
  await pass(meter, { path: '/v1/messages/count_tokens', answer, headers: JSON_BODY })
  const listed = await begin(meter, { method: 'GET' })
  listed.onResponseHead(200, JSON_BODY)
  listed.onChunk(Buffer.from(answer))
  listed.onEnd('complete')
  expect(meter.rows()).toEqual([])
})

/** A body whose answer costs at most `usd` dollars. */
const upTo = (usd: number): Partial<MeteredRequest> => ({
  body: { model: 'model-x', max_tokens: usd / 2 },
  bodyBytes: 0,
})

describe('a budget', () => {
  test('is spent by the answer that reaches it, and each sum is told', async () => {
    const reported: number[] = []
    const exhausted: string[] = []
    const meter = createModelMeter({
      provider: 'agentA',
      prices,
      limits: { maxCostUsd: 62 },
      onSpent: (costUsd) => reported.push(costUsd),
      onExhausted: (reason) => exhausted.push(reason),
    })
    await pass(meter, { path: '/v1/messages', answer: anthropic })
    await pass(meter, { path: '/v1/messages', answer: anthropic })
    expect(reported).toEqual([31, 62])
    const sentence = 'the agent has spent what agent.maxCostUsd allows: $62.0000 of $62'
    expect(await meter.begin({ method: 'POST', path: '/v1/messages', bodyBytes: 0 }, STAYS)).toMatchObject({
      ok: false,
      refusal: { message: sentence },
    })
    expect(exhausted).toEqual([sentence])
  })

  test('is reserved before a request leaves, and what does not fit waits', async () => {
    const meter = meterOf('agentA', 100)
    const [first, second] = [await begin(meter, upTo(40)), await begin(meter, upTo(40))]
    const beyond = await begin(meter, upTo(40))
    let hasBegun = false
    const waiting = begin(meter, upTo(40)).then((counted) => {
      hasBegun = true
      return counted
    })
    second.onEnd('broken')
    beyond.onEnd('refused')
    await waiting
    expect(meter.rows()).toMatchObject([{ costUsd: 40, outputTokens: 20 }])
    first.onEnd('broken')
    expect(hasBegun).toBe(true)
  })

  test('ends the run when the last of the requests under way has settled', async () => {
    const [reported, exhausted]: [number[], string[]] = [[], []]
    const meter = createModelMeter({
      provider: 'agentA',
      prices,
      limits: { maxCostUsd: 31 },
      onSpent: (costUsd) => reported.push(costUsd),
      onExhausted: (reason) => exhausted.push(reason),
    })
    const last = await begin(meter, upTo(2))
    await pass(meter, { path: '/v1/messages', answer: anthropic })
    const waits = meter.begin({ method: 'POST', path: '/v1/messages', bodyBytes: 0, ...upTo(2) }, STAYS)
    await new Promise(setImmediate)
    expect([reported, exhausted]).toEqual([[], []])
    last.onEnd('refused')
    expect(await waits).toMatchObject({ ok: false })
    expect([reported, exhausted]).toEqual([[31], [expect.stringMatching(/has spent/)]])
  })

  test('lets what is free go at once', async () => {
    const exhausted: string[] = []
    const meter = createModelMeter({
      ...{ provider: 'agentA', prices, limits: { maxCostUsd: 30 } },
      onExhausted: (reason) => exhausted.push(reason),
    })
    await pass(meter, { path: '/v1/messages', answer: anthropic })
    const counted = await begin(meter, { path: '/v1/messages/count_tokens', bodyBytes: 0 })
    expect([counted.isBilled, exhausted]).toEqual([false, []])
  })

  test('lets go whoever has hung up', async () => {
    const meter = meterOf('agentA', 10)
    const only = await begin(meter, upTo(50))
    const [gone, later] = [new AbortController(), new AbortController()]
    const request = { method: 'POST', path: '/v1/messages', bodyBytes: 0, ...upTo(5) }
    const [left, waits] = [meter.begin(request, gone.signal), meter.begin(request, later.signal)]
    gone.abort()
    expect(await left).toMatchObject({ ok: false })
    only.onEnd('unsent')
    expect(await waits).toMatchObject({ ok: true })
    expect(meter.rows()).toEqual([])
  })

  test('is never passed by more than one request, whatever is asked and however it ends', async () => {
    const step = fc.record({
      usd: fc.integer({ min: 1, max: 30 }),
      share: fc.double({ min: 0, max: 1, noNaN: true }),
    })
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 30 }), fc.array(fc.nat()), async (steps, order) => {
        const meter = meterOf('agentA', 60)
        const running: { usd: number; share: number; counted: RequestMeter }[] = []
        let billedUsd = 0
        const finish = (at: number) => {
          const [ended] = running.splice(at % Math.max(1, running.length), 1)
          if (ended === undefined) return
          const tokens = Math.floor((ended.usd / 2) * ended.share)
          billedUsd += tokens * 2
          const usage = { input_tokens: 0, output_tokens: tokens }
          ended.counted.onResponseHead(200, JSON_BODY)
          ended.counted.onChunk(Buffer.from(JSON.stringify({ model: 'model-x', usage })))
          ended.counted.onEnd('complete')
        }
        for (const { usd, share } of steps)
          void meter
            .begin({ method: 'POST', path: '/v1/messages', ...upTo(usd), bodyBytes: 0 }, STAYS)
            .then((begun) => {
              if (begun.ok) running.push({ usd, share, counted: begun.value })
            })
        for (const at of [...order, ...steps.map(() => 0)]) {
          await new Promise(setImmediate)
          const inFlight = running.reduce((sum, { usd }) => sum + usd, 0)
          const dearest = Math.max(0, ...steps.map(({ usd }) => usd))
          expect(billedUsd + inFlight).toBeLessThanOrEqual(60 + dearest)
          finish(at)
        }
        const shown = meter.rows().reduce((sum, { costUsd = 0 }) => sum + costUsd, 0)
        expect(shown).toBeCloseTo(billedUsd, 6)
      }),
      { numRuns: 50 },
    )
  })
})

test.each<[RequestEnd, boolean]>([
  ['unsent', false],
  ['refused', false],
  ['broken', true],
])('a request whose answer never came, %s: counts its worst case is %s', async (end, counts) => {
  const meter = meterOf('agentB')
  const counted = await begin(meter, {
    path: '/v1/responses',
    body: { model: 'model-x', max_output_tokens: 50 },
    bodyBytes: 400,
  })
  counted.onEnd(end)
  expect(meter.rows()).toEqual(
    counts
      ? [
          {
            model: 'model-x',
            inputTokens: 200,
            outputTokens: 50,
            cacheReadTokens: 0,
            cacheWriteTokens: 0,
            costUsd: 300,
          },
        ]
      : [],
  )
})

test('an answer that breaks off before its last figures counts its worst case', async () => {
  const body = { model: 'model-x', max_tokens: 50 }
  const meter = meterOf('agentA')
  const counted = await begin(meter, { body, bodyBytes: 40 })
  counted.onResponseHead(200, EVENTS)
  counted.onChunk(Buffer.from(anthropic.slice(0, anthropic.indexOf('event: e', 10))))
  expect(meter.rows()).toMatchObject([{ inputTokens: 10, outputTokens: 1 }])
  counted.onEnd('broken')
  expect(meter.rows()).toMatchObject([{ inputTokens: 20, cacheWriteTokens: 0, outputTokens: 50 }])
  const whole = meterOf('agentA')
  await pass(whole, { path: '/v1/messages', answer: anthropic, end: 'broken' })
  expect(whole.rows()).toMatchObject([{ inputTokens: 10, outputTokens: 7 }])
})

test('an answer that breaks off never costs less than what its vendor has named', async () => {
  const meter = meterOf('agentA')
  const counted = await begin(meter, { body: { model: 'model-x', max_tokens: 1 }, bodyBytes: 2 })
  counted.onResponseHead(200, EVENTS)
  counted.onChunk(Buffer.from(anthropic.slice(0, anthropic.indexOf('event: e', 10))))
  counted.onEnd('broken')
  expect(meter.rows()).toMatchObject([{ ...row, outputTokens: 1, costUsd: 19 }])
})

test.each<[AgentProvider, object, number]>([
  ['agentA', { messages: [{ content: [{ type: 'image', source: { data: 'AA' } }] }] }, 3_300],
  ['agentA', { messages: [{ content: [{ type: 'document', source: { data: 'AA' } }] }] }, 100_000],
  [
    'agentB',
    { input: [{ content: [{ type: 'input_image', image_url: 'data:image/png;base64,AA' }] }] },
    3_300,
  ],
  ['agentC', { contents: [{ parts: [{ inlineData: { mimeType: 'image/png', data: 'AA' } }] }] }, 3_300],
  ['agentC', { contents: [{ parts: [{ inlineData: { mimeType: 'video/mp4', data: 'AA' } }] }] }, 100_000],
])('%s: short media count what they show: %j', async (provider, content, inputTokens) => {
  const meter = meterOf(provider)
  const path = {
    agentA: '/v1/messages',
    agentB: '/v1/responses',
    agentC: '/v1/models/model-x:generateContent',
  }
  const counted = await begin(meter, {
    ...{ path: path[provider], body: { model: 'model-x', ...content }, bodyBytes: 0 },
  })
  counted.onEnd('broken')
  expect(meter.rows()).toMatchObject([{ inputTokens }])
})

test('a whole answer without figures is estimated by its size', async () => {
  const meter = meterOf('agentB')
  const [created = ''] = openAi.split('\n\n')
  await pass(meter, {
    path: '/v1/responses',
    answer: `${created}\n\n${'x'.repeat(3_200)}`,
    request: 'y'.repeat(400),
  })
  const [{ inputTokens = 0, outputTokens = 0, model } = {}] = meter.rows()
  expect([model, inputTokens]).toEqual(['model-x', 100])
  expect(outputTokens).toBeGreaterThanOrEqual(100)
  expect(outputTokens).toBeLessThan(110)
})

test('an answer in one piece beyond the limit is estimated, and not kept', async () => {
  const meter = meterOf('agentC')
  const counted = await begin(meter, { path: '/v1beta/models/model-x:generateContent', bodyBytes: 0 })
  counted.onResponseHead(200, JSON_BODY)
  const piece = Buffer.alloc(1024 * 1024, 0x20)
  for (let sent = 0; sent <= MODEL_ANSWER_BYTES_MAX; sent += piece.length) counted.onChunk(piece)
  counted.onEnd('complete')
  expect(meter.rows()).toMatchObject([{ model: 'model-x', inputTokens: 0 }])
})
