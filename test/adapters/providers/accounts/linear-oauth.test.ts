/** Linear's OAuth with the person's own client id: addresses, replies and refusals. */
import { createHash } from 'node:crypto'
import { describe, expect, test } from '@jest/globals'
import { realClock, realRandom } from '../../../../bin/process/clock.ts'
import { configDefaults, type ServiceConfig } from '../../../../protocol/config.ts'
import {
  authorizeLinear,
  checkLinear,
  exchangeLinear,
  refreshLinear,
} from '../../../../providers/accounts/linear-oauth.ts'
import { HttpClientPool } from '../../../../providers/http/client-pool.ts'
import { createHttp } from '../../../../providers/http/http.ts'
import type { Http, HttpReply, HttpRequest } from '../../../../providers/http/http-types.ts'
import { LINEAR_RATE_LIMITS } from '../../../../providers/tracker/linear/rate-limits.ts'
import { startLinear } from '../../../support/linear/linear.ts'
import { ManualClock } from '../../../support/manual-clock.ts'
import { createRecordingLog } from '../../../support/recording-log.ts'

const CODE = 'code-of-the-consent'
const OLD = 'refresh-token-of-old'
const SECRET = 'client-secret'
const random = { bytes: (count: number) => new Uint8Array(count).fill(7) }

function configFor(connect: Partial<ServiceConfig['connect']>, apiUrl?: string): ServiceConfig {
  const tracker = { ...configDefaults.tracker, ...(apiUrl && { apiUrl }) }
  return { ...configDefaults, tracker, connect: { trackerClientId: 'client-1', ...connect } }
}

function httpReplying(status: number, body: unknown, headers: Record<string, string> = {}) {
  const requests: HttpRequest[] = []
  const text = typeof body === 'string' ? body : JSON.stringify(body)
  const http: Http = {
    send: async (request) => {
      requests.push(request)
      const value: HttpReply = { status, headers, text }
      return { ok: true, value }
    },
    close: async () => {},
  }
  const form = () => Object.fromEntries(new URLSearchParams(requests[0]?.body ?? ''))
  return { http, requests, form }
}

const TOKENS = {
  access_token: 'lin_oauth_new',
  expires_in: 86_399,
  refresh_token: 'next',
  scope: ['read', 'write'],
}

describe('the address of the consent page', () => {
  test('requests read and write access, with a state and a PKCE challenge', () => {
    const authorization = authorizeLinear(configFor({}), { state: 's t&1', port: 4400 }, random)
    if (!authorization.ok) throw new Error(authorization.refusal.message)
    const url = new URL(authorization.value.url)
    const { verifier = '' } = authorization.value
    expect(url.origin + url.pathname).toBe('https://linear.app/oauth/authorize')
    expect(verifier).toMatch(/^[A-Za-z0-9_-]{43}$/)
    expect(Object.fromEntries(url.searchParams)).toEqual({
      client_id: 'client-1',
      redirect_uri: 'http://localhost:4400/api/connect/tracker/callback',
      response_type: 'code',
      scope: 'read,write',
      state: 's t&1',
      code_challenge: createHash('sha256').update(verifier).digest('base64url'),
      code_challenge_method: 'S256',
    })
  })

  test('uses the configured address', () => {
    const config = configFor({}, 'http://127.0.0.1:99/graphql')
    const authorization = authorizeLinear(config, { state: 's', port: 1 }, random)
    expect(authorization.ok && authorization.value.url).toMatch(
      /^http:\/\/127\.0\.0\.1:99\/oauth\/authorize\?/,
    )
  })

  test('is refused without a client id', () => {
    expect(authorizeLinear(configDefaults, { state: 's', port: 1 }, random)).toMatchObject({
      refusal: { kind: 'invalid', message: expect.stringContaining('connect.trackerClientId') },
    })
  })
})

describe('a code is exchanged for tokens', () => {
  test('with the verifier, and with the secret when one is set', async () => {
    const clock = new ManualClock(Date.UTC(2026, 0, 1))
    const { http, requests, form } = httpReplying(200, TOKENS)
    const order = { code: CODE, port: 4400, verifier: 'v' }
    expect(await exchangeLinear(http, clock, configFor({ trackerClientSecret: SECRET }), order)).toEqual({
      ok: true,
      value: { accessToken: 'lin_oauth_new', refreshToken: 'next', expiresAt: '2026-01-01T23:59:59.000Z' },
    })
    expect(form()).toEqual({
      grant_type: 'authorization_code',
      code: CODE,
      redirect_uri: 'http://localhost:4400/api/connect/tracker/callback',
      client_id: 'client-1',
      client_secret: SECRET,
      code_verifier: 'v',
    })
    expect(requests).toMatchObject([
      {
        url: 'https://api.linear.app/oauth/token',
        tries: 1,
        headers: { 'content-type': 'application/x-www-form-urlencoded' },
      },
    ])
    expect(requests[0]?.url).not.toContain(CODE)
  })
})

