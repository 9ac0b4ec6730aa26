/** Whole OAuth flows against fake trackers and code hosts, with and without a helper. */
import { describe, expect, test } from '@jest/globals'
import { realClock, realRandom } from '../../../../bin/process/clock.ts'
import { startHelperServer } from '../../../../oauth-helper/server.ts'
import { readHelperSettings } from '../../../../oauth-helper/settings.ts'
import type { ServiceConfig } from '../../../../protocol/config.ts'
import { HttpClientPool } from '../../../../providers/http/client-pool.ts'
import { createHttp } from '../../../../providers/http/http.ts'
import { type FakeGithub, startGithub } from '../../../support/github/github.ts'
import { type FakeLinear, startLinear } from '../../../support/linear/linear.ts'
import { ManualClock } from '../../../support/manual-clock.ts'
import { createRecordingLog } from '../../../support/recording-log.ts'
import { testListener } from '../../../support/test-listener.ts'
import { closeAfterTest, configWith, createTestAccounts, refusedAs } from './accounts-fixture.ts'

const PORT = 4400
const REDIRECT = `http://localhost:${PORT}/api/connect/tracker/callback`

async function startTestLinear(): Promise<FakeLinear> {
  const linear = await startLinear({ app: { redirectUris: [REDIRECT] } })
  closeAfterTest(() => linear.stop())
  return linear
}

async function startTestGithub(clock?: ManualClock): Promise<FakeGithub> {
  const github = await startGithub(clock === undefined ? {} : { clock })
  closeAfterTest(() => github.close())
  return github
}

/** Starts the real helper in front of both fakes. Returns its address. */
async function startTestHelper(linear: FakeLinear, github: FakeGithub): Promise<string> {
  const settings = readHelperSettings({
    secrets: {
      CODEHOST_CLIENT_ID: github.device.settings.clientId,
      TRACKER_CLIENT_ID: linear.app.clientId,
      TRACKER_CLIENT_SECRET: linear.app.clientSecret,
    },
    trackerUrl: linear.url,
    codehostUrl: github.origin,
  })
  if (!settings.ok) throw new Error(settings.refusal.message)
  const http = createHttp({ clock: realClock, random: realRandom })
  const helper = await startHelperServer({
    listener: testListener(),
    settings: settings.value,
    http,
    clock: realClock,
    log: createRecordingLog(),
    address: { host: '127.0.0.1', port: 0 },
    docsUrl: '/',
    requestsPerMinute: 1_000,
    trustedProxies: 0,
  })
  if (!helper.ok) throw new Error(helper.refusal.message)
  closeAfterTest(async () => {
    await helper.value.close()
    await http.close()
  })
  return `http://127.0.0.1:${helper.value.port}`
}

function unwrap<T>(answer: { ok: true; value: T } | { ok: false; refusal: { message: string } }): T {
  if (!answer.ok) throw new Error(answer.refusal.message)
  return answer.value
}

/** During a pause that the token service stated, all callers together send no further request. */
async function expectNoRequestDuringPause(config: ServiceConfig, linear: FakeLinear): Promise<void> {
  const clock = new ManualClock()
  const http = createHttp({ clock: realClock, random: realRandom })
  closeAfterTest(() => http.close())
  const pool = new HttpClientPool({ http, clock, random: realRandom, log: createRecordingLog() })
  const accounts = createTestAccounts({ http, clients: pool, clock })
  const { refreshToken } = linear.grant()
  linear.tokenFaults.add({ kind: 'too-many', retryAfterSeconds: 600 }, { times: 1 })
  for (let tries = 0; tries < 5; tries++) {
    expect(await accounts.refreshTrackerToken(config, refreshToken)).toMatchObject(refusedAs('unavailable'))
    await clock.advance(100_000)
  }
  expect(linear.tokenCalls).toHaveLength(1)
  await clock.advance(101_000)
  expect(await accounts.refreshTrackerToken(config, refreshToken)).toMatchObject({ ok: true })
}

