/** All runs of a host over a real socket: a long list is read and sent in batches, in order and with its filters. */
import { expect, test } from '@jest/globals'
import { fetch } from 'undici'
import { uuidv7Hex } from '../../../core/ids.ts'
import { yes } from '../../../core/result.ts'
import { RUNS_SKIPPED_MAX } from '../../../protocol/limits.ts'
import type { Run } from '../../../protocol/run.ts'
import { startTurnMeter } from '../../support/cpu-time.ts'
import { fakeRun, fakeTicket } from '../../support/fake-host-api.ts'
import { openTestServer, type TestServer, TOKEN } from '../../support/test-resources.ts'

const idOf = (number: number): string => `run-${String(number).padStart(6, '0')}`

/** Every second run is completed, and every third is of ENG-3. */
function addRuns({ hostApi }: TestServer, count: number): string[] {
  const numbers = Array.from({ length: count }, (_, at) => count - at)
  for (const number of numbers) {
    const ticket = number % 3 === 0 ? 'ENG-3' : 'ENG-1'
    const status = number % 2 === 0 ? 'completed' : 'failed'
    hostApi.runsById.set(idOf(number), fakeRun(idOf(number), status, ticket))
  }
  return numbers.map(idOf)
}

const ask = ({ url }: TestServer, query: string) =>
  fetch(`${url}/api/runs${query}`, { headers: { authorization: `Bearer ${TOKEN}` } })

async function list(server: TestServer, query = '') {
  const reply = await ask(server, query)
  // The route answers with runs; tests compare their fields.
  const runs = (await reply.json()) as Run[]
  return { reply, runs, ids: runs.map(({ id }) => id) }
}

test('without a limit every run comes, newest first, in one array', async () => {
  const server = await openTestServer()
  const ids = addRuns(server, 950)
  const { reply, ...listed } = await list(server)
  expect([reply.status, reply.headers.get('content-type')]).toEqual([200, 'application/json'])
  expect(reply.headers.get('link')).toBeNull()
  expect(listed.ids).toEqual(ids)
  expect(listed.runs[0]).toEqual(server.hostApi.runsById.get(idOf(950)))
  expect(server.hostApi.runQueries).toEqual([
    { limit: 50 },
    ...Array.from({ length: 18 }, (_, at) => ({ limit: 50, before: idOf(901 - 50 * at) })),
  ])
})

test.each([50, 100])('without a limit %i runs come once each', async (count) => {
  const server = await openTestServer()
  const ids = addRuns(server, count)
  expect((await list(server)).ids).toEqual(ids)
})

test('without a limit the filters hold on every page', async () => {
  const server = await openTestServer()
  addRuns(server, 3_000)
  const { runs, ids } = await list(server, `?status=completed&ticket=ENG-3&before=${idOf(2_700)}`)
  expect(ids).toEqual(Array.from({ length: 449 }, (_, at) => idOf(2_694 - at * 6)))
  for (const run of runs) expect(run).toMatchObject({ status: 'completed', ticket: { identifier: 'ENG-3' } })
  expect(server.hostApi.runQueries).toHaveLength(9)
})

/** Runs of two days: each third has failed, and the cost grows from the first to the last. */
function addDays(server: TestServer, count: number): Run[] {
  addRuns(server, count)
  const runs = [...server.hostApi.runsById.values()].reverse()
  return runs.map((run, at) => {
    const costTotals = { inputTokens: 1, outputTokens: 1, cacheReadTokens: 0, cacheWriteTokens: 0 }
    const changed: Run = {
      ...run,
      createdAt: new Date(Date.UTC(2026, 10, 20) + (at * 48 * 3_600_000) / count).toISOString(),
      ticket: { ...run.ticket, title: `Toast ${at + 1}`, repo: at % 2 === 0 ? 'api' : 'web' },
      sandbox: { workerName: at % 4 === 0 ? 'wren' : 'kestrel' },
      costTotals: { ...costTotals, byModel: [], estimated: false, costUsd: at },
      ...((at + 1) % 300 === 0 ? { finishedAt: '2026-11-21T23:00:00.000Z' } : {}),
      ...((at + 1) % 200 === 0 ? { prState: 'draft' as const } : {}),
      ...(run.status === 'failed' ? { error: `Cannot read /srv/${at}/x/y of ENG-${at}` } : {}),
    }
    server.hostApi.runsById.set(run.id, changed)
    return changed
  })
}

