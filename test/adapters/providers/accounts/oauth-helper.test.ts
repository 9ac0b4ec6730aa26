/** The helper client against a helper that misbehaves, or another server at its address. */
import { describe, expect, test } from '@jest/globals'
import { startUpstream } from '../../oauth-helper/helper-fixture.ts'
import { configWith, createTestAccounts, refusedAs } from './accounts-fixture.ts'

async function bench() {
  const upstream = await startUpstream()
  const config = configWith({ connect: { apiBase: `${upstream.url}/base/?ignored#ignored` } })
  const accounts = createTestAccounts()
  return { upstream, config, accounts }
}

describe('a refresh token', () => {
  test.each([
    ['the helper reports it as invalid', 401, { error: 'not taken any more' }, 'unauthorized'],
    ['a captive portal answers', 401, '<html>', 'failed'],
    ['a proxy requires a login', 407, '', 'failed'],
    ['the route does not exist', 404, { error: 'unknown path' }, 'failed'],
    ['the helper is stopping', 503, { error: 'the service is stopping' }, 'unavailable'],
    ['a gateway has an outage', 502, '<html>', 'unavailable'],
    ['the reply is no JSON', 200, 'ok', 'failed'],
    ['the reply holds no token', 200, {}, 'failed'],
    ['the token cannot stand in a header', 200, { access_token: 'a b' }, 'failed'],
    ['the reply holds dangerous keys', 200, '{"access_token":"a","__proto__":{}}', 'failed'],
  ])('is refused when %s', async (_what, status, body, kind) => {
    const { upstream, config, accounts } = await bench()
    upstream.answer = { status, body }
    const answer = await accounts.refreshTrackerToken(config, 'planted-refresh')
    expect(answer).toMatchObject(refusedAs(kind))
    expect(JSON.stringify(answer)).not.toContain('planted')
    expect(upstream.asked.map(({ method, path }) => [method, path])).toEqual([
      ['POST', '/base/oauth/tracker/refresh'],
    ])
  })

  test('a stated wait is passed on, and no second request is sent', async () => {
    const { upstream, config, accounts } = await bench()
    upstream.answer = { status: 429, headers: { 'retry-after': '7' }, body: { error: 'x' } }
    expect(await accounts.refreshTrackerToken(config, 'r')).toMatchObject(
      refusedAs('unavailable', /no request is sent before/),
    )
    expect(upstream.asked).toHaveLength(1)
  })

  test('an omitted refresh token stays valid, and an omitted lifetime means no expiry', async () => {
    const { upstream, config, accounts } = await bench()
    upstream.answer = { body: { access_token: 'A', refresh_token: '' } }
    expect(await accounts.refreshTrackerToken(config, 'r')).toMatchObject(refusedAs('failed'))
    upstream.answer = { body: { access_token: 'A' } }
    expect(await accounts.refreshTrackerToken(config, 'r')).toEqual({ ok: true, value: { accessToken: 'A' } })
    upstream.answer = { body: { access_token: 'A', expires_in: 1e300 } }
    expect(await accounts.refreshTrackerToken(config, 'r')).toMatchObject({ ok: true })
  })

  test('an unreachable helper is a passing failure', async () => {
    const accounts = createTestAccounts()
    const config = configWith({ connect: { apiBase: 'http://127.0.0.1:9' } })
    expect(await accounts.refreshTrackerToken(config, 'r')).toMatchObject(
      refusedAs('failed', /127\.0\.0\.1:9/),
    )
  })
})

describe('a device flow', () => {
  test.each([
    ['no code', {}],
    ['a page that runs a script', { verification_uri: 'javascript:alert(1)' }],
    ['a page without encryption', { verification_uri: 'http://code.example/device' }],
    ['a page with a user in it', { verification_uri: 'https://github.com@evil.example/' }],
  ])('does not start with %s', async (_what, wrong) => {
    const { upstream, config, accounts } = await bench()
    const right = {
      device_code: 'd',
      user_code: 'U',
      verification_uri: 'https://x.example/',
      expires_in: 900,
    }
    upstream.answer = { body: Object.keys(wrong).length === 0 ? {} : { ...right, ...wrong } }
    expect(await accounts.startDevice(config)).toMatchObject(refusedAs('failed'))
    upstream.answer = { body: right }
    expect(await accounts.startDevice(config)).toMatchObject({ ok: true, value: { intervalSeconds: 5 } })
  })

  test.each([
    ['authorization_pending', { is: 'pending' }],
    ['slow_down', { is: 'pending', isTooFast: true }],
    ['expired_token', { is: 'over' }],
    ['token_expired', { is: 'over' }],
    ['access_denied', { is: 'over' }],
    ['incorrect_device_code', { is: 'over' }],
    ['incorrect_client_credentials', { is: 'over' }],
    ['unsupported_grant_type', { is: 'over' }],
    ['device_flow_disabled', { is: 'over' }],
    ['something_new', { is: 'over', reason: expect.stringContaining('something_new') }],
  ])('the error %s is recognized', async (error, value) => {
    const { upstream, config, accounts } = await bench()
    upstream.answer = { body: { error } }
    expect(await accounts.pollDevice(config, 'd')).toMatchObject({ ok: true, value })
  })

  test('an unreadable reply or an unreachable helper does not end it', async () => {
    const { upstream, config, accounts } = await bench()
    for (const [status, body] of [
      [502, { error: 'the code host could not be reached' }],
      [200, {}],
      [200, '<html>'],
      [200, { access_token: 'a\nb' }],
    ] as const) {
      upstream.answer = { status, body }
      expect((await accounts.pollDevice(config, 'd')).ok).toBe(false)
    }
  })
})
