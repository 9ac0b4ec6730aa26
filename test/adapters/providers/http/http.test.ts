/** The HTTP client against misbehaving servers on loopback. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { afterEach, describe, expect, test } from '@jest/globals'
import { realClock, realRandom } from '../../../../bin/process/clock.ts'
import { createHttp } from '../../../../providers/http/http.ts'
import type { Http, HttpRequest } from '../../../../providers/http/http-types.ts'
import { ManualClock } from '../../../support/manual-clock.ts'
import { until } from '../../../support/until.ts'

const open: { close(): unknown }[] = []
afterEach(async () => {
  for (const resource of open.splice(0)) await resource.close()
})

type ReplyHandler = (reply: ServerResponse, asked: IncomingMessage) => void

/** Starts a server that runs the handlers in order and repeats the last one. */
async function startService(...handlers: readonly ReplyHandler[]) {
  const seen: string[] = []
  const connections = new Set<Socket>()
  const server = createServer((asked, reply) => {
    let body = ''
    asked.on('data', (part) => (body += part))
    asked.on('end', () => {
      seen.push(`${asked.method} ${asked.url} ${body}`.trim())
      handlers[Math.min(seen.length, handlers.length) - 1]?.(reply, asked)
    })
  })
  server.on('connection', (connection) => {
    connections.add(connection)
    connection.on('close', () => connections.delete(connection))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const stop = () => {
    server.closeAllConnections()
    server.close()
  }
  open.push({ close: stop })
  return { seen, connections, origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }
}

function createTestHttp(clock: ManualClock | typeof realClock = realClock): Http {
  const http = createHttp({ clock, random: realRandom })
  open.unshift(http)
  return http
}
const to = (url: string, more: Partial<HttpRequest> = {}): HttpRequest => ({
  method: 'GET',
  url,
  headers: {},
  ...more,
})
const respondWith =
  (status: number, headers: Record<string, string> = {}): ReplyHandler =>
  (reply) =>
    void reply.writeHead(status, headers).end('words')
const closeConnection: ReplyHandler = (reply) => void reply.socket?.destroy()

/** Advances the clock until the promise settles; real connections take real time. */
async function waitForAnswer<T>(clock: ManualClock, promise: Promise<T>): Promise<T> {
  let isDone = false
  void promise.finally(() => (isDone = true))
  await until('an answer', async () => {
    await clock.advance(200)
    return isDone
  })
  return promise
}

test('a client that may not send any more sends no request and repeats none', async () => {
  let maySend = true
  const { seen, origin } = await startService((reply) => {
    maySend = false
    reply.writeHead(503).end()
  })
  const http = createHttp({ clock: realClock, random: realRandom, maySend: () => maySend })
  open.unshift(http)
  expect(await http.send(to(origin))).toMatchObject({ ok: false, refusal: { kind: 'unavailable' } })
  expect(seen).toEqual(['GET /'])
})

describe('retries', () => {
  test.each<[HttpRequest['method'], string, ReplyHandler, number]>([
    ['GET', 'a broken connection', closeConnection, 3],
    ['PUT', 'a broken connection', closeConnection, 3],
    ['POST', 'a broken connection', closeConnection, 1],
    ['PATCH', 'a broken connection', closeConnection, 1],
    ['GET', 'an outage', respondWith(503), 3],
    ['POST', 'an outage', respondWith(503), 1],
    ['POST', 'too many requests', respondWith(429), 3],
    ['POST', 'too many requests, with a time', respondWith(403, { 'retry-after': '1' }), 3],
    ['POST', 'another refusal', respondWith(403), 1],
    ['GET', 'a pause beyond the limit', respondWith(429, { 'retry-after': '60' }), 1],
  ])('%s after %s', async (method, _what, handler, times) => {
    const clock = new ManualClock()
    const { seen, origin } = await startService(handler)
    const body = method === 'GET' ? {} : { body: 'x=1' }
    await waitForAnswer(clock, createTestHttp(clock).send(to(`${origin}/a`, { method, ...body })))
    expect(seen).toEqual(Array(times).fill(`${method} /a${method === 'GET' ? '' : ' x=1'}`))
  })

  test.each([
    [1, 1],
    [2, 2],
    [99, 3],
    [0, 1],
  ])('with %s tries allowed, the request is sent %s times', async (tries, times) => {
    const clock = new ManualClock()
    const { seen, origin } = await startService(respondWith(503))
    expect(await waitForAnswer(clock, createTestHttp(clock).send(to(origin, { tries })))).toMatchObject({
      value: { status: 503 },
    })
    expect(seen).toHaveLength(times)
  })
})

describe('a redirect', () => {
  const AUTHORIZATION = { authorization: 'Bearer t0ken' }

  test('within the origin is followed, and a change of the method is not', async () => {
    const service = await startService(respondWith(307, { location: '/there' }), respondWith(200))
    const request = to(`${service.origin}/here`, { method: 'POST', headers: AUTHORIZATION, body: 's' })
    expect(await createTestHttp().send(request)).toMatchObject({ value: { status: 200 } })
    expect(service.seen).toEqual(['POST /here s', 'POST /there s'])
    const seeOther = await startService(respondWith(303, { location: '/there' }))
    const posted = to(`${seeOther.origin}/here`, { method: 'POST', body: 's' })
    expect(await createTestHttp().send(posted)).toMatchObject({ value: { status: 303 } })
    expect(seeOther.seen).toEqual(['POST /here s'])
  })

  /** Forms of the address of another server; `port` is its port, `own` the port of the first server. */
  const ELSEWHERE: readonly ((port: string, own: string) => string)[] = [
    (port) => `http://127.0.0.1:${port}/`,
    (port) => `//127.0.0.1:${port}/`,
    (port) => `\\\\127.0.0.1:${port}\\`,
    (port) => `/\\127.0.0.1:${port}/`,
    (port, own) => `http://127.0.0.1:${own}@127.0.0.1:${port}/`,
    (port) => `http:\t//127.0.0.1:${port}/`,
    (port) => `HTTP://0x7f.1:${port}/`,
    (port) => `http://localhost:${port}/`,
    // The same server by other names, which another could have tomorrow.
    (_, own) => `http://localhost:${own}/`,
    (_, own) => `https://127.0.0.1:${own}/`,
  ]

  test.each([301, 302, 303, 307, 308])('with %i to another origin is not followed', async (status) => {
    const foreign = await startService(respondWith(200))
    const http = createTestHttp()
    for (const elsewhere of ELSEWHERE)
      for (const method of ['GET', 'POST'] as const) {
        const handlers: ReplyHandler[] = []
        const service = await startService((reply, asked) => handlers[0]?.(reply, asked))
        const location = elsewhere(new URL(foreign.origin).port, new URL(service.origin).port)
        handlers.push(respondWith(status, { location }))
        const body = method === 'POST' ? { body: 's' } : {}
        const sent = await http.send(to(service.origin, { method, headers: AUTHORIZATION, ...body }))
        expect([location, sent]).toMatchObject([location, { value: { status } }])
        expect(service.seen).toHaveLength(1)
      }
    expect(foreign.seen).toEqual([])
  })
})

describe('a reply that does not end', () => {
  test('is aborted at the timeout, and its connection is closed', async () => {
    const clock = new ManualClock()
    const { connections, origin, seen } = await startService(
      (reply) => void reply.writeHead(200).write('begun'),
    )
    const asked = createTestHttp(clock).send(to(`${origin}/path?secret=1`, { tries: 1 }))
    await until('the request', () => seen.length === 1)
    await clock.advance(29_999)
    expect(connections.size).toBe(1)
    await clock.advance(1)
    expect(await asked).toMatchObject({
      ok: false,
      refusal: { kind: 'failed', message: expect.stringMatching(/^127[^/?]* did not answer within 30 s/) },
    })
    await until('the line is cut', () => connections.size === 0)
  })

  test('is aborted when it is too long, and its connection is closed', async () => {
    const { connections, origin } = await startService((reply) => {
      reply.on('error', () => {})
      const pour = () => {
        while (!reply.destroyed && reply.write(Buffer.alloc(1024 * 1024)));
      }
      reply.on('drain', pour)
      pour()
    })
    expect(await createTestHttp().send(to(origin, { method: 'POST' }))).toMatchObject({
      refusal: { kind: 'failed', message: expect.stringMatching(/more than 16777216 bytes/) },
    })
    await until('the line is cut', () => connections.size === 0)
  })
})

describe('closing', () => {
  test('ends running requests, pending retries and later requests', async () => {
    const clock = new ManualClock()
    const { origin, seen } = await startService(respondWith(503), () => {})
    const http = createTestHttp(clock)
    const waits = http.send(to(`${origin}/waits`))
    await until('a pause', () => clock.timers === 1 && seen.length === 1)
    const hangs = http.send(to(`${origin}/hangs`))
    await until('both', () => seen.length === 2)
    await http.close()
    const stopping = {
      ok: false,
      refusal: { kind: 'unavailable', message: expect.stringMatching(/stopping/) },
    }
    expect(await Promise.all([waits, hangs, http.send(to(origin))])).toEqual([stopping, stopping, stopping])
    expect(seen).toHaveLength(2)
    expect(clock.timers).toBe(0)
  })
})

test('more than twenty-five requests run concurrently', async () => {
  const waiting: ServerResponse[] = []
  const { origin } = await startService((reply) => void waiting.push(reply))
  const http = createTestHttp()
  const all = Array.from({ length: 30 }, (_, at) => http.send(to(`${origin}/${at}`)))
  await until('all thirty', () => waiting.length === 30)
  for (const reply of waiting) reply.end('ok')
  expect((await Promise.all(all)).every(({ ok }) => ok)).toBe(true)
})

test('a credential that cannot be sent is refused without being shown', async () => {
  const { origin, seen } = await startService(respondWith(200))
  // A retry would hang here, because this clock does not advance.
  const answer = await createTestHttp(new ManualClock()).send(
    to(origin, { headers: { authorization: 'Bearer s3cret\r\nx: y' } }),
  )
  expect(answer).toMatchObject({
    refusal: { kind: 'invalid', message: expect.stringMatching(/enter the credential again/) },
  })
  expect(JSON.stringify(answer)).not.toContain('s3cret')
  expect(seen).toEqual([])
})