test.each([
  ['q=toast+120&repo=web', [120]],
  ['q=TOAST+ENG-3+999', [999]],
  ['q=cannot+read&repo=web&limit=3', []],
  ['repo=web&worker=wren', []],
  ['repo=api&worker=wren&limit=3', [997, 993, 989]],
  ['agent=agentC&limit=3', []],
  ['agent=agentA&limit=2', [1_000, 999]],
  ['since=2026-11-21T23:54:00.000Z&status=failed', [999]],
  ['until=2026-11-20T00:06:00.000Z', [3, 2, 1]],
  ['since=2026-11-20T00:03:00.000Z&until=2026-11-20T00:06:00.000Z&limit=9', [3]],
  ['endedSince=2026-11-21T23:00:00.000Z', [900, 600, 300]],
  ['prState=open&prState=draft&limit=2', [1_000, 800]],
  ['sort=oldest&limit=3', [1, 2, 3]],
  ['sort=cost&limit=3&skip=2', [998, 997, 996]],
  ['sort=cost&limit=2&repo=web&until=2026-11-21T00:00:00.000Z', [500, 498]],
])('the host finds what is asked: %s', async (query, expected) => {
  const server = await openTestServer()
  addDays(server, 1_000)
  expect((await list(server, `?${query}`)).ids).toEqual(expected.map(idOf))
})

test('pages of a search and of a sorted list lead on to every run, once', async () => {
  const server = await openTestServer()
  addDays(server, 300)
  for (const query of ['repo=api&limit=40', 'sort=cost&limit=40&repo=api', 'q=toast&repo=api&limit=150']) {
    const seen: string[] = []
    for (let next: string | undefined = `?${query}`; next !== undefined; ) {
      const { reply, ids } = await list(server, next)
      seen.push(...ids)
      next = /<\/api\/runs(\?[^>]+)>; rel="next"/.exec(reply.headers.get('link') ?? '')?.[1]
    }
    expect([query, seen.length, new Set(seen).size]).toEqual([query, 150, 150])
  }
})

test('the page behind the last sorted one that may be asked for is refused, and not taken for the end', async () => {
  const server = await openTestServer()
  const runs = Array.from({ length: RUNS_SKIPPED_MAX + 30 }, (_, at) => fakeRun(idOf(at), 'completed'))
  server.hostApi.runs = () => yes({ runs, more: false })
  const linkOf = async (skip: number) =>
    (await ask(server, `?sort=oldest&limit=10&skip=${skip}`)).headers.get('link')
  expect(await linkOf(RUNS_SKIPPED_MAX - 10)).toContain(`skip=${RUNS_SKIPPED_MAX}`)
  expect(await linkOf(RUNS_SKIPPED_MAX)).toContain(`skip=${RUNS_SKIPPED_MAX + 10}`)
  const refused = await ask(server, `?sort=oldest&limit=10&skip=${RUNS_SKIPPED_MAX + 10}`)
  expect([refused.status, await refused.text()]).toEqual([400, expect.stringContaining('/query/skip')])
})

test('a sorted page makes texts of its own runs only', async () => {
  const server = await openTestServer()
  addDays(server, 300)
  let texts = 0
  for (const run of server.hostApi.runsById.values())
    Object.defineProperty(run, 'toJSON', {
      value: () => {
        texts += 1
        return { id: run.id }
      },
    })
  expect((await list(server, '?sort=oldest&limit=120&skip=40')).ids).toEqual(
    Array.from({ length: 120 }, (_, at) => idOf(at + 41)),
  )
  expect(texts).toBe(120)
})

test('a search ends at ids from before its time, whatever the clock of a run said', async () => {
  const server = await openTestServer()
  const begin = Date.UTC(2026, 10, 20)
  const isoAt = (minute: number) => new Date(begin + minute * 60_000).toISOString()
  const ids = Array.from({ length: 400 }, (_, minute) => {
    const id = `run-${uuidv7Hex(begin + minute * 60_000, Buffer.alloc(10))}`
    server.hostApi.runsById.set(id, { ...fakeRun(id, 'completed'), createdAt: isoAt(minute) })
    return id
  })
  // The fiftieth from the end is the last of the first batch.
  const id = ids[350] ?? ''
  server.hostApi.runsById.set(id, { ...fakeRun(id, 'completed'), createdAt: isoAt(-3 * 24 * 60) })
  const expected = ids.filter((_, minute) => minute >= 300 && minute !== 350).reverse()
  expect((await list(server, `?since=${isoAt(300)}`)).ids).toEqual(expected)
  expect(server.hostApi.runQueries).toHaveLength(3)
})

test('a sort without an end, and a page of no sort, are refused', async () => {
  const server = await openTestServer()
  const replies = [await ask(server, '?sort=cost'), await ask(server, '?skip=3&limit=2')]
  expect(replies.map(({ status }) => status)).toEqual([400, 400])
})

test('a summary counts what a query finds, and names what all runs differ in', async () => {
  const server = await openTestServer()
  addDays(server, 400)
  expect(await (await ask(server, '/summary?repo=api')).json()).toEqual({
    count: 200,
    failures: [{ failure: 'Cannot read … of …', error: 'Cannot read /srv/398/x/y of ENG-398', count: 200 }],
    repos: ['api', 'web'],
    agents: ['agentA'],
    workers: ['kestrel', 'wren'],
  })
})

const summaryOf = async (server: TestServer, query = '') => (await ask(server, `/summary${query}`)).json()

