/** The helper's routes and each row of its error table, over real sockets, against a small upstream. */
import { readFileSync } from 'node:fs'
import { describe, expect, test } from '@jest/globals'
import { HELPER_BODY_BYTES_MAX } from '../../../oauth-helper/server.ts'
import { HELPER_DRAIN_MS_MAX, HELPER_UPSTREAM_MS_MAX } from '../../../protocol/limits.ts'
import { helperRoutes } from '../../../protocol/routes.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { createRawClient } from '../../support/raw-client.ts'
import { until } from '../../support/until.ts'
import { SECRETS, startHelper } from './helper-fixture.ts'

const EXCHANGE = '/oauth/tracker/token'
const REFRESH = '/oauth/tracker/refresh'
const START = '/oauth/codehost/device/code'
const POLL = '/oauth/codehost/device/token'
const anError = { error: expect.any(String) }

describe('general routes', () => {
  test('the index names the service, its documentation and every route', async () => {
    const { get } = await startHelper()
    const index = await (await get('/')).json()
    expect(index).toMatchObject({ service: expect.any(String), docs: 'https://docs.example.test/' })
    const { endpoints } = index as { endpoints: string[] }
    for (const { method, path } of Object.values(helperRoutes))
      expect(endpoints.some((endpoint) => endpoint.startsWith(`${method} ${path}`))).toBe(true)
  })

  test('the health route answers', async () => {
    const reply = await (await startHelper()).get('/health')
    expect([reply.status, await reply.json()]).toEqual([200, { ok: true }])
  })
})

describe('the redirect to the consent page', () => {
  test('leads to the tracker with the helper’s client id, and back to a fixed address on the caller’s machine', async () => {
    const { get, upstream } = await startHelper()
    const reply = await get('/oauth/tracker/authorize?state=a%20%26b%2F%E2%82%AC&port=4400')
    expect(reply.status).toBe(302)
    const target = new URL(reply.headers.get('location') ?? '')
    expect(`${target.origin}${target.pathname}`).toBe(`${upstream.url}/oauth/authorize`)
    expect(Object.fromEntries(target.searchParams)).toEqual({
      client_id: SECRETS.TRACKER_CLIENT_ID,
      redirect_uri: 'http://localhost:4400/api/connect/tracker/callback',
      response_type: 'code',
      scope: 'read,write',
      state: 'a &b/€',
    })
  })

  test.each([
    ['no port', 'state=s'],
    ['port 0', 'state=s&port=0'],
    ['port 65536', 'state=s&port=65536'],
    ['a port that is an address', 'state=s&port=4400%40evil.example'],
    ['a negative port', 'state=s&port=-1'],
    ['a fraction of a port', 'state=s&port=80.5'],
    ['two ports', 'state=s&port=1&port=2'],
    ['no state', 'port=4400'],
    ['an empty state', 'state=&port=4400'],
    ['a state of 513 characters', `state=${'x'.repeat(513)}&port=4400`],
    ['two states', 'state=a&state=b&port=4400'],
    ['broken encoding', 'state=%zz&port=4400'],
  ])('with %s is refused with 400', async (_what, query) => {
    const reply = await (await startHelper()).get(`/oauth/tracker/authorize?${query}`)
    expect([reply.status, await reply.json()]).toEqual([400, anError])
  })

  test('accepts the longest state and the lowest and highest ports', async () => {
    const { get } = await startHelper()
    for (const query of [`state=${'x'.repeat(512)}&port=1`, 'state=s&port=65535'])
      expect((await get(`/oauth/tracker/authorize?${query}`)).status).toBe(302)
  })
})