describe('with the person’s own client id', () => {
  test('the tracker flow uses PKCE, checks the account, and renews its token', async () => {
    const linear = await startTestLinear()
    const config = configWith({
      tracker: { apiUrl: linear.url },
      connect: { trackerClientId: linear.app.clientId },
    })
    const accounts = createTestAccounts()
    const authorization = unwrap(accounts.authorizeTracker(config, { state: 'the-state', port: PORT }))
    const back = linear.consent(authorization.url)
    expect(back.searchParams.get('state')).toBe('the-state')
    const order = {
      code: back.searchParams.get('code') ?? '',
      port: PORT,
      verifier: authorization.verifier ?? '',
    }
    const pair = unwrap(await accounts.exchangeTrackerCode(config, order))
    expect(await accounts.exchangeTrackerCode(config, order)).toMatchObject(refusedAs('unauthorized'))
    const renewed = unwrap(await accounts.refreshTrackerToken(config, pair.refreshToken ?? ''))
    const connected = { ...config, tracker: { ...config.tracker, apiKey: renewed.accessToken } }
    expect(await accounts.checkTracker(connected)).toMatchObject({
      ok: true,
      value: expect.stringContaining('Acme'),
    })
  })

  test('no token is requested before the wait is over that the service stated', async () => {
    const linear = await startTestLinear()
    const config = configWith({
      tracker: { apiUrl: linear.url },
      connect: { trackerClientId: linear.app.clientId, trackerClientSecret: linear.app.clientSecret },
    })
    await expectNoRequestDuringPause(config, linear)
  })

  test('the device flow of the code host gives a token that works', async () => {
    const clock = new ManualClock()
    const github = await startTestGithub(clock)
    const config = configWith({
      codehost: { apiUrl: github.apiUrl },
      connect: { codehostClientId: github.device.settings.clientId },
    })
    await connectByDeviceFlow(config, github, clock)
  })

  test('an unknown client id, or one without the device flow, is named in the refusal', async () => {
    const github = await startTestGithub()
    const config = configWith({
      codehost: { apiUrl: github.apiUrl },
      connect: { codehostClientId: 'nobody' },
    })
    const accounts = createTestAccounts()
    expect(await accounts.startDevice(config)).toMatchObject(
      refusedAs('invalid', /connect\.codehostClientId/),
    )
    github.device.settings.enabled = false
    const known = configWith({
      codehost: { apiUrl: github.apiUrl },
      connect: { codehostClientId: github.device.settings.clientId },
    })
    expect(await accounts.startDevice(known)).toMatchObject(refusedAs('invalid', /Device Flow/))
  })
})

/** Polls while unconfirmed and too early, then confirms and checks the token. */
async function connectByDeviceFlow(
  config: ServiceConfig,
  github: FakeGithub,
  clock: ManualClock,
): Promise<void> {
  const accounts = createTestAccounts()
  const started = unwrap(await accounts.startDevice(config))
  expect(started).toMatchObject({
    verificationUri: 'https://github.com/login/device',
    intervalSeconds: 5,
    expiresInSeconds: 900,
  })
  const poll = () => accounts.pollDevice(config, started.deviceCode)
  expect(await poll()).toEqual({ ok: true, value: { is: 'pending', intervalSeconds: 10 } })
  clock.jumpWallClock(10_000)
  expect(await poll()).toEqual({ ok: true, value: { is: 'pending' } })
  github.device.approve(started.userCode, 'mona')
  clock.jumpWallClock(10_000)
  const { is, token } = unwrap(await poll()) as { is: string; token: string }
  expect(is).toBe('token')
  const connected = { ...config, codehost: { ...config.codehost, token } }
  expect(await accounts.checkCodehost(connected)).toMatchObject({
    ok: true,
    value: expect.stringContaining('mona'),
  })
  expect(unwrap(await poll())).toMatchObject({ is: 'over' })
  const denied = unwrap(await accounts.startDevice(config))
  github.device.deny(denied.userCode)
  clock.jumpWallClock(10_000)
  expect(unwrap(await accounts.pollDevice(config, denied.deviceCode))).toMatchObject({ is: 'over' })
  const late = unwrap(await accounts.startDevice(config))
  clock.jumpWallClock(901_000)
  expect(unwrap(await accounts.pollDevice(config, late.deviceCode))).toMatchObject({
    is: 'over',
    reason: expect.stringContaining('connect again'),
  })
}

