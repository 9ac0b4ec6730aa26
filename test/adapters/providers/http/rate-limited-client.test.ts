/** The budget per credential, and the reaction to rate limits, outages and rejected credentials. */
import { describe, expect, test } from '@jest/globals'
import { CLIENTS_MAX } from '../../../../providers/http/client-pool.ts'
import { REJECTED_CREDENTIAL_MS } from '../../../../providers/http/rate-limited-client.ts'
import type { ManualClock } from '../../../support/manual-clock.ts'
import {
  createClientBench,
  ORIGIN,
  paths,
  sendTracked,
  serviceRequest,
  TEST_RULES,
} from './client-fixture.ts'

const person = (path: string) => serviceRequest(path, 'person')
const write = (path: string) => serviceRequest(path, 'person', { method: 'POST', body: '{}' })
/** The ends of two log messages. */
const PAUSED = /paused$/
const ALLOWED_AGAIN = /allowed again$/
const inAnHour = (clock: ManualClock) => String(clock.now() + 3_600_000)

describe('the order of requests', () => {
  test('people’s requests go first in order of arrival, and background requests leave them a slot', async () => {
    const { clock, client, sent } = createClientBench()
    for (const path of ['/b1', '/b2', '/b3', '/b4', '/b5']) sendTracked(client, serviceRequest(path))
    await clock.settle()
    expect(paths(sent)).toEqual(['/b1', '/b2', '/b3'])
    for (const path of ['/p1', '/p2', '/p3']) sendTracked(client, person(path))
    await clock.settle()
    expect(paths(sent).slice(3)).toEqual(['/p1'])
    for (const request of sent.slice(0, 3)) await request.reply(200)
    expect(paths(sent).slice(4)).toEqual(['/p2', '/p3', '/b4'])
    for (const request of sent.slice(3)) await request.reply(200)
    expect(paths(sent).slice(7)).toEqual(['/b5'])
  })

  test('writes start one interval apart and delay no other request', async () => {
    const { clock, client, sent } = createClientBench()
    for (const path of ['/w1', '/w2', '/w3']) sendTracked(client, write(path))
    sendTracked(client, serviceRequest('/read'))
    sendTracked(client, serviceRequest('/query', 'person', { method: 'POST', writes: false }))
    await clock.settle()
    expect(paths(sent)).toEqual(['/w1', '/read', '/query'])
    await sent[0]?.reply(201)
    await clock.advance(5_000)
    expect(sent.slice(3).map(({ path, at }) => [path, at])).toEqual([
      ['/w2', 1_000],
      ['/w3', 2_000],
    ])
  })

  test('a rule that throws on a reply releases its slot', async () => {
    const { clock, client, sent } = createClientBench({
      concurrencyMax: 1,
      budgets: ({ status }) => {
        if (status === 200) throw new Error('a bug')
        return []
      },
    })
    const broken = client.send(person('/a'))
    const next = sendTracked(client, person('/b'))
    await clock.settle()
    await Promise.all([expect(broken).rejects.toThrow('a bug'), sent[0]?.reply(200)])
    await clock.settle()
    await sent[1]?.reply(204)
    expect(next.now).toBe('204')
  })
})