describe('codes and refresh tokens', () => {
  const tokens = { access_token: 'lin_oauth_A', refresh_token: 'R2', expires_in: 86399 }

  test('a code is exchanged with the secret, and three fields come back', async () => {
    const { post, upstream } = await startHelper()
    upstream.answer = { body: { ...tokens, token_type: 'Bearer', scope: 'read write', more: 1 } }
    const reply = await post(EXCHANGE, { code: 'the-code', port: 4400 })
    expect([reply.status, await reply.json()]).toEqual([200, tokens])
    expect(upstream.asked).toEqual([
      {
        method: 'POST',
        path: '/oauth/token',
        type: 'application/x-www-form-urlencoded',
        form: {
          grant_type: 'authorization_code',
          code: 'the-code',
          redirect_uri: 'http://localhost:4400/api/connect/tracker/callback',
          client_id: SECRETS.TRACKER_CLIENT_ID,
          client_secret: SECRETS.TRACKER_CLIENT_SECRET,
        },
      },
    ])
  })

  test('a refresh token is renewed with the secret, and an omitted new one is not invented', async () => {
    const { post, upstream } = await startHelper()
    upstream.answer = { body: { access_token: 'lin_oauth_B' } }
    const reply = await post(REFRESH, { refresh_token: 'R1' })
    expect([reply.status, await reply.json()]).toEqual([200, { access_token: 'lin_oauth_B' }])
    expect(upstream.asked[0]?.form).toEqual({
      grant_type: 'refresh_token',
      refresh_token: 'R1',
      client_id: SECRETS.TRACKER_CLIENT_ID,
      client_secret: SECRETS.TRACKER_CLIENT_SECRET,
    })
  })

  for (const [path, body] of [
    [EXCHANGE, { code: 'c', port: 1 }],
    [REFRESH, { refresh_token: 'r' }],
  ] as const) {
    test.each([
      ['reports invalid_grant', 400, { error: 'invalid_grant', error_description: 'c r' }, 401],
      ['does not know the client', 401, { error: 'invalid_client' }, 502],
      ['refuses the client', 400, { error: 'unauthorized_client' }, 502],
      ['reports an invalid request', 400, { error: 'invalid_request' }, 502],
      ['has an outage', 503, { error: 'invalid_grant' }, 502],
      ['answers with HTML', 502, '<html>', 502],
      ['answers with an empty body', 200, '', 502],
      ['returns no token', 200, { token_type: 'Bearer' }, 502],
      ['returns a token that no header can hold', 200, { access_token: 'a\r\nb' }, 502],
      ['redirects', 302, {}, 502],
      ['sends an answer that is too long', 200, { access_token: 'a', pad: 'x'.repeat(70_000) }, 502],
      ['answers with dangerous keys', 200, '{"access_token":"a","__proto__":{}}', 502],
    ])(`${path}: a tracker that %s`, async (_what, status, answer, expected) => {
      const { post, upstream } = await startHelper()
      upstream.answer = { status, body: answer }
      const reply = await post(path, body)
      expect([reply.status, await reply.json()]).toEqual([expected, anError])
      // Sent once only, because a lost reply may have used up the grant.
      expect(upstream.asked).toHaveLength(1)
    })

    test(`${path}: a rate limit of the tracker is passed on with its own Retry-After`, async () => {
      const { post, upstream } = await startHelper()
      for (const after of ['17', 'Wed, 21 Oct 2026 07:28:00 GMT']) {
        upstream.answer = { status: 429, headers: { 'retry-after': after }, body: '' }
        const reply = await post(path, body)
        expect([reply.status, reply.headers.get('retry-after')]).toEqual([429, after])
        expect(await reply.json()).toEqual(anError)
      }
    })
  }

  test('an unreachable tracker is reported as 502', async () => {
    const { readHelperSettings } = await import('../../../oauth-helper/settings.ts')
    const nowhere = readHelperSettings({ secrets: SECRETS, trackerUrl: 'http://127.0.0.1:9' })
    if (!nowhere.ok) throw new Error(nowhere.refusal.message)
    const { post } = await startHelper({ settings: nowhere.value })
    expect((await post(REFRESH, { refresh_token: 'r' })).status).toBe(502)
  })

  test.each([
    ['nothing', EXCHANGE, undefined],
    ['no JSON', EXCHANGE, '{'],
    ['no code', EXCHANGE, { port: 1 }],
    ['an empty code', EXCHANGE, { code: '', port: 1 }],
    ['a port as text', EXCHANGE, { code: 'c', port: '1' }],
    ['a port beyond', EXCHANGE, { code: 'c', port: 65536 }],
    ['an unknown key', EXCHANGE, { code: 'c', port: 1, redirect_uri: 'https://evil.example' }],
    ['a token that is a number', REFRESH, { refresh_token: 1 }],
    ['a list', REFRESH, []],
    ['no device code', POLL, {}],
  ])('a body of %s is refused with 400 without a request to the tracker', async (_what, path, body) => {
    const { post, upstream } = await startHelper()
    const reply = await post(path, body)
    expect([reply.status, await reply.json()]).toEqual([400, anError])
    expect(upstream.asked).toEqual([])
  })
})