describe('without a client id, through the helper', () => {
  test('the tracker flow gives a token, and no secret of the helper reaches this machine', async () => {
    const [linear, github] = [await startTestLinear(), await startTestGithub()]
    const apiBase = await startTestHelper(linear, github)
    const config = configWith({ tracker: { apiUrl: linear.url }, connect: { apiBase: `${apiBase}/` } })
    const accounts = createTestAccounts()
    const authorization = unwrap(accounts.authorizeTracker(config, { state: 'the state', port: PORT }))
    expect(authorization.verifier).toBeUndefined()
    expect(new URL(authorization.url).origin).toBe(apiBase)
    const sent = await fetch(authorization.url, { redirect: 'manual' })
    const back = linear.consent(sent.headers.get('location') ?? '')
    expect(back.origin + back.pathname).toBe(REDIRECT)
    expect(back.searchParams.get('state')).toBe('the state')
    const code = back.searchParams.get('code') ?? ''
    const pair = unwrap(await accounts.exchangeTrackerCode(config, { code, port: PORT }))
    expect(Date.parse(pair.expiresAt ?? '') - Date.now()).toBeGreaterThan(80_000_000)
    expect(await accounts.exchangeTrackerCode(config, { code, port: PORT })).toMatchObject(
      refusedAs('unauthorized'),
    )
    const renewed = unwrap(await accounts.refreshTrackerToken(config, pair.refreshToken ?? ''))
    const connected = { ...config, tracker: { ...config.tracker, apiKey: renewed.accessToken } }
    expect(unwrap(await accounts.checkTracker(connected))).toContain('Acme')
    linear.tokenFaults.add({ kind: 'oauth', error: 'invalid_grant' }, { times: 1 })
    const dead = await accounts.refreshTrackerToken(config, renewed.refreshToken ?? '')
    expect(dead).toMatchObject(refusedAs('unauthorized', /connect again/))
  })

  test('a passing failure of the tracker does not disconnect it', async () => {
    const [linear, github] = [await startTestLinear(), await startTestGithub()]
    const config = configWith({ connect: { apiBase: await startTestHelper(linear, github) } })
    const accounts = createTestAccounts()
    const refreshed = async () => accounts.refreshTrackerToken(config, 'whatever')
    linear.tokenFaults.add({ kind: 'html', status: 502 }, { times: 1 })
    expect(await refreshed()).toMatchObject(refusedAs('unavailable'))
    linear.tokenFaults.add({ kind: 'oauth', error: 'invalid_client', status: 401 }, { times: 1 })
    expect(await refreshed()).toMatchObject(refusedAs('unavailable', /invalid_client/))
    linear.tokenFaults.add({ kind: 'reset' }, { times: 1 })
    expect(await refreshed()).toMatchObject(refusedAs('unavailable'))
    expect(linear.tokenCalls.length).toBeLessThanOrEqual(4)
    linear.tokenFaults.add({ kind: 'too-many', retryAfterSeconds: 42 }, { times: 1 })
    expect(await refreshed()).toMatchObject(refusedAs('unavailable', /no request is sent before/))
  })

  test('the device flow of the code host gives a token', async () => {
    const clock = new ManualClock()
    const [linear, github] = [await startTestLinear(), await startTestGithub(clock)]
    const apiBase = await startTestHelper(linear, github)
    await connectByDeviceFlow(
      configWith({ codehost: { apiUrl: github.apiUrl }, connect: { apiBase } }),
      github,
      clock,
    )
  })

  test('no token is requested before the wait is over that the service stated', async () => {
    const [linear, github] = [await startTestLinear(), await startTestGithub()]
    await expectNoRequestDuringPause(
      configWith({ connect: { apiBase: await startTestHelper(linear, github) } }),
      linear,
    )
  })

  test('a client id for one provider leaves the other with the helper', async () => {
    const [linear, github] = [await startTestLinear(), await startTestGithub()]
    const apiBase = await startTestHelper(linear, github)
    const config = configWith({
      tracker: { apiUrl: linear.url },
      connect: { apiBase, trackerClientId: 'own' },
    })
    const accounts = createTestAccounts()
    const authorization = unwrap(accounts.authorizeTracker(config, { state: 's', port: PORT }))
    expect(new URL(authorization.url).origin).toBe(linear.url)
    expect((await accounts.startDevice(config)).ok).toBe(true)
  })
})

describe('without a way to connect', () => {
  test('without a helper and a client id the refusal names all alternatives', async () => {
    const accounts = createTestAccounts()
    const config = configWith({})
    const order = { state: 's', port: PORT }
    expect(accounts.authorizeTracker(config, order)).toMatchObject(
      refusedAs('invalid', /API key.*connect\.trackerClientId.*connect\.apiBase/),
    )
    expect(await accounts.startDevice(config)).toMatchObject(
      refusedAs('invalid', /token.*connect\.codehostClientId.*connect\.apiBase/),
    )
    expect(await accounts.exchangeTrackerCode(config, { code: 'c', port: PORT })).toMatchObject(
      refusedAs('invalid'),
    )
    expect(await accounts.refreshTrackerToken(config, 'r')).toMatchObject(refusedAs('invalid'))
    expect(await accounts.pollDevice(config, 'd')).toMatchObject(refusedAs('invalid'))
  })

  test('local drivers need no account', async () => {
    const accounts = createTestAccounts()
    const config = configWith({
      tracker: { driver: 'local', path: '/t' },
      codehost: { driver: 'local', path: '/c' },
      connect: { apiBase: 'http://127.0.0.1:9', trackerClientId: 'x', codehostClientId: 'x' },
    })
    const answers = [
      accounts.authorizeTracker(config, { state: 's', port: PORT }),
      await accounts.exchangeTrackerCode(config, { code: 'c', port: PORT }),
      await accounts.refreshTrackerToken(config, 'r'),
      await accounts.checkTracker(config),
      await accounts.startDevice(config),
      await accounts.pollDevice(config, 'd'),
      await accounts.checkCodehost(config),
    ]
    for (const answer of answers) expect(answer).toMatchObject(refusedAs('invalid', /needs no account/))
  })

  test('a token for GitHub issues is checked at GitHub', async () => {
    const github = await startTestGithub()
    const accounts = createTestAccounts()
    const config = configWith({ tracker: { driver: 'github', apiUrl: github.apiUrl, apiKey: 'ghp_mona' } })
    expect(accounts.authorizeTracker(config, { state: 's', port: PORT })).toMatchObject(
      refusedAs('invalid', /token/),
    )
    expect(unwrap(await accounts.checkTracker(config))).toContain('mona')
    const wrong = configWith({ tracker: { driver: 'github', apiUrl: github.apiUrl, apiKey: 'ghp_nobody' } })
    expect(await accounts.checkTracker(wrong)).toMatchObject(refusedAs('unauthorized'))
  })
})