describe('a budget', () => {
  test('background requests stop at the reserve, a person’s at zero, and nothing is sent until the reset', async () => {
    const { clock, client, sent, log } = createClientBench()
    const report = (left: number) => ({ left: String(left), limit: '100', reset: inAnHour(clock) })
    sendTracked(client, serviceRequest('/1'))
    await clock.settle()
    await sent[0]?.reply(200, report(21))
    sendTracked(client, serviceRequest('/2'))
    await clock.settle()
    await sent[1]?.reply(200, report(20))
    const poll = sendTracked(client, serviceRequest('/3'))
    await clock.settle()
    expect(poll.now).toMatch(/^Service: 20 of 100 \(core\) .* 2026-01-01 01:00:00 UTC; .* reserved/)
    sendTracked(client, person('/4'))
    await clock.settle()
    await sent[2]?.reply(200, { ...report(0), reset: String(clock.now() + 60_000) })
    const click = sendTracked(client, person('/5'))
    await clock.settle()
    expect(click.now).toMatch(/is used up: 0 of 100 \(core\) are left until .*00:01:00/)
    expect(paths(sent)).toEqual(['/1', '/2', '/4'])
    // A changed wall clock does not reset the budget.
    clock.jumpWallClock(7_200_000)
    sendTracked(client, person('/6'))
    await clock.advance(59_999)
    expect(sent).toHaveLength(3)
    await clock.advance(1)
    const probes = ['/7', '/8', '/9'].map((path) => sendTracked(client, serviceRequest(path)))
    await clock.settle()
    expect(paths(sent).slice(3)).toEqual(['/7'])
    await sent[3]?.reply(200, report(99))
    expect(paths(sent).slice(4)).toEqual(['/8', '/9'])
    expect(probes[0]?.now).toBe('200')
    expect(log.lines.map(({ message, fields }) => [message, fields])).toEqual([
      [expect.stringMatching(/reserved for people/), expect.objectContaining({ resource: 'core' })],
      [expect.stringMatching(PAUSED), expect.objectContaining({ service: 'Service' })],
      [expect.stringMatching(ALLOWED_AGAIN), { service: 'Service', resource: 'core' }],
    ])
  })

  test('that resets within the hour is not blocked for longer by a slow clock', async () => {
    const { clock, client, sent } = createClientBench()
    const reset = inAnHour(clock)
    clock.jumpWallClock(-10 * 3_600_000)
    sendTracked(client, person('/1'))
    await clock.settle()
    await sent[0]?.reply(200, { left: '0', limit: '100', reset })
    clock.jumpWallClock(10 * 3_600_000)
    await clock.advance(3_600_000)
    const next = sendTracked(client, serviceRequest('/2'))
    await clock.settle()
    await sent[1]?.reply(200, { left: '99', limit: '100', reset: inAnHour(clock) })
    expect(next.now).toBe('200')
  })

  test('running requests count, so the last ones of a budget are not spent twice', async () => {
    const { clock, client, sent } = createClientBench()
    sendTracked(client, person('/1'))
    await clock.settle()
    await sent[0]?.reply(200, { left: '2', limit: '100', reset: inAnHour(clock) })
    for (const path of ['/2', '/3', '/4']) sendTracked(client, person(path))
    await clock.settle()
    expect(paths(sent)).toEqual(['/1', '/2', '/3'])
    // A late reply to an earlier request is ignored.
    await sent[2]?.reply(200, { left: '0', limit: '100', reset: inAnHour(clock) })
    await sent[1]?.reply(200, { left: '1', limit: '100', reset: inAnHour(clock) })
    sendTracked(client, person('/5'))
    await clock.settle()
    expect(sent).toHaveLength(3)
  })

  test('a request draws from every resource that its reply names, and other resources continue', async () => {
    const { clock, client, sent } = createClientBench()
    sendTracked(client, person('/1'))
    await clock.settle()
    await sent[0]?.reply(200, { left: '50', limit: '100', 'more-left': '0', reset: inAnHour(clock) })
    const same = sendTracked(client, person('/2'))
    const search = sendTracked(client, person('/search'))
    await clock.settle()
    await sent[1]?.reply(200)
    expect([same.now, search.now]).toEqual([expect.stringMatching(/0 \(points\) are left/), '200'])
  })

  test('is shared by all callers with this credential, and separate for another one', async () => {
    const { clock, pool, client, sent } = createClientBench()
    sendTracked(client, person('/1'))
    await clock.settle()
    await sent[0]?.reply(420, { wait: '600000' })
    const same = sendTracked(pool.clientFor(TEST_RULES, `${ORIGIN}/some/path`, 's3cret'), person('/2'))
    const another = sendTracked(pool.clientFor(TEST_RULES, ORIGIN, 'another'), person('/3'))
    const none = sendTracked(pool.clientFor(TEST_RULES, ORIGIN, undefined), person('/4'))
    await clock.settle()
    expect([same.now, another.now, none.now]).toEqual([
      expect.stringMatching(/^the rate limit of Service .* 2026-01-01 00:10:00 UTC$/),
      'waits',
      'waits',
    ])
    expect(paths(sent)).toEqual(['/1', '/3', '/4'])
  })
})