describe('the device flow', () => {
  const code = {
    device_code: 'd'.repeat(40),
    user_code: 'ABCD-1234',
    verification_uri: 'https://github.com/login/device',
    expires_in: 900,
    interval: 5,
    verification_uri_complete: 'https://github.com/login/device?user_code=ABCD-1234',
  }

  test('starts with the helper’s client id and returns the code host’s own fields', async () => {
    const { post, upstream } = await startHelper()
    upstream.answer = { body: code }
    const reply = await post(START)
    expect([reply.status, await reply.json()]).toEqual([200, code])
    expect(upstream.asked).toMatchObject([
      {
        path: '/login/device/code',
        form: { client_id: SECRETS.CODEHOST_CLIENT_ID, scope: 'repo' },
      },
    ])
  })

  test.each([
    ['pending', 200, { error: 'authorization_pending', error_uri: 'https://docs.example/x' }],
    ['asked to slow down', 200, { error: 'slow_down', interval: 10 }],
    ['pending, with the standard’s status', 400, { error: 'authorization_pending' }],
    ['confirmed', 200, { access_token: 'gho_x', token_type: 'bearer', scope: 'repo' }],
  ])('while %s the code host’s own fields are passed on', async (_what, status, body) => {
    const { post, upstream } = await startHelper()
    upstream.answer = { status, body }
    const reply = await post(POLL, { device_code: 'dc' })
    expect([reply.status, await reply.json()]).toEqual([200, body])
    expect(upstream.asked).toMatchObject([
      {
        path: '/login/oauth/access_token',
        form: {
          client_id: SECRETS.CODEHOST_CLIENT_ID,
          device_code: 'dc',
          grant_type: 'urn:ietf:params:oauth:grant-type:device_code',
        },
      },
    ])
    expect(upstream.asked[0]?.form.client_secret).toBeUndefined()
  })

  test.each([
    ['unknown client', START, 404, { error: 'Not Found' }, 502],
    ['no device flow', START, 200, { error: 'device_flow_disabled' }, 502],
    ['neither token nor error', POLL, 200, {}, 502],
    ['an outage', POLL, 500, '<html>', 502],
    ['too often', POLL, 429, '', 429],
  ])('%s is answered with the helper’s own error', async (_what, path, status, body, expected) => {
    const { post, upstream } = await startHelper()
    upstream.answer = { status, body }
    const reply = await post(path, path === POLL ? { device_code: 'dc' } : undefined)
    expect([reply.status, await reply.json()]).toEqual([expected, anError])
  })

  test('a secondary limit with status 403 is passed on as 429', async () => {
    const { post, upstream } = await startHelper()
    upstream.answer = { status: 403, headers: { 'retry-after': '60' }, body: '{}' }
    const reply = await post(START)
    expect([reply.status, reply.headers.get('retry-after')]).toEqual([429, '60'])
  })
})

