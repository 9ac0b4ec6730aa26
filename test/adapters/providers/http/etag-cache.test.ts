/** Replies cached with their ETag, against a fake service and against a real one on loopback. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, describe, expect, test } from '@jest/globals'
import { realClock, realRandom } from '../../../../bin/process/clock.ts'
import { HttpClientPool } from '../../../../providers/http/client-pool.ts'
import { createHttp } from '../../../../providers/http/http.ts'
import { EtagCache } from '../../../../providers/http/rate-limited-client.ts'
import { createRecordingLog } from '../../../support/recording-log.ts'
import { createSettableClock } from '../../../support/test-resources.ts'
import { until } from '../../../support/until.ts'
import {
  createClientBench,
  ORIGIN,
  paths,
  sendTracked,
  serviceRequest,
  TEST_RULES,
} from './client-fixture.ts'

const cached = { cached: true } as const
const poll = (path: string) => serviceRequest(path, 'background', cached)
const click = (path: string) => serviceRequest(path, 'person', cached)

describe('a cached reply', () => {
  test('is revalidated by its ETag, and returned with the new headers while unchanged', async () => {
    const { clock, client, sent } = createClientBench()
    sendTracked(client, poll('/list'))
    await clock.settle()
    await sent[0]?.reply(
      200,
      { etag: 'W/"1"', link: '<x>; rel="next"', left: '90', 'content-length': '4' },
      'list',
    )
    const again = client.send(poll('/list'))
    await clock.settle()
    expect([sent[0], sent[1]].map((request) => request?.request.headers['if-none-match'])).toEqual([
      undefined,
      'W/"1"',
    ])
    await sent[1]?.reply(304, { etag: 'W/"1"', left: '89', 'content-length': '0' })
    expect(await again).toEqual({
      ok: true,
      value: {
        status: 200,
        headers: { etag: 'W/"1"', link: '<x>; rel="next"', left: '89', 'content-length': '4' },
        text: 'list',
      },
    })
    const changed = sendTracked(client, poll('/list'))
    await clock.settle()
    await sent[2]?.reply(200, { etag: '"2"' }, 'new list')
    sendTracked(client, poll('/list'))
    await clock.settle()
    expect([changed.now, sent[3]?.request.headers['if-none-match']]).toEqual(['200 new list', '"2"'])
  })

  test('may be stored as a projection, which is computed once per change', async () => {
    const { clock, client, sent } = createClientBench()
    const seen: string[] = []
    const apply = (text: string): string => {
      seen.push(text)
      return text.slice(0, 1)
    }
    const short = { ...poll('/list'), projection: { name: 'one letter', apply } }
    const first = sendTracked(client, short)
    await clock.settle()
    await sent[0]?.reply(200, { etag: '"1"' }, 'a long list')
    const again = sendTracked(client, short)
    sendTracked(client, poll('/list'))
    await clock.settle()
    expect(sent.map(({ request }) => request.headers['if-none-match'])).toEqual([undefined, '"1"', undefined])
    await sent[1]?.reply(304, { etag: '"1"' })
    await sent[2]?.reply(500, {}, 'a long excuse')
    expect([first.now, again.now, seen]).toEqual(['200 a', '200 a', ['a long list']])
    const refused = sendTracked(client, { ...short, url: `${ORIGIN}/other`, tries: 1 })
    await clock.settle()
    await sent.at(-1)?.reply(500, {}, 'a long excuse')
    expect([refused.now, seen]).toEqual(['500 a long excuse', ['a long list']])
  })

  test('belongs to one credential, one address and one set of headers', async () => {
    const { clock, client, pool, sent } = createClientBench()
    sendTracked(client, poll('/list'))
    await clock.settle()
    await sent[0]?.reply(200, { etag: '"1"' }, 'list')
    sendTracked(pool.clientFor(TEST_RULES, ORIGIN, 'another'), poll('/list'))
    sendTracked(client, poll('/list?page=2'))
    sendTracked(client, { ...poll('/list'), headers: { accept: 'text/diff' } })
    sendTracked(client, serviceRequest('/list'))
    await clock.settle()
    expect(sent.slice(1).map(({ request }) => request.headers['if-none-match'])).toEqual(
      Array(4).fill(undefined),
    )
  })

  test.each<[string, number, Record<string, string>]>([
    ['without an ETag', 200, {}],
    ['with an ETag that cannot be sent back', 200, { etag: '"caf\u00e9 \u2615"' }],
    ['with an ETag that is too long', 200, { etag: 'x'.repeat(2_000) }],
    ['with no-store', 200, { etag: '"1"', 'cache-control': 'private, no-store' }],
    ['of an error', 404, { etag: '"1"' }],
  ])('is not stored %s', async (_what, status, headers) => {
    const { clock, client, sent } = createClientBench()
    for (const _ of [1, 2]) {
      sendTracked(client, poll('/list'))
      await clock.settle()
      await sent.at(-1)?.reply(status, headers)
    }
    expect(sent[1]?.request.headers['if-none-match']).toBeUndefined()
  })

  test('survives an error', async () => {
    const { clock, client, sent } = createClientBench()
    for (const status of [200, 500, 304]) {
      const asked = sendTracked(client, serviceRequest('/list', 'person', { ...cached, tries: 1 }))
      await clock.settle()
      await sent.at(-1)?.reply(status, status === 200 ? { etag: '"1"' } : {}, status === 200 ? 'list' : '')
      if (status === 304) expect(asked.now).toBe('200 list')
    }
  })

  test('is dropped when there are too many, the least recently used first', () => {
    const replies = new EtagCache({ repliesMax: 3, bytesMax: 1_000 })
    const reply = (chars: number) => ({ status: 200, headers: { etag: '"1"' }, text: 'x'.repeat(chars) })
    const has = (...keys: string[]) => keys.filter((key) => replies.get(key) !== undefined)
    for (const key of ['a', 'b', 'c']) replies.put(key, reply(100))
    replies.get('a')
    replies.put('d', reply(100))
    expect(has('a', 'b', 'c', 'd')).toEqual(['a', 'c', 'd'])
    replies.put('e', reply(800))
    expect(has('a', 'c', 'd', 'e')).toEqual(['d', 'e'])
    replies.put('e', reply(10))
    replies.put('f', reply(1_001))
    expect(has('d', 'e', 'f')).toEqual([])
    expect(replies.bytes).toBe(0)
  })
})

describe('two equal concurrent requests', () => {
  test('share one reply with the higher urgency of the two', async () => {
    const { clock, client, sent } = createClientBench({ concurrencyMax: 1 })
    sendTracked(client, serviceRequest('/busy'))
    const all = [
      sendTracked(client, poll('/other')),
      sendTracked(client, poll('/list')),
      sendTracked(client, click('/list')),
    ]
    await clock.settle()
    await sent[0]?.reply(200)
    expect(paths(sent)).toEqual(['/busy', '/list'])
    await sent[1]?.reply(200, {}, 'list')
    expect(all.map(({ now }) => now)).toEqual(['waits', '200 list', '200 list'])
    sendTracked(client, click('/list'))
    await sent[2]?.reply(200)
    expect(paths(sent)).toEqual(['/busy', '/list', '/other', '/list'])
    await sent[3]?.reply(200)
    sendTracked(client, serviceRequest('/last'))
    await clock.settle()
    expect(paths(sent).slice(4)).toEqual(['/last'])
  })

  test('a person’s request makes the running one patient', async () => {
    const { clock, client, sent } = createClientBench()
    const all = [sendTracked(client, poll('/list')), sendTracked(client, click('/list'))]
    await clock.settle()
    await sent[0]?.reply(420, { wait: '5000' })
    expect(all.map(({ now }) => now)).toEqual(['waits', 'waits'])
    await clock.advance(5_000)
    await sent[1]?.reply(200, {}, 'list')
    expect(all.map(({ now }) => now)).toEqual(['200 list', '200 list'])
  })

  test('do not share after a write in between, so that no caller sees the old state', async () => {
    const { clock, client, sent } = createClientBench()
    const before = sendTracked(client, poll('/list'))
    sendTracked(client, serviceRequest('/merge', 'person', { method: 'PUT' }))
    const during = sendTracked(client, click('/list'))
    await clock.settle()
    await sent[1]?.reply(200)
    const after = sendTracked(client, click('/list'))
    await clock.settle()
    expect(paths(sent)).toEqual(['/list', '/merge', '/list', '/list'])
    for (const [at, text] of [
      [0, 'old'],
      [2, 'unsure'],
      [3, 'new'],
    ] as const)
      await sent[at]?.reply(200, {}, text)
    expect([before.now, during.now, after.now]).toEqual(['200 old', '200 unsure', '200 new'])
  })
})

describe('over real connections', () => {
  const open: { close(): unknown }[] = []
  afterEach(async () => {
    for (const resource of open.splice(0)) await resource.close()
  })

  test('an unchanged page transfers no body, and a rate limit stops all requests at once', async () => {
    let limited = false
    const shownText: string[] = []
    const server = createServer((asked, reply) => {
      const status = limited ? 429 : asked.headers['if-none-match'] === '"1"' ? 304 : 200
      shownText.push(`${asked.url} ${status}`)
      if (limited) return void reply.writeHead(429, { 'retry-after': '1' }).end('{}')
      reply
        .writeHead(status, { etag: '"1"', 'content-type': 'application/json' })
        .end(status === 200 ? '[1,2]' : '')
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    const http = createHttp({ clock: realClock, random: realRandom })
    // Keeps the requests within the stated second, however long they take.
    const clock = createSettableClock()
    const pool = new HttpClientPool({ http, clock, random: realRandom, log: createRecordingLog() })
    open.push(pool, http, server)
    const client = pool.clientFor(TEST_RULES, origin, 's3cret')
    const ask = (path: string) => client.send({ ...poll('/'), url: origin + path })
    for (const _ of [1, 2, 3]) {
      expect(await ask('/a?b')).toMatchObject({ ok: true, value: { status: 200, text: '[1,2]' } })
    }
    expect(shownText.splice(0)).toEqual(['/a?b 200', '/a?b 304', '/a?b 304'])
    limited = true
    const refused = await ask('/a?secret')
    expect(refused).toMatchObject({ refusal: { kind: 'unavailable' } })
    expect(JSON.stringify(refused)).not.toContain('secret')
    for (const path of ['/c', '/d', '/e']) expect((await ask(path)).ok).toBe(false)
    expect(shownText.splice(0)).toEqual(['/a?secret 429'])
    limited = false
    // A person's request is sent as soon as the service allows it.
    const clicked = client.send({ ...click('/'), url: `${origin}/a?b` })
    await until('the person waits', () => clock.timerCount() > 0)
    expect(shownText).toEqual([])
    clock.wind(1_000)
    expect(await clicked).toMatchObject({ ok: true, value: { text: '[1,2]' } })
    expect(shownText).toEqual(['/a?b 304'])
  })
})