describe('when a service reports too many requests', () => {
  test('no request starts, then a probe goes first, and the others follow', async () => {
    const { clock, client, sent, log } = createClientBench()
    const polls = ['/b1', '/b2', '/b3', '/b4', '/b5'].map((path) => sendTracked(client, serviceRequest(path)))
    const click = sendTracked(client, person('/p1'))
    await clock.settle()
    expect(paths(sent)).toEqual(['/b1', '/b2', '/b3', '/p1'])
    await sent[0]?.reply(420, { wait: '10000' })
    // Running requests continue; waiting background requests are refused, a person's waits for a while.
    await sent[1]?.reply(420, { wait: '2000' })
    await sent[2]?.reply(200)
    await sent[3]?.reply(420, { wait: '2000' })
    const late = sendTracked(client, person('/p2'))
    await clock.advance(9_999)
    expect(polls.map(({ now }) => now)).toEqual([
      expect.stringMatching(/^the rate limit of Service is reached/),
      expect.stringMatching(/^the rate limit of Service is reached/),
      '200',
      expect.stringMatching(/^the rate limit of Service is reached/),
      expect.stringMatching(/^the rate limit of Service is reached/),
    ])
    expect([sent.length, click.now, late.now]).toEqual([4, 'waits', 'waits'])
    await clock.advance(1)
    expect(paths(sent).slice(4)).toEqual(['/p1'])
    await sent[4]?.reply(200)
    expect(paths(sent).slice(5)).toEqual(['/p2'])
    await sent[5]?.reply(200)
    expect([click.now, late.now]).toEqual(['200', '200'])
    expect(log.lines.map(({ message }) => message)).toEqual([
      expect.stringMatching(PAUSED),
      expect.stringMatching(ALLOWED_AGAIN),
    ])
  })

  test('background requests are refused at once, also without a free slot', async () => {
    const { clock, client, sent } = createClientBench()
    const polls = ['/b1', '/b2', '/b3', '/b4'].map((path) => sendTracked(client, serviceRequest(path)))
    sendTracked(client, person('/p1'))
    await clock.settle()
    await sent[3]?.reply(420, { wait: '60000' })
    expect(polls.map(({ now }) => now)).toEqual([
      'waits',
      'waits',
      'waits',
      expect.stringMatching(/rate limit/),
    ])
  })

  test('repeated rejections lengthen the pause', async () => {
    const { clock, client, sent, log } = createClientBench()
    const waits: number[] = []
    for (let tries = 0; tries < 12; tries++) {
      sendTracked(client, serviceRequest('/poll'))
      await clock.settle()
      const before = clock.monotonic()
      await sent.at(-1)?.reply(420, { wait: '60000' })
      const count = sent.length
      while (sent.length === count) {
        await clock.advance(15_000)
        sendTracked(client, serviceRequest('/poll'))
        await clock.settle()
      }
      waits.push(clock.monotonic() - before)
      // The probe stays open; the next round takes its reply.
      sent.splice(0, sent.length - 1)
    }
    expect(waits.slice(0, 4)).toEqual([60_000, 90_000, 180_000, 360_000])
    expect(Math.max(...waits)).toBeLessThanOrEqual(3_600_000)
    expect(log.lines).toHaveLength(1)
  })

  test('a person’s request with a long wait is refused with the time', async () => {
    const { clock, client, sent } = createClientBench()
    const click = sendTracked(client, person('/p1'))
    await clock.settle()
    await sent[0]?.reply(420, { wait: '20001' })
    expect(click.now).toMatch(/^the rate limit of Service .* 2026-01-01 00:00:21 UTC$/)
    expect(clock.timers).toBe(0)
  })

  test('a stated pause takes precedence over the reset of the budget', async () => {
    const { clock, client, sent } = createClientBench()
    const click = sendTracked(client, person('/p1'))
    await clock.settle()
    await sent[0]?.reply(420, { wait: '5000', left: '0', limit: '100', reset: inAnHour(clock) })
    await clock.advance(4_999)
    expect(sent).toHaveLength(1)
    await clock.advance(1)
    await sent[1]?.reply(200)
    const next = sendTracked(client, person('/p2'))
    await clock.settle()
    await sent[2]?.reply(200)
    expect([click.now, next.now]).toEqual(['200', '200'])
  })

  test('a person’s request does not wait repeatedly', async () => {
    const { clock, client, sent } = createClientBench()
    const click = sendTracked(client, write('/p1'))
    await clock.settle()
    await sent[0]?.reply(420, { wait: '9000' })
    await clock.advance(9_000)
    await sent[1]?.reply(420, { wait: '9000' })
    expect([sent.length, click.now]).toEqual([2, expect.stringMatching(/rate limit/)])
  })

  test('a person’s request is tried a few times only', async () => {
    const { clock, client, sent } = createClientBench()
    const click = sendTracked(client, write('/p1'))
    await clock.settle()
    for (const at of [0, 1, 2]) {
      await sent[at]?.reply(420, { wait: '1' })
      await clock.advance(3_000)
    }
    expect([sent.length, click.now]).toEqual([3, expect.stringMatching(/rate limit/)])
  })

  test('only used-up resources are blocked, or all when none is used up', async () => {
    const { clock, client, sent } = createClientBench()
    sendTracked(client, serviceRequest('/search'))
    await clock.settle()
    await sent[0]?.reply(420, { left: '0', limit: '30', reset: String(clock.now() + 60_000), wait: '60000' })
    const [search, core] = [
      sendTracked(client, serviceRequest('/search')),
      sendTracked(client, serviceRequest('/core')),
    ]
    await clock.settle()
    await sent[1]?.reply(420, { left: '4000', limit: '5000', reset: inAnHour(clock), wait: '120000' })
    expect([search.now, core.now]).toEqual([
      expect.stringMatching(/no request is sent before 2026-01-01 00:01:00/),
      expect.stringMatching(/no request is sent before 2026-01-01 00:02:00/),
    ])
    await clock.advance(60_000)
    sendTracked(client, serviceRequest('/search'))
    await clock.settle()
    expect(sent).toHaveLength(2)
  })

  test.each<[string, number, Record<string, string>, string]>([
    ['429 alone', 429, {}, '00:01:00'],
    ['429 with a time', 429, { 'retry-after': '300' }, '00:05:00'],
    ['403 with a time', 403, { 'retry-after': 'Thu, 01 Jan 2026 00:02:00 GMT' }, '00:02:00'],
    ['a wait of zero', 429, { 'retry-after': '0' }, '00:00:01'],
    ['an endless wait', 429, { 'retry-after': '999999999' }, '2026-01-02 00:00:00'],
  ])('%s is recognized without the service’s rules', async (_what, status, headers, at) => {
    const { clock, client, sent } = createClientBench()
    const poll = sendTracked(client, serviceRequest('/a'))
    await clock.settle()
    await sent[0]?.reply(status, headers)
    expect(poll.now).toContain(at)
  })

  test('nonsensical reports are tolerated', async () => {
    const { clock, client, sent } = createClientBench()
    const nonsense = [
      { left: 'x', limit: 'y', reset: 'z' },
      { left: '-5', reset: '-1' },
      { left: '7', limit: '-3', reset: 'Infinity' },
      { left: '7', resource: '\u001b[2J'.repeat(100) },
      { left: '7', resource: '' },
    ]
    for (const headers of nonsense) {
      const poll = sendTracked(client, person('/a'))
      await clock.advance(60_000)
      await sent.at(-1)?.reply(200, headers)
      expect(poll.now).toBe('200')
    }
    for (let at = 0; at < 100; at++) {
      const poll = sendTracked(client, person('/a'))
      await clock.settle()
      await sent.at(-1)?.reply(200, { left: '7', resource: `r${at}` })
      expect(poll.now).toBe('200')
    }
  })
})

