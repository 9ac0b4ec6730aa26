/** Routes of runs, memories and workers over a real socket, with every condition of each route. */
import { expect, test } from '@jest/globals'
import { fetch } from 'undici'
import { no, yes } from '../../../core/result.ts'
import { RUN_INSTRUCTIONS_BYTES_MAX, TICKET_TITLE_CHARS_MAX } from '../../../protocol/limits.ts'
import type { DrainHolder } from '../../../protocol/worker.ts'
import { demandText } from '../../../transport/routes/workers.ts'
import {
  CREDENTIAL,
  FAKE_GATE,
  fakeMemory,
  fakeRun,
  fakeWorker,
  JOIN_KEY,
  WORKER_ID,
} from '../../support/fake-host-api.ts'
import { openTestServer, type TestServer, TOKEN } from '../../support/test-resources.ts'

interface RouteReply {
  readonly status: number
  readonly link: string | null
  // Tests compare the whole body, or some of its fields.
  readonly body: unknown
}

async function open() {
  const server = await openTestServer()
  const ask = async (line: string, body?: unknown, token = TOKEN, base = server.url): Promise<RouteReply> => {
    const [method = 'GET', path = ''] = line.split(' ')
    const reply = await fetch(base + path, {
      method,
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    return { status: reply.status, link: reply.headers.get('link'), body: await reply.json() }
  }
  return { ...server, ask }
}

type Ask = Awaited<ReturnType<typeof open>>['ask']

const idsOf = (body: unknown): unknown[] => (Array.isArray(body) ? body.map((item) => item.id) : [])

async function statuses(ask: Ask, lines: readonly (readonly [string, unknown?])[]): Promise<string[]> {
  const answered: string[] = []
  for (const [line, body] of lines) {
    const { status, body: answer } = await ask(line, body)
    if (status >= 400) expect(Object.keys(Object(answer))).toEqual(['error'])
    answered.push(`${line} ${status}`)
  }
  return answered
}

function withRuns({ hostApi }: TestServer, count = 5): void {
  for (let i = 1; i <= count; i++)
    hostApi.runsById.set(`run-${i}`, fakeRun(`run-${i}`, i % 2 === 0 ? 'completed' : 'queued', `ENG-${i}`))
}

test('a ticket has at most one active run', async () => {
  const { ask } = await open()
  expect(await ask('GET /api/tickets')).toMatchObject({ status: 200, body: [{ identifier: 'ENG-1' }, {}] })
  expect(
    await statuses(ask, [
      ['POST /api/tickets/ENG-1/run'],
      ['POST /api/tickets/ENG-1/run'],
      ['POST /api/tickets/t-ENG-1/run'],
      ['POST /api/tickets/ENG-9/run'],
    ]),
  ).toEqual([
    'POST /api/tickets/ENG-1/run 200',
    'POST /api/tickets/ENG-1/run 409',
    'POST /api/tickets/t-ENG-1/run 409',
    'POST /api/tickets/ENG-9/run 404',
  ])
})

test('runs come newest first, all of them without a limit', async () => {
  const server = await open()
  withRuns(server)
  const all = await server.ask('GET /api/runs')
  expect(idsOf(all.body)).toEqual(['run-5', 'run-4', 'run-3', 'run-2', 'run-1'])
  expect(all.link).toBeNull()
  expect(server.hostApi.runQueries).toEqual([{ limit: 50 }])
})

test('a Link header names the next page, and keeps the query', async () => {
  const server = await open()
  withRuns(server, 9)
  const path = '/api/runs?status=queued&limit=2&status=completed'
  const first = await server.ask(`GET ${path}`)
  expect(first.link).toBe('</api/runs?limit=2&status=queued&status=completed&before=run-8>; rel="next"')
  const seen = idsOf(first.body)
  let link = first.link
  while (link !== null) {
    const next = await server.ask(`GET ${link.slice(1, link.indexOf('>'))}`)
    seen.push(...idsOf(next.body))
    link = next.link
  }
  expect(seen).toEqual(Array.from({ length: 9 }, (_, i) => `run-${9 - i}`))
  expect(server.hostApi.runQueries.at(-1)).toEqual({
    limit: 2,
    status: ['queued', 'completed'],
    before: 'run-2',
  })
})

test('a path without parameters names each that it does not take', async () => {
  const { ask } = await open()
  const error = expect.stringMatching(/^\/query\/verbose: /)
  for (const line of [
    'GET /api/health?verbose',
    'GET /metrics?verbose=1',
    'POST /api/runs/run-1/cancel?verbose=1',
  ])
    expect([line, await ask(line)]).toEqual([line, { status: 400, link: null, body: { error } }])
})

test('a ticket with special characters is encoded in the Link header', async () => {
  const { ask, hostApi } = await open()
  const name = 'ä & "b"\r\n<x>;'
  for (const id of ['run-1', 'run-2']) hostApi.runsById.set(id, fakeRun(id, 'queued', name))
  const { link } = await ask(`GET /api/runs?limit=1&ticket=${encodeURIComponent(name)}`)
  expect(link).toBe('</api/runs?limit=1&ticket=%C3%A4+%26+%22b%22%0D%0A%3Cx%3E%3B&before=run-2>; rel="next"')
})

test('a list is refused with the field that is wrong', async () => {
  const { ask } = await open()
  expect(await ask('GET /api/runs?limit=0')).toMatchObject({
    status: 400,
    body: { error: '/query/limit: must be at least 1, not 0' },
  })
  expect(
    await statuses(ask, [
      ['GET /api/runs?limit=1001'],
      ['GET /api/runs?status=busy'],
      ['GET /api/runs?before=run-77'],
      ['GET /api/runs/run-1/events?after=x'],
    ]),
  ).toEqual([
    'GET /api/runs?limit=1001 400',
    'GET /api/runs?status=busy 400',
    'GET /api/runs?before=run-77 400',
    'GET /api/runs/run-1/events?after=x 400',
  ])
})

test('a run, its events and its placement are returned', async () => {
  const server = await open()
  withRuns(server)
  const at = '2026-03-01T08:30:00.000Z'
  server.hostApi.eventsById.set(
    'run-1',
    [0, 1, 2].map((index) => ({
      runId: 'run-1',
      index,
      at,
      type: 'log',
      stream: 'stdout',
      text: `${index}`,
    })),
  )
  expect(await server.ask('GET /api/runs/run-1')).toMatchObject({ status: 200, body: { id: 'run-1' } })
  const indexes = async (query: string) => {
    const { body } = await server.ask(`GET /api/runs/run-1/events${query}`)
    return Array.isArray(body) ? body.map(({ index }) => index) : body
  }
  expect(await indexes('')).toEqual([0, 1, 2])
  expect(await indexes('?after=0')).toEqual([1, 2])
  expect(await indexes('?after=-1&limit=1')).toEqual([0])
  expect(await server.ask('GET /api/runs/run-1/placement')).toMatchObject({
    status: 200,
    body: { runId: 'run-1', workers: [{ reason: 'busy' }] },
  })
  expect(
    await statuses(server.ask, [
      ['GET /api/runs/run-9'],
      ['GET /api/runs/run-9/events'],
      ['GET /api/runs/run-9/placement'],
    ]),
  ).toEqual([
    'GET /api/runs/run-9 404',
    'GET /api/runs/run-9/events 404',
    'GET /api/runs/run-9/placement 404',
  ])
})

test('a created ticket is answered with 201 and its run', async () => {
  const { ask } = await open()
  expect(await ask('POST /api/tickets', { title: 'Mend the lamp' })).toMatchObject({
    status: 201,
    body: { ticket: { title: 'Mend the lamp' }, run: { status: 'queued' } },
  })
  const later = await ask('POST /api/tickets', { title: 'Mend the lamp', start: false })
  expect(Object.keys(Object(later.body))).toEqual(['ticket'])
  for (const [title, error] of [
    ['two\nlines', /^\/title: must be one line/],
    ['tab\there', /^\/title: must be one line/],
    ['line\u2028separator', /^\/title: must be one line/],
    ['\u0007', /^\/title: must be one line/],
    ['  ', /^\/title: must be one line/],
    ['', /^\/title: /],
    ['x'.repeat(TICKET_TITLE_CHARS_MAX + 1), /^\/title: /],
  ] as const)
    expect(await ask('POST /api/tickets', { title })).toMatchObject({
      status: 400,
      body: { error: expect.stringMatching(error) },
    })
  expect(
    await statuses(ask, [['POST /api/tickets'], ['POST /api/tickets', { title: 'x', labels: ['a\n'] }]]),
  ).toEqual(['POST /api/tickets 400', 'POST /api/tickets 400'])
})

test('starts and retries take an optional body', async () => {
  const server = await open()
  withRuns(server, 3)
  const options = { instructions: 'Use SQLite.', provider: 'agentB', model: 'large', effort: 'high' }
  expect(
    await statuses(server.ask, [
      ['POST /api/runs/run-2/retry'],
      ['POST /api/runs/run-2/retry', {}],
      ['POST /api/runs/run-2/cancel'],
      ['POST /api/tickets/ENG-2/run', options],
      ['POST /api/runs/run-2/followup', { instructions: 'x'.repeat(RUN_INSTRUCTIONS_BYTES_MAX + 1) }],
      ['POST /api/runs/run-2/retry', { provider: 'agentZ' }],
      ['POST /api/runs/run-2/retry', { words: 'x' }],
      ['POST /api/runs/run-2/retry', null],
    ]),
  ).toEqual([
    'POST /api/runs/run-2/retry 200',
    'POST /api/runs/run-2/retry 409',
    'POST /api/runs/run-2/cancel 200',
    'POST /api/tickets/ENG-2/run 200',
    'POST /api/runs/run-2/followup 400',
    'POST /api/runs/run-2/retry 400',
    'POST /api/runs/run-2/retry 400',
    'POST /api/runs/run-2/retry 400',
  ])
  expect(server.hostApi.runOptions).toEqual([undefined, {}, options])
})

test('pages of events name the pages beside them, and contradicting parameters are refused', async () => {
  const server = await open()
  withRuns(server)
  const at = '2026-03-01T08:30:00.000Z'
  server.hostApi.eventsById.set(
    'run-1',
    [0, 1, 2, 3, 4].map((index) => ({ runId: 'run-1', index, at, type: 'gap', from: 0, to: 0 })),
  )
  const page = async (query: string) => {
    const { status, link, body } = await server.ask(`GET /api/runs/run-1/events${query}`)
    return [status, Array.isArray(body) ? body.map(({ index }) => index) : body, link]
  }
  const path = '/api/runs/run-1/events'
  expect(await page('')).toEqual([200, [0, 1, 2, 3, 4], null])
  expect(await page('?tail=2')).toEqual([200, [3, 4], `<${path}?before=3&limit=2>; rel="prev"`])
  expect(await page('?before=3&limit=2')).toEqual([
    200,
    [1, 2],
    `<${path}?before=1&limit=2>; rel="prev", <${path}?after=2&limit=2>; rel="next"`,
  ])
  expect(await page('?before=1&limit=2')).toEqual([200, [0], `<${path}?after=0&limit=2>; rel="next"`])
  const errors = await Promise.all(
    [
      'tail=0',
      'tail=1001',
      'before=-1',
      'before=x',
      'tail=1&limit=1',
      'tail=1&before=1',
      'after=1&before=1',
    ].map((query) => page(`?${query}`)),
  )
  expect(errors.map(([status, body]) => `${status} ${JSON.stringify(body).split(':')[1]}`)).toEqual([
    '400 "/query/tail',
    '400 "/query/tail',
    '400 "/query/before',
    '400 "/query/before',
    '400 "/query/limit',
    '400 "/query/tail',
    '400 "/query/before',
  ])
})

test('the list of what needs a person is returned', async () => {
  const { ask } = await open()
  expect(await ask('GET /api/attention')).toMatchObject({ status: 200, body: { items: [] } })
})

test('a ticket and a run are explained', async () => {
  const server = await open()
  withRuns(server)
  expect(await server.ask('GET /api/runs/run-1/explain')).toMatchObject({
    status: 200,
    body: { ticket: { identifier: 'ENG-1' }, run: { id: 'run-1' }, gates: [FAKE_GATE] },
  })
  expect(await server.ask('GET /api/tickets/ENG-1/explain')).toMatchObject({
    status: 200,
    body: { ticket: { identifier: 'ENG-1' }, gates: [FAKE_GATE] },
  })
  const unknown = ['GET /api/runs/run-9/explain', 'GET /api/tickets/ENG-9/explain']
  expect(
    await statuses(
      server.ask,
      unknown.map((line) => [line]),
    ),
  ).toEqual(unknown.map((line) => `${line} 404`))
})

test('cancel, retry and discard return the run or a refusal', async () => {
  const server = await open()
  withRuns(server)
  expect(await server.ask('POST /api/runs/run-1/cancel')).toMatchObject({ body: { status: 'cancelled' } })
  expect(await server.ask('POST /api/runs/run-2/cancel')).toMatchObject({ body: { status: 'completed' } })
  expect(await server.ask('POST /api/runs/run-1/retry')).toMatchObject({ body: { status: 'queued' } })
  expect(
    await statuses(server.ask, [
      ['POST /api/runs/run-1/retry'],
      ['POST /api/runs/run-1/discard'],
      ['POST /api/runs/run-2/discard'],
      ['POST /api/runs/run-9/cancel'],
      ['POST /api/runs/run-9/retry'],
      ['POST /api/runs/run-9/discard'],
    ]),
  ).toEqual([
    'POST /api/runs/run-1/retry 409',
    'POST /api/runs/run-1/discard 409',
    'POST /api/runs/run-2/discard 200',
    'POST /api/runs/run-9/cancel 404',
    'POST /api/runs/run-9/retry 404',
    'POST /api/runs/run-9/discard 404',
  ])
})

test('memories are listed by repository (with a slash in its name), and deleted singly or all at once', async () => {
  const { ask, hostApi } = await open()
  hostApi.memoriesByRepo.set('acme/lamps', [fakeMemory('m-1'), fakeMemory('m-2')])
  expect(await ask('GET /api/memories')).toMatchObject({
    body: { repos: { 'acme/lamps': [{ id: 'm-1' }, {}] } },
  })
  const forget = 'POST /api/memories/acme%2Flamps/forget'
  expect(await ask(forget, { id: 'm-1' })).toMatchObject({
    body: { repos: { 'acme/lamps': [{ id: 'm-2' }] } },
  })
  expect(await ask(forget, { id: 'm-1' })).toMatchObject({ status: 404 })
  expect(await ask(forget, { id: '' })).toMatchObject({
    status: 400,
    body: { error: '/id: must not be empty' },
  })
  expect(await ask('POST /api/memories/acme%2Flamps/clear')).toEqual({
    status: 200,
    link: null,
    body: { repos: {} },
  })
  expect(await ask('POST /api/memories/acme%2Flamps/clear')).toMatchObject({ status: 404 })
  hostApi.clearMemories = async () => no('failed', 'the deletion could not be written')
  expect(await ask('POST /api/memories/x/clear')).toMatchObject({ status: 500 })
})

test('workers are listed, renamed, drained, enabled and revoked', async () => {
  const { ask, hostApi } = await open()
  const worker = `/api/workers/${WORKER_ID}`
  hostApi.workersById.set('wk-local', { ...fakeWorker('wk-local'), local: true })
  const workerAfter = async (line: string, body?: unknown) => {
    const { body: fleet } = await ask(line, body)
    return Object(fleet).workers[0]
  }
  expect(await workerAfter('GET /api/workers')).toEqual(fakeWorker(WORKER_ID))
  expect(await workerAfter(`POST ${worker}/rename`, { name: ' cellar ' })).toMatchObject({ name: 'cellar' })
  expect(await workerAfter(`POST ${worker}/drain`)).toMatchObject({ state: 'draining' })
  expect(await workerAfter(`POST ${worker}/enable`)).toMatchObject({ state: 'active' })
  expect(
    await statuses(ask, [
      [`POST ${worker}/rename`, { name: '  ' }],
      [`POST ${worker}/rename`, {}],
      ['POST /api/workers/wk-local/rename', { name: 'x' }],
      ['DELETE /api/workers/wk-local'],
      [`DELETE ${worker}`],
      [`DELETE ${worker}`],
      [`POST ${worker}/rename`, { name: 'x' }],
      [`POST ${worker}/drain`],
      [`POST ${worker}/enable`],
    ]),
  ).toEqual([
    `POST ${worker}/rename 400`,
    `POST ${worker}/rename 400`,
    'POST /api/workers/wk-local/rename 400',
    'DELETE /api/workers/wk-local 400',
    `DELETE ${worker} 200`,
    `DELETE ${worker} 404`,
    `POST ${worker}/rename 404`,
    `POST ${worker}/drain 404`,
    `POST ${worker}/enable 404`,
  ])
})

test('a missing launch token and an outdated one have refusals of their own', async () => {
  const { url } = await open()
  const refusalOf = async (headers: Record<string, string>, path = '/api/config') => {
    const reply = await fetch(`${url}${path}`, { headers })
    const { error } = (await reply.json()) as { error: string }
    return [reply.status, reply.headers.get('www-authenticate'), error]
  }
  const missing = [401, 'Bearer', expect.stringMatching(/^the launch token is missing/)]
  const outdated = [
    401,
    'Bearer error="invalid_token"',
    expect.stringMatching(/^this is not the launch token/),
  ]
  expect(await refusalOf({})).toEqual(missing)
  expect(await refusalOf({ authorization: `Basic ${TOKEN}` })).toEqual(missing)
  expect(await refusalOf({}, `/api/config?token=${TOKEN}`)).toEqual(missing)
  expect(await refusalOf({}, '/ws')).toEqual(missing)
  expect(await refusalOf({ authorization: 'Bearer of-an-earlier-start' })).toEqual(outdated)
  expect(await refusalOf({}, '/ws?token=of-an-earlier-start')).toEqual(outdated)
})

test('a pairing token is issued with the launch token', async () => {
  const { ask } = await open()
  const token = await ask('POST /api/workers/pairing-tokens')
  expect(token).toMatchObject({ status: 200, body: { token: 'wp-test' } })
  expect((await ask('POST /api/workers/pairing-tokens', undefined, CREDENTIAL)).status).toBe(401)
})

test('demand is answered to the worker itself, on both listeners, with any encoding of the query', async () => {
  const { ask, url, fleetPort } = await open()
  for (const base of [url, `http://127.0.0.1:${fleetPort}`]) {
    const asking = (query: string, secret = CREDENTIAL) =>
      ask(`GET /api/worker/demand${query}`, undefined, secret, base)
    const answer = await asking(`?workerId=${WORKER_ID}`)
    expect(answer).toMatchObject({ status: 200, body: { queuedRuns: 1, worker: { id: WORKER_ID } } })
    for (const query of [
      `?workerId=${WORKER_ID.replace('-', '%2D')}`,
      `?&workerId=${WORKER_ID}`,
      `?worker%49d=${WORKER_ID}`,
    ])
      expect(await asking(query)).toEqual(answer)
    expect(await asking(`?workerId=${WORKER_ID}&x`)).toEqual({
      status: 400,
      link: null,
      body: { error: expect.stringMatching(/^\/query\/x: /) },
    })
    for (const [query, secret] of [
      [''],
      ['?'],
      ['?workerId='],
      ['?workerId=wk-x'],
      ['?workerid=wk-0123456789abcdef'],
      [`?workerId=${WORKER_ID}&workerId=${WORKER_ID}`],
      [`?workerId=${WORKER_ID}`, 'wc-wrong'],
      [`?workerId=${WORKER_ID}`, TOKEN],
      [`?workerId=${'x'.repeat(300)}`],
    ])
      expect([query, await asking(query ?? '', secret)]).toEqual([
        query,
        { status: 403, link: null, body: { error: expect.stringContaining('workerId') } },
      ])
  }
})

test('a join key reads the demand of the whole fleet on both listeners, and changes no worker', async () => {
  const { ask, url, fleetPort } = await open()
  for (const base of [url, `http://127.0.0.1:${fleetPort}`]) {
    const answer = await ask('GET /api/worker/demand', undefined, JOIN_KEY, base)
    expect(answer).toMatchObject({
      status: 200,
      body: { queuedRuns: 1, activeRuns: 2, connectedWorkers: 0, spareCapacity: 0 },
    })
    expect(answer.body).not.toHaveProperty('worker')
    for (const [line, secret] of [
      ['GET /api/worker/demand', `${JOIN_KEY}x`],
      [`GET /api/worker/demand?workerId=${WORKER_ID}`, JOIN_KEY],
      ['GET /api/worker/demand?workerId=', JOIN_KEY],
      ['POST /api/worker/state?state=draining', JOIN_KEY],
    ] as const)
      expect(await ask(line, undefined, secret, base)).toMatchObject({ status: 403 })
  }
})

test('a join key is created, listed and deleted', async () => {
  const { ask } = await open()
  expect(await ask('POST /api/workers/join-keys', { name: 'fleet', ephemeral: true })).toMatchObject({
    status: 200,
    body: { id: 'jk-test', name: 'fleet', ephemeral: true, key: JOIN_KEY },
  })
  expect(await ask('POST /api/workers/join-keys', { name: 'x'.repeat(61) })).toMatchObject({ status: 400 })
  expect(await ask('GET /api/workers/join-keys')).toMatchObject({
    status: 200,
    body: { joinKeys: [{ id: 'jk-test' }] },
  })
  expect(await ask('DELETE /api/workers/join-keys/jk-test?workers=1')).toMatchObject({ body: { ok: true } })
  expect(await ask('DELETE /api/workers/join-keys/jk-test?workers=2')).toMatchObject({ status: 400 })
  expect(await ask('DELETE /api/workers/join-keys/jk-other')).toMatchObject({ status: 404 })
})

test('the handwritten demand text equals JSON.stringify', () => {
  const counts = { activeRuns: 1, attachSessions: 2 }
  const worker = { id: WORKER_ID, connected: true, state: 'active', ...counts } as const
  const demand = {
    queuedRuns: 100_000,
    wanted: 99_999,
    activeRuns: 64,
    connectedWorkers: 3,
    spareCapacity: 0,
    worker,
  }
  expect(demandText(demand)).toBe(JSON.stringify(demand))
  const { worker: _, ...fleet } = demand
  expect(demandText(fleet)).toBe(JSON.stringify(fleet))
  const drainedBy: DrainHolder[] = ['operator', 'supervisor']
  const drained = { state: 'draining', drainedBy } as const
  const odd = {
    ...demand,
    worker: { id: 'a"\\\n', connected: false, ...drained, ...counts, awaitedRuns: 3, promisedRuns: 2 },
  }
  expect(demandText(odd)).toBe(JSON.stringify(odd))
  const foreign = { ...demand, worker: { ...worker, id: 'wörker ’☃ 𝄞' } }
  expect(demandText(foreign)).toMatch(/^[ -~]*$/)
  expect(JSON.parse(demandText(foreign))).toEqual(foreign)
})

test('a worker drains itself, and only itself', async () => {
  const { ask, hostApi, fleetPort } = await open()
  hostApi.workersById.set('wk-other', fakeWorker('wk-other'))
  const base = `http://127.0.0.1:${fleetPort}`
  const drain = (query: string) => ask(`POST /api/worker/state?${query}`, undefined, CREDENTIAL, base)
  expect(await drain(`workerId=${WORKER_ID}&state=draining`)).toMatchObject({
    status: 200,
    body: { worker: { state: 'draining' } },
  })
  expect(hostApi.workersById.get('wk-other')?.state).toBe('active')
  expect((await drain('workerId=wk-other&state=draining')).status).toBe(403)
  for (const [query, refused] of [
    ['state=asleep', 'state'],
    ['state=active&by=operator', 'by'],
  ])
    expect(await drain(`workerId=${WORKER_ID}&${query}`)).toMatchObject({
      status: 400,
      body: { error: expect.stringMatching(`^/query/${refused}: must be`) },
    })
})

test('a worker that was revoked between two requests is refused', async () => {
  const { ask, hostApi } = await open()
  hostApi.workersById.clear()
  expect((await ask(`GET /api/worker/demand?workerId=${WORKER_ID}`, undefined, CREDENTIAL)).status).toBe(403)
})

test('a follow-up is requested by its run, and refused with the reason', async () => {
  const { ask, hostApi } = await open()
  hostApi.answers.set('followUpRun', yes(fakeRun('run-1', 'queued', 'ENG-1')))
  expect(await ask('POST /api/runs/run-1/followup')).toMatchObject({
    status: 200,
    body: { status: 'queued' },
  })
  expect(hostApi.providerCalls).toEqual([{ name: 'followUpRun', args: ['run-1'] }])
  for (const [kind, status] of [
    ['unknown', 404],
    ['conflict', 409],
    ['invalid', 400],
    ['unavailable', 503],
  ] as const) {
    hostApi.answers.set('followUpRun', no(kind, 'not now'))
    expect(await ask('POST /api/runs/run-1/followup')).toMatchObject({ status, body: { error: 'not now' } })
  }
})

test('the tracker callback shows a page for any query, without a token', async () => {
  const { url } = await open()
  const long = 'x'.repeat(1_500)
  for (const query of ['', `state=${long}&code=${long}`, `state=s&error=${long}&error_description=${long}`]) {
    const reply = await fetch(`${url}/api/connect/tracker/callback?${query}`)
    expect([reply.status, reply.headers.get('content-type')]).toEqual([400, 'text/html; charset=utf-8'])
  }
})