describe('tokens are renewed', () => {
  test('with the client id alone', async () => {
    const { http, form } = httpReplying(200, TOKENS)
    await refreshLinear(http, new ManualClock(), configFor({}), OLD)
    expect(form()).toEqual({ grant_type: 'refresh_token', refresh_token: OLD, client_id: 'client-1' })
  })

  test.each<[string, object, object]>([
    ['no refresh token: the old one stays', { access_token: 'a' }, { accessToken: 'a' }],
    ['an invalid lifetime is ignored', { access_token: 'a', expires_in: 'soon' }, { accessToken: 'a' }],
    ['a negative lifetime is ignored', { access_token: 'a', expires_in: -5 }, { accessToken: 'a' }],
    [
      'an endless one ends',
      { access_token: 'a', expires_in: 1e300 },
      { accessToken: 'a', expiresAt: '2035-12-30T00:00:00.000Z' },
    ],
  ])('%s', async (_, body, expected) => {
    const { http } = httpReplying(200, body)
    const clock = new ManualClock(Date.UTC(2026, 0, 1))
    expect(await refreshLinear(http, clock, configFor({}), OLD)).toEqual({ ok: true, value: expected })
  })

  test.each<[number, unknown, Record<string, string>, string, RegExp]>([
    [400, { error: 'invalid_grant' }, {}, 'unauthorized', /connect Linear again/],
    [401, { error: 'invalid_grant' }, {}, 'unauthorized', /connect Linear again/],
    [
      400,
      { error: 'invalid_client' },
      {},
      'failed',
      /correct connect.trackerClientId and connect.trackerClientSecret/,
    ],
    [401, { error: 'unauthorized_client' }, {}, 'failed', /trackerClientSecret/],
    [401, '', {}, 'failed', /trackerClientId/],
    [429, '', { 'retry-after': '17' }, 'unavailable', /in 17 s$/],
    [429, { error: 'invalid_grant' }, {}, 'unavailable', /later$/],
    [
      400,
      { error: 'invalid_request', error_description: `bad ${OLD}, ${SECRET}` },
      {},
      'failed',
      /bad \*\*\*, \*\*\*$/,
    ],
    [503, { error: 'invalid_client' }, {}, 'unavailable', /unavailable \(status 503\)/],
    [502, '<html>', {}, 'unavailable', /is unavailable/],
    [404, '<html>', {}, 'failed', /tracker.apiUrl/],
    [200, '<html>', {}, 'failed', /returned no token/],
    [200, { access_token: '' }, {}, 'failed', /returned no token/],
    [200, { access_token: 'with a space\n' }, {}, 'failed', /returned no token/],
    [200, { access_token: 'x'.repeat(9_000) }, {}, 'failed', /returned no token/],
    [200, { error: 'invalid_grant' }, {}, 'failed', /returned no token/],
  ])('%d %j %j: %s', async (status, body, headers, kind, message) => {
    const { http, requests } = httpReplying(status, body, headers)
    const config = configFor({ trackerClientSecret: SECRET })
    const answer = await refreshLinear(http, new ManualClock(), config, OLD)
    expect(answer).toMatchObject({ ok: false, refusal: { kind } })
    expect(answer.ok ? '' : answer.refusal.message).toMatch(message)
    expect(JSON.stringify(answer)).not.toMatch(/refresh-token-of-old|client-secret/)
    expect(requests).toHaveLength(1)
  })
})