describe('a rejected credential', () => {
  test('is tried in the background once in a while only; other requests receive the stored reply', async () => {
    const { clock, client, sent } = createClientBench({ concurrencyMax: 1 })
    sendTracked(client, serviceRequest('/1'))
    await clock.settle()
    const waiting = sendTracked(client, serviceRequest('/1b'))
    await sent[0]?.reply(401, {}, 'Bad credentials')
    expect(waiting.now).toBe('401 Bad credentials')
    const others = ['/2', '/3'].map((path) =>
      sendTracked(client, serviceRequest(path, 'background', { cached: true })),
    )
    await clock.advance(REJECTED_CREDENTIAL_MS - 1)
    expect(others.map(({ now }) => now)).toEqual(['401 Bad credentials', '401 Bad credentials'])
    expect(sent).toHaveLength(1)
    await clock.advance(1)
    for (const path of ['/4', '/5']) sendTracked(client, serviceRequest(path))
    await clock.settle()
    await sent[1]?.reply(401)
    expect(paths(sent).slice(1)).toEqual(['/4'])
    await clock.advance(REJECTED_CREDENTIAL_MS)
    for (const path of ['/6', '/7']) sendTracked(client, serviceRequest(path))
    await clock.settle()
    await sent[2]?.reply(200)
    expect(paths(sent).slice(2)).toEqual(['/6', '/7'])
  })

  test('is tried for each person’s request, and works for all once it is accepted', async () => {
    const { clock, client, sent } = createClientBench()
    sendTracked(client, serviceRequest('/1'))
    await clock.settle()
    await sent[0]?.reply(401)
    sendTracked(client, person('/2'))
    await clock.settle()
    await sent[1]?.reply(200)
    sendTracked(client, serviceRequest('/3'))
    await clock.settle()
    expect(paths(sent)).toEqual(['/1', '/2', '/3'])
  })

  test('is not assumed for requests that send no credential', async () => {
    const { clock, client, sent } = createClientBench()
    for (const path of ['/1', '/2']) {
      sendTracked(client, serviceRequest(path, 'background', { headers: {} }))
      await clock.settle()
      await sent.at(-1)?.reply(401)
    }
    expect(paths(sent)).toEqual(['/1', '/2'])
  })
})

