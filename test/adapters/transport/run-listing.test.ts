/** All runs of a host over a real socket: a long list is read and sent in batches, in order and with its filters. */
import { expect, test } from '@jest/globals'
import { fetch } from 'undici'
import { yes } from '../../../core/result.ts'
import type { Run } from '../../../protocol/run.ts'
import { startTurnMeter } from '../../support/cpu-time.ts'
import { fakeRun } from '../../support/fake-host-api.ts'
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

async function list({ url }: TestServer, query = '') {
  const reply = await fetch(`${url}/api/runs${query}`, { headers: { authorization: `Bearer ${TOKEN}` } })
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