describe('request checks', () => {
  test('an unknown path is 404, a known one with another method 405 with Allow', async () => {
    const { get, post, url } = await startHelper()
    const unknown = await get('/oauth/tracker/revoke')
    expect([unknown.status, await unknown.json()]).toEqual([404, anError])
    const wrong = await get(REFRESH)
    expect([wrong.status, wrong.headers.get('allow'), await wrong.json()]).toEqual([405, 'POST', anError])
    expect((await post('/health')).headers.get('allow')).toBe('GET')
    expect((await fetch(`${url}${REFRESH}`, { method: 'OPTIONS' })).status).toBe(405)
  })

  test('a request from a page script is refused, without CORS headers', async () => {
    const { post, get, upstream } = await startHelper()
    for (const origin of ['https://evil.example', 'null', 'http://localhost:4400']) {
      const reply = await post(REFRESH, { refresh_token: 'r' }, { origin })
      expect([reply.status, reply.headers.get('access-control-allow-origin')]).toEqual([403, null])
      expect((await get('/oauth/tracker/authorize?state=s&port=1', { origin })).status).toBe(403)
    }
    expect(upstream.asked).toEqual([])
  })

  test('a form body is not accepted as JSON', async () => {
    const { post } = await startHelper()
    const reply = await post(REFRESH, '{"refresh_token":"r"}', { 'content-type': 'text/plain' })
    expect(reply.status).toBe(400)
  })

  test('a body beyond a few KiB is 413, and a body of the longest code is not', async () => {
    const { post, upstream } = await startHelper()
    upstream.answer = { body: { access_token: 'a' } }
    expect((await post(REFRESH, { refresh_token: 'r'.repeat(HELPER_BODY_BYTES_MAX) })).status).toBe(413)
    expect((await post(REFRESH, { refresh_token: 'r'.repeat(8 * 1024) })).status).toBe(200)
    expect((await post(REFRESH, { refresh_token: 'r'.repeat(8 * 1024 + 1) })).status).toBe(400)
  })
})

describe('request limits by address', () => {
  test('too many requests are answered with the wait; health checks are free', async () => {
    const { get, post, upstream } = await startHelper({ requestsPerMinute: 3 })
    upstream.answer = { body: { access_token: 'a' } }
    for (let at = 0; at < 3; at++) expect((await get('/')).status).toBe(200)
    const refused = await post(REFRESH, { refresh_token: 'r' })
    expect([refused.status, await refused.json()]).toEqual([429, anError])
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0)
    expect(Number(refused.headers.get('retry-after'))).toBeLessThanOrEqual(20)
    expect((await get('/health')).status).toBe(200)
    expect(upstream.asked).toEqual([])
  })

  test('a refusal keeps the connection usable, whatever the request contained', async () => {
    const { helper } = await startHelper({ requestsPerMinute: 1 })
    const client = createRawClient(helper.port)
    const body = JSON.stringify({ refresh_token: 'r'.repeat(5_000) })
    const head = `POST ${REFRESH} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n`
    const post = `${head}content-length: ${body.length}\r\n\r\n${body}`
    const chunked = `${head}transfer-encoding: chunked\r\n\r\n${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`
    const statuses: number[] = []
    for (const request of [
      post,
      post,
      chunked,
      'HEAD / HTTP/1.1\r\nhost: x\r\n\r\n',
      'GET /health HTTP/1.1\r\nhost: x\r\n\r\n',
    ])
      statuses.push((await client.ask(request)).status)
    client.close()
    expect(statuses).toEqual([502, 429, 429, 429, 200])
  })

  test('without a balancer a header does not give a new bucket', async () => {
    const { get } = await startHelper({ requestsPerMinute: 1 })
    expect((await get('/', { 'x-forwarded-for': '198.51.100.1' })).status).toBe(200)
    expect((await get('/', { 'x-forwarded-for': '198.51.100.2' })).status).toBe(429)
  })

  test('behind a balancer each client has its own bucket, whatever it writes into the header', async () => {
    const { get } = await startHelper({ requestsPerMinute: 1, trustedProxies: 1 })
    expect((await get('/', { 'x-forwarded-for': '198.51.100.1' })).status).toBe(200)
    expect((await get('/', { 'x-forwarded-for': '198.51.100.2' })).status).toBe(200)
    expect((await get('/', { 'x-forwarded-for': '203.0.113.9, 198.51.100.1' })).status).toBe(429)
  })
})