describe('outages', () => {
  test('a read is repeated after a while, a write never', async () => {
    const { clock, client, sent } = createClientBench()
    const [read, change, put] = [
      sendTracked(client, serviceRequest('/read')),
      sendTracked(client, write('/change')),
      sendTracked(client, serviceRequest('/put', 'person', { method: 'PUT' })),
    ]
    await clock.advance(1_000)
    for (const request of [...sent]) await (request.path === '/change' ? request.fail() : request.reply(502))
    expect([read.now, change.now, put.now]).toEqual([
      'waits',
      expect.stringMatching(/could not be reached/),
      '502',
    ])
    await clock.advance(500)
    await sent.at(-1)?.fail()
    await clock.advance(1_000)
    await sent.at(-1)?.reply(503)
    await clock.advance(60_000)
    expect([paths(sent).filter((path) => path === '/read').length, read.now]).toEqual([3, '503'])
  })

  test('a stated end of an outage pauses all requests, and no write is sent twice', async () => {
    const { clock, client, sent } = createClientBench()
    const change = sendTracked(client, write('/change'))
    await clock.settle()
    await sent[0]?.reply(503, { 'retry-after': '600' })
    expect(change.now).toBe('503')
    const polls = Array.from({ length: 10 }, () => sendTracked(client, serviceRequest('/read')))
    await clock.advance(590_000)
    expect(paths(sent)).toEqual(['/change'])
    expect(polls.map(({ now }) => now)).toEqual(
      Array(10).fill(expect.stringMatching(/no request is sent before/)),
    )
    await clock.advance(15_000)
    sendTracked(client, serviceRequest('/read'))
    await clock.settle()
    expect(paths(sent)).toEqual(['/change', '/read'])
  })

  test('a short outage is covered by retries', async () => {
    const { clock, client, sent } = createClientBench()
    const read = sendTracked(client, serviceRequest('/read'))
    await clock.settle()
    await sent[0]?.reply(503, { 'retry-after': '5' })
    await clock.advance(4_900)
    expect(sent).toHaveLength(1)
    await clock.advance(200)
    await sent[1]?.reply(200, {}, 'here')
    expect(read.now).toBe('200 here')
  })

  test('retries respect the allowed number of tries', async () => {
    const { clock, client, sent } = createClientBench()
    const read = sendTracked(client, serviceRequest('/read', 'person', { tries: 1 }))
    await clock.settle()
    await sent[0]?.reply(502)
    expect(read.now).toBe('502')
  })
})

