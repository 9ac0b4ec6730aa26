/** What a host makes of a helper that misbehaves, or of whatever else answers at its address. */
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
    ['the helper says that it is dead', 401, { error: 'not taken any more' }, 'unauthorized'],
    ['a network wants a login first', 401, '<html>', 'failed'],
    ['a proxy wants a login first', 407, '', 'failed'],
    ['nothing is there', 404, { error: 'there is nothing at this path' }, 'failed'],
    ['the helper is stopping', 503, { error: 'the service is stopping' }, 'unavailable'],
    ['something before it is out of order', 502, '<html>', 'unavailable'],
    ['it is no answer', 200, 'ok', 'failed'],
    ['there is no token in it', 200, {}, 'failed'],
    ['a token could not go into a header', 200, { access_token: 'a b' }, 'failed'],
    ['keys are there that hurt', 200, '{"access_token":"a","__proto__":{}}', 'failed'],
  ])('is refused, when %s, as that kind', async (_what, status, body, kind) => {
    const { upstream, config, accounts } = await bench()
    upstream.answer = { status, body }
    const answer = await accounts.refreshTrackerToken(config, 'planted-refresh')
    expect(answer).toMatchObject(refusedAs(kind))
    expect(JSON.stringify(answer)).not.toContain('planted')
    expect(upstream.asked.map(({ method, path }) => [method, path])).toEqual([
      ['POST', '/base/oauth/tracker/refresh'],
    ])
  })

  test('a wait that is asked for is named, and nobody is asked twice', async () => {
    const { upstream, config, accounts } = await bench()
    upstream.answer = { status: 429, headers: { 'retry-after': '7' }, body: { error: 'x' } }
    expect(await accounts.refreshTrackerToken(config, 'r')).toMatchObject(
      refusedAs('unavailable', /no request is sent before/),
    )
    expect(upstream.asked).toHaveLength(1)
  })

  test('one that stays good, and one that never runs out, are told by their absence', async () => {
    const { upstream, config, accounts } = await bench()
    upstream.answer = { body: { access_token: 'A', refresh_token: '' } }
    expect(await accounts.refreshTrackerToken(config, 'r')).toMatchObject(refusedAs('failed'))
    upstream.answer = { body: { access_token: 'A' } }
    expect(await accounts.refreshTrackerToken(config, 'r')).toEqual({ ok: true, value: { accessToken: 'A' } })
    upstream.answer = { body: { access_token: 'A', expires_in: 1e300 } }
    expect(await accounts.refreshTrackerToken(config, 'r')).toMatchObject({ ok: true })
  })

  test('a helper that is away passes', async () => {
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
  ])('is not begun with %s', async (_what, wrong) => {
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
  ])('%s is understood', async (error, value) => {
    const { upstream, config, accounts } = await bench()
    upstream.answer = { body: { error } }
    expect(await accounts.pollDevice(config, 'd')).toMatchObject({ ok: true, value })
  })

  test('what cannot be understood or reached just now does not end it', async () => {
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