describe('stored data', () => {
  test('no code, token, state or body appears in the log', async () => {
    const { get, post, upstream, log } = await startHelper()
    await get('/oauth/tracker/authorize?state=planted-state&port=4400')
    for (const body of [
      { access_token: 'planted-access', refresh_token: 'planted-next' },
      '<planted-page>',
    ]) {
      upstream.answer = { body }
      await post(EXCHANGE, { code: 'planted-code', port: 4400 })
      await post(REFRESH, { refresh_token: 'planted-refresh' })
      await post(POLL, { device_code: 'planted-device' })
      await post(REFRESH, { refresh_token: 'planted-refresh', more: 'planted-more' })
      await post(REFRESH, '{"planted')
    }
    const logged = JSON.stringify(log.lines)
    expect(logged).not.toMatch(/planted/)
    expect(logged).toContain('/oauth/tracker/refresh')
    expect(log.lines.filter(({ level }) => level === 'error' || level === 'warn')).toEqual([])
  })

  test('earlier requests do not change an answer', async () => {
    const [first, second] = [await startHelper(), await startHelper()]
    first.upstream.answer = {
      body: { device_code: 'dc', user_code: 'U', verification_uri: 'https://x.example', expires_in: 9 },
    }
    second.upstream.answer = { body: { access_token: 'gho_x' } }
    await first.post(START)
    expect(await (await second.post(POLL, { device_code: 'dc' })).json()).toEqual({ access_token: 'gho_x' })
  })
})

describe('shutdown', () => {
  test('waits for running replies and accepts no new connection', async () => {
    const { helper, post, get, upstream } = await startHelper()
    upstream.answer = { body: { access_token: 'late' }, afterMs: 300 }
    const waiting = post(REFRESH, { refresh_token: 'r' })
    await until('the tracker to be asked', () => upstream.asked.length === 1)
    const closed = helper.close()
    await expect(
      get('/').then(
        ({ status }) => status,
        () => 'refused',
      ),
    ).resolves.not.toBe(200)
    expect(await (await waiting).json()).toEqual({ access_token: 'late' })
    await closed
  })

  test('waits for a slow tracker, because the old token is used up by then', async () => {
    const clock = new ManualClock()
    const { helper, post, upstream } = await startHelper({ clock })
    upstream.answer = { body: { access_token: 'late' }, afterMs: 500 }
    const waiting = post(REFRESH, { refresh_token: 'r' })
    await until('the tracker to be asked', () => upstream.asked.length === 1)
    const closed = helper.close()
    await clock.advance(HELPER_UPSTREAM_MS_MAX - 1)
    expect(await (await waiting).json()).toEqual({ access_token: 'late' })
    await clock.advance(1_000)
    await closed
  })

  test('fits into the stop timeout of the service manager', () => {
    const leastSeconds = HELPER_DRAIN_MS_MAX / 1000 + 2
    const unit = readFileSync('oauth-helper/deploy/switchyard-oauth-helper.service', 'utf8')
    expect(Number(/^TimeoutStopSec=(\d+)$/m.exec(unit)?.[1])).toBeGreaterThan(leastSeconds)
    const image = readFileSync('oauth-helper/deploy/Dockerfile', 'utf8')
    for (const [, seconds] of image.matchAll(/--stop-timeout (\d+)/g))
      expect(Number(seconds)).toBeGreaterThan(leastSeconds)
    expect(image).toMatch(/--stop-timeout/)
  })
})