describe('the client pool', () => {
  test('sends a credential to its own origin only', async () => {
    const { clock, client, sent } = createClientBench()
    for (const url of ['https://evil.example/x?t=s3cret', 'http://api.example/', 'nonsense']) {
      const away = sendTracked(client, { ...serviceRequest('/'), url })
      await clock.settle()
      expect(away.now).toMatch(/another origin/)
      expect(away.now).not.toMatch(/evil|s3cret/)
    }
    expect(sent).toEqual([])
  })

  test('drops idle clients when full, and blocked ones last', async () => {
    const { clock, pool, client, sent } = createClientBench()
    sendTracked(client, person('/first'))
    await clock.settle()
    await sent[0]?.reply(420, { wait: '600000' })
    for (let at = 0; at < 2 * CLIENTS_MAX; at++) {
      sendTracked(pool.clientFor(TEST_RULES, ORIGIN, `other ${at}`), person('/other'))
      await clock.settle()
      await sent.at(-1)?.reply(200)
    }
    const again = sendTracked(client, person('/again'))
    await clock.settle()
    expect(again.now).toMatch(/rate limit/)
  })

  test('refuses further credentials while all clients are busy', async () => {
    const { clock, pool, sent } = createClientBench()
    const all = Array.from({ length: CLIENTS_MAX + 1 }, (_, at) =>
      sendTracked(pool.clientFor(TEST_RULES, ORIGIN, `other ${at}`), person('/other')),
    )
    await clock.settle()
    expect([sent.length, all.at(-1)?.now]).toEqual([
      CLIENTS_MAX,
      expect.stringMatching(/credentials are running already/),
    ])
  })

  test('refuses waiting requests when closed, and cancels its timers', async () => {
    const { clock, pool, client, sent } = createClientBench({ concurrencyMax: 1 })
    const [first, waiting] = [sendTracked(client, person('/1')), sendTracked(client, person('/2'))]
    await clock.settle()
    await sent[0]?.reply(420, { wait: '5000' })
    pool.close()
    const late = sendTracked(client, person('/3'))
    await clock.settle()
    const stopping = expect.stringMatching(/stopping/)
    expect([first.now, waiting.now, late.now, clock.timers]).toEqual([stopping, stopping, stopping, 0])
  })
})