test('a summary reads all runs once, and then follows those that change', async () => {
  const server = await openTestServer()
  const { hostApi } = server
  addDays(server, 400)
  const query = '?repo=api&status=failed'
  expect(await summaryOf(server, query)).toMatchObject({ count: 200, failures: [{ count: 200 }] })
  const read = hostApi.runQueries.length
  const push = (id: string, more: Partial<Run>): void => {
    const run = { ...(hostApi.runsById.get(id) ?? fakeRun(id)), ...more }
    hostApi.runsById.set(id, run)
    hostApi.push({ type: 'run-updated', run })
  }
  push(idOf(1), { status: 'completed' })
  push(idOf(3), { error: 'something else' })
  push(idOf(401), {
    status: 'failed',
    error: 'something else',
    ticket: { ...fakeTicket('ENG-9'), repo: 'api' },
  })
  const changed = await summaryOf(server, query)
  expect(changed).toMatchObject({
    count: 200,
    failures: [{ count: 198 }, { error: 'something else', count: 2 }],
  })
  expect(hostApi.runQueries).toHaveLength(read)
  const config = { ...hostApi.config() }
  hostApi.config = () => config
  expect(await summaryOf(server, query)).toEqual(changed)
  expect(hostApi.runQueries.length).toBeGreaterThan(read)
})

test('equal questions at once are one reading, which a push meanwhile does not spoil', async () => {
  const server = await openTestServer()
  addRuns(server, 400)
  const { runs } = server.hostApi
  const ended = fakeRun(idOf(1), 'completed')
  server.hostApi.runs = (query) => {
    // The run is read as it was before it ended.
    if (query.before === idOf(101)) server.hostApi.push({ type: 'run-updated', run: ended })
    return runs(query)
  }
  const counts = await Promise.all([1, 2, 3].map(() => summaryOf(server, '?status=completed')))
  expect(counts).toMatchObject([{ count: 201 }, { count: 201 }, { count: 201 }])
  expect(server.hostApi.runQueries).toHaveLength(8)
})

test.each(['/summary', '?q=nothing&limit=9', '?sort=cost&limit=9'])(
  'nothing more is read for a client that has gone: %s',
  async (query) => {
    const server = await openTestServer()
    addRuns(server, 5_000)
    const { runs } = server.hostApi
    const controller = new AbortController()
    let read = 0
    server.hostApi.runs = (asked) => {
      read += 1
      if (read === 10) controller.abort()
      return runs(asked)
    }
    const { signal } = controller
    const headers = { authorization: `Bearer ${TOKEN}` }
    await expect(fetch(`${server.url}/api/runs${query}`, { headers, signal })).rejects.toThrow()
    await new Promise((resolve) => setTimeout(resolve, 300))
    expect(read).toBeLessThan(60)
    if (query === '/summary') expect(await summaryOf(server)).toMatchObject({ count: 5_000 })
  },
)

test('a list that breaks off does not look complete', async () => {
  const server = await openTestServer()
  addRuns(server, 500)
  const { runs } = server.hostApi
  server.hostApi.runs = (query) => {
    if (query.before !== undefined) server.hostApi.runsById.delete(query.before)
    return runs(query)
  }
  await expect(list(server)).rejects.toThrow()
})

test('many long lists at once never block the event loop for long', async () => {
  const server = await openTestServer()
  const run = { ...fakeRun(idOf(1), 'failed'), error: 'x'.repeat(3_700) }
  let left = 100_000
  server.hostApi.runs = ({ limit = 20_000 }) => {
    left -= limit
    return yes({ runs: Array.from({ length: limit }, () => run), more: left > 0 })
  }
  const stopMeter = startTurnMeter()
  const sizes = await Promise.all(Array.from({ length: 5 }, () => sizeOf(server)))
  const longestMs = stopMeter()
  expect(sizes.reduce((sum, size) => sum + size)).toBeGreaterThan(100_000 * 3_700)
  expect(longestMs).toBeLessThan(200)
})

/** Does not parse the list, which would block the event loop itself. */
async function sizeOf({ url }: TestServer): Promise<number> {
  const reply = await fetch(`${url}/api/runs`, { headers: { authorization: `Bearer ${TOKEN}` } })
  let size = 0
  for await (const chunk of reply.body ?? []) size += chunk.length
  return size
}

test.each(['?', '?limit=2&', '?limit=2&sort=oldest&', '?limit=2&q=lamp&', '?q=lamp&'])(
  'runs of %s come without the descriptions of their tickets when these are omitted',
  async (query) => {
    const server = await openTestServer()
    addRuns(server, 120)
    for (const [id, run] of server.hostApi.runsById)
      server.hostApi.runsById.set(id, { ...run, ticket: { ...run.ticket, description: 'A long text.' } })
    const whole = await list(server, query)
    const { runs, reply } = await list(server, `${query}omit=description`)
    expect(runs).toEqual(whole.runs.map((run) => ({ ...run, ticket: { ...run.ticket, description: '' } })))
    expect(whole.runs[0]?.ticket.description).toBe('A long text.')
    if (query.includes('limit')) expect(reply.headers.get('link')).toContain('omit=description')
  },
)