describe('against a fake Linear', () => {
  const CALLBACK = 'http://localhost:4400/api/connect/tracker/callback'

  async function bench(secret?: string) {
    const linear = await startLinear({ app: { redirectUris: [CALLBACK] } })
    const http = createHttp({ clock: realClock, random: realRandom })
    const { clientId, clientSecret } = linear.app
    const own = { trackerClientId: clientId, ...(secret && { trackerClientSecret: secret }) }
    const stop = async () => {
      await http.close()
      await linear.stop()
    }
    return { linear, http, clientSecret, config: configFor(own, linear.url), stop }
  }

  async function connected({ linear, http, config }: Awaited<ReturnType<typeof bench>>) {
    const authorization = authorizeLinear(config, { state: 's', port: 4400 }, realRandom)
    if (!authorization.ok) throw new Error(authorization.refusal.message)
    const back = linear.consent(authorization.value.url)
    const code = back.searchParams.get('code') ?? ''
    expect([back.origin + back.pathname, back.searchParams.get('state')]).toEqual([CALLBACK, 's'])
    const { verifier } = authorization.value
    return {
      order: { code, port: 4400, verifier },
      pair: await exchangeLinear(http, realClock, config, { code, port: 4400, verifier }),
    }
  }

  test('a consent leads to a working token, and a refresh to a new one', async () => {
    const made = await bench()
    const { linear, http, config } = made
    const { pair, order } = await connected(made)
    if (!pair.ok || pair.value.refreshToken === undefined) throw new Error('no tokens')
    const { accessToken, refreshToken } = pair.value
    const pool = new HttpClientPool({ http, clock: realClock, random: realRandom, log: createRecordingLog() })
    const client = pool.clientFor(LINEAR_RATE_LIMITS, linear.url, accessToken)
    const withToken = { ...config, tracker: { ...config.tracker, apiKey: accessToken } }
    expect(await checkLinear(client, withToken)).toEqual({ ok: true, value: 'Ada Lovelace in Acme' })
    const again = await exchangeLinear(http, realClock, config, order)
    expect(again).toMatchObject({ refusal: { kind: 'unauthorized' } })
    const renewed = await refreshLinear(http, realClock, config, refreshToken)
    expect(renewed.ok && renewed.value.refreshToken !== refreshToken).toBe(true)
    const dead = await refreshLinear(http, realClock, config, refreshToken)
    expect(dead).toMatchObject({ refusal: { kind: 'unauthorized' } })
    pool.close()
    await made.stop()
  })

  test('a lost reply is not requested again', async () => {
    const made = await bench()
    const { refreshToken } = made.linear.grant()
    made.linear.onTokenAnswer = () => 'drop'
    const lost = await refreshLinear(made.http, realClock, made.config, refreshToken)
    expect(lost).toMatchObject({ refusal: { kind: 'failed' } })
    expect(made.linear.tokenCalls).toHaveLength(1)
    await made.stop()
  })

  test('a rate limit, an outage and a wrong secret are distinguished', async () => {
    const made = await bench('not the secret')
    const { refreshToken } = made.linear.grant()
    const kind = async () => {
      const answer = await refreshLinear(made.http, realClock, made.config, refreshToken)
      return answer.ok ? 'renewed' : answer.refusal.kind
    }
    made.linear.tokenFaults.add({ kind: 'too-many', retryAfterSeconds: 1 }, { times: 1 })
    expect(await kind()).toBe('unavailable')
    made.linear.tokenFaults.add({ kind: 'html', status: 503 }, { times: 1 })
    expect(await kind()).toBe('unavailable')
    expect(await kind()).toBe('failed')
    expect(made.linear.tokenCalls).toHaveLength(3)
    await made.stop()
  })

  test('a verifier of another flow exchanges nothing', async () => {
    const made = await bench()
    const authorization = authorizeLinear(made.config, { state: 's', port: 4400 }, realRandom)
    const code =
      made.linear.consent(authorization.ok ? authorization.value.url : '').searchParams.get('code') ?? ''
    const answer = await exchangeLinear(made.http, realClock, made.config, {
      code,
      port: 4400,
      verifier: 'x'.repeat(43),
    })
    expect(answer).toMatchObject({ refusal: { kind: 'unauthorized' } })
    await made.stop()
  })
})

describe('the owner of a credential', () => {
  const clientReplying = (status: number, body: unknown) => ({
    send: async () => ({ ok: true, value: { status, headers: {}, text: JSON.stringify(body) } }) as const,
  })
  const connected: ServiceConfig = {
    ...configDefaults,
    tracker: { ...configDefaults.tracker, apiKey: 'lin_api_x' },
  }

  test('is returned for display', async () => {
    const viewer = { id: 'u', name: 'Ada', displayName: 'ada' }
    const body = { data: { viewer, organization: { name: 'Acme', urlKey: 'acme' } } }
    expect(await checkLinear(clientReplying(200, body), connected)).toEqual({
      ok: true,
      value: 'Ada in Acme',
    })
    expect(await checkLinear(clientReplying(200, { data: { viewer } }), connected)).toEqual({
      ok: true,
      value: 'Ada',
    })
  })

  test('is not returned for a refused or missing credential', async () => {
    expect(await checkLinear(clientReplying(401, {}), connected)).toMatchObject({
      refusal: { kind: 'unauthorized' },
    })
    expect(await checkLinear(clientReplying(200, { data: { a: 1 } }), connected)).toMatchObject({
      refusal: { kind: 'failed' },
    })
    expect(await checkLinear(clientReplying(200, {}), configDefaults)).toMatchObject({
      refusal: { kind: 'invalid' },
    })
  })
})
