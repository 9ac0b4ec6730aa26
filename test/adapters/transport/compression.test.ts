/** Answers of the management interface on the wire: which are compressed, for whom, and that nothing else changes. */
import { gunzipSync } from 'node:zlib'
import { expect, test } from '@jest/globals'
import { no, yes } from '../../../core/result.ts'
import { type Route, routes } from '../../../protocol/routes.ts'
import { askForBytes } from '../../support/ask-for-bytes.ts'
import { startTurnMeter } from '../../support/cpu-time.ts'
import { fakeRun, fakeTicket } from '../../support/fake-host-api.ts'
import { openTestServer, type TestServer, TOKEN } from '../../support/test-resources.ts'

const GZIP = 'Accept-Encoding: gzip, deflate, br'
const ask = ({ port }: TestServer, path: string, ...lines: readonly string[]) =>
  askForBytes(port, path, [`Authorization: Bearer ${TOKEN}`, ...lines])

const TICKETS = Array.from({ length: 200 }, (_, at) => fakeTicket(`ENG-${at}`))

function addRuns({ hostApi }: TestServer, count: number): void {
  for (let at = 0; at < count; at++) {
    const id = `run-${String(at).padStart(6, '0')}`
    hostApi.runsById.set(id, fakeRun(id, 'failed'))
  }
}

test('a long answer is compressed for a client that takes gzip', async () => {
  const server = await openTestServer()
  server.hostApi.tickets = () => TICKETS
  const plain = await ask(server, '/api/tickets')
  const packed = await ask(server, '/api/tickets', GZIP)
  expect([packed.status, packed.headers['content-encoding'], packed.headers.vary]).toEqual([
    200,
    'gzip',
    'accept-encoding',
  ])
  expect(packed.headers).toMatchObject({ 'content-type': 'application/json', 'cache-control': 'no-store' })
  expect(packed.headers['content-length']).toBe(String(packed.body.byteLength))
  expect(packed.body.byteLength).toBeLessThan(plain.body.byteLength / 10)
  expect(gunzipSync(packed.body).equals(plain.body)).toBe(true)
  expect(JSON.parse(plain.body.toString())).toEqual(TICKETS)
})

test.each(['', 'Accept-Encoding: identity', 'Accept-Encoding: br', 'Accept-Encoding: gzip;q=0, *'])(
  'no answer is compressed for a client that sends "%s"',
  async (line) => {
    const server = await openTestServer()
    server.hostApi.tickets = () => TICKETS
    addRuns(server, 120)
    for (const path of ['/api/tickets', '/api/runs', '/api/runs?limit=60']) {
      const { headers, body } = await ask(server, path, ...(line === '' ? [] : [line]))
      expect([path, headers['content-encoding']]).toEqual([path, undefined])
      expect(body.subarray(0, 2).toString()).toBe('[{')
    }
  },
)

test('an answer below one KiB, and a refusal, stay as they are', async () => {
  const server = await openTestServer()
  for (const path of ['/api/health', '/api/runs', '/api/none', `/api/runs/${'x'.repeat(3_000)}`]) {
    const { headers, body } = await ask(server, path, GZIP)
    expect([path.slice(0, 20), headers['content-encoding']]).toEqual([path.slice(0, 20), undefined])
    JSON.parse(body.toString())
  }
})

test('a list that is streamed in batches arrives whole, and in a fraction of the bytes', async () => {
  const server = await openTestServer()
  addRuns(server, 950)
  const plain = await ask(server, '/api/runs')
  const packed = await ask(server, '/api/runs', GZIP)
  expect([packed.headers['content-encoding'], packed.headers['transfer-encoding']]).toEqual([
    'gzip',
    'chunked',
  ])
  expect(gunzipSync(packed.body).equals(plain.body)).toBe(true)
  expect(packed.body.byteLength).toBeLessThan(plain.body.byteLength / 10)
})

test('a compressed page of runs still leads on', async () => {
  const server = await openTestServer()
  addRuns(server, 120)
  const { headers, body } = await ask(server, '/api/runs?limit=50', GZIP)
  expect(headers.link).toContain('rel="next"')
  expect(JSON.parse(gunzipSync(body).toString())).toHaveLength(50)
})

test('a compressed list that breaks off does not look complete', async () => {
  const server = await openTestServer()
  let left = 40
  server.hostApi.runs = ({ limit = 50 }) => {
    left -= 1
    if (left === 0) return no('failed', 'the disk is gone')
    // Words that repeat would be compressed to nothing, and the list would break before it has begun.
    const page = Array.from({ length: limit }, () => ({
      ...fakeRun('run-1', 'failed'),
      error: `${Math.random()}`,
    }))
    return yes({ runs: page, more: true })
  }
  await expect(ask(server, '/api/runs', GZIP)).rejects.toThrow()
})

test('many long lists that are compressed at once never block the event loop for long', async () => {
  const server = await openTestServer()
  const run = { ...fakeRun('run-000001', 'failed'), error: 'a long word '.repeat(300) }
  let left = 10_000
  server.hostApi.runs = ({ limit = 20_000 }) => {
    left -= limit
    return yes({ runs: Array.from({ length: limit }, () => run), more: left > 0 })
  }
  server.hostApi.tickets = () => TICKETS
  const stopMeter = startTurnMeter()
  const paths = ['/api/runs', '/api/runs', '/api/runs', '/api/tickets', '/api/tickets']
  const replies = await Promise.all(paths.map((path) => ask(server, path, GZIP)))
  const longestMs = stopMeter()
  expect(replies.map(({ headers }) => headers['content-encoding'])).toEqual(paths.map(() => 'gzip'))
  expect(longestMs).toBeLessThan(200)
})

/** Only answers to GET are compressed, so that no secret stands in a compressed answer beside the words of others. */
test('no route that answers GET on the management listener answers with a secret', () => {
  const table: Readonly<Record<string, Route>> = routes
  const secret = Object.entries(table)
    .filter(([, { method, listeners }]) => method === 'GET' && listeners.includes('management'))
    .filter(
      ([, { response }]) => typeof response !== 'string' && JSON.stringify(response).includes('x-secret'),
    )
    .map(([name]) => name)
  // Its secrets are masked.
  expect(secret).toEqual(['readConfig'])
})
