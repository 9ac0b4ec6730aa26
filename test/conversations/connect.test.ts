/**
 * Connecting accounts in a whole host: the result is on disk and pushed before it is answered, a restart ends flows that
 * were under way, and no secret leaves the host.
 */
import { expect, test } from '@jest/globals'
import type { HostApi } from '../../actors/api/host-api.ts'
import { yes } from '../../core/result.ts'
import type { DashboardPush } from '../../protocol/dashboard.ts'
import { DEVICE_START, FakeAccountProviders } from '../machines/accounts/accounts-fixture.ts'
import { readPush } from '../support/dashboard-pushes.ts'
import { createInMemoryHost } from '../support/host-in-memory.ts'
import { Random } from '../support/random.ts'

const TOKEN = 'gho_a-very-secret-token'
const PAIR = {
  accessToken: 'lin_oauth_access-secret',
  refreshToken: 'refresh-secret',
  expiresAt: '2026-01-02T00:00:00.000Z',
}
/** Without a worker and with rare polls, so that neither disturbs the test. */
const QUIET = '{"worker":{"local":false},"tracker":{"pollSeconds":3600}}'

async function startForConnecting(config = QUIET) {
  const random = new Random(11)
  const hostApis: HostApi[] = []
  const providers = new FakeAccountProviders(() => made.clock.settle())
  const made = createInMemoryHost(config, {
    accounts: providers.accounts,
    bucket: providers.bucket,
    port: () => 4400,
    random: {
      bytes: (count) => Uint8Array.from({ length: count }, () => random.below(256)),
      fraction: () => 0.5,
    },
    openListeners: async (hostApi) => {
      hostApis.push(hostApi)
      return yes({ close: async () => {} })
    },
  })
  made.host.start()
  await made.clock.settle()
  const [hostApi] = hostApis
  if (hostApi === undefined) throw new Error('the host did not open its listeners')
  const pushes: DashboardPush[] = []
  hostApi.onPush((push) => void pushes.push(readPush(push)))
  const file = async () => JSON.parse((await made.store.config.read()) ?? '{}')
  return { ...made, providers, hostApi, pushes, file }
}

test('the tracker: consent, tokens on disk and pushed with a mask, then the page', async () => {
  const setup = await startForConnecting()
  expect(await setup.hostApi.connect('tracker')).toMatchObject({ value: { status: 'redirect' } })
  const [state = ''] = setup.providers.states
  let shown = false
  const page = setup.hostApi.trackerCallback({ code: 'the-code-secret', state }).then((answer) => {
    shown = true
    return answer
  })
  await setup.clock.settle()
  await setup.providers.answer('exchange', yes(PAIR))
  expect(shown).toBe(false)
  await setup.providers.answer('check tracker', yes('Ada of Acme'))
  const { status, html } = await page
  expect(status).toBe(200)
  expect(html).toContain('Ada of Acme')
  expect(setup.store.actions).toMatchObject([
    { source: 'host', action: 'connectAccount', keys: expect.arrayContaining(['tracker.apiKey']) },
  ])
  expect(await setup.file()).toMatchObject({
    tracker: {
      apiKey: PAIR.accessToken,
      refreshToken: PAIR.refreshToken,
      tokenExpiresAt: PAIR.expiresAt,
      pollSeconds: 3600,
    },
  })
  expect(setup.pushes).toContainEqual(
    expect.objectContaining({
      type: 'config',
      config: expect.objectContaining({ tracker: expect.objectContaining({ apiKey: '***' }) }),
    }),
  )
  const visible =
    html + JSON.stringify([setup.pushes, setup.log.lines, setup.hostApi.hello(), setup.hostApi.config()])
  for (const secret of ['the-code-secret', PAIR.accessToken, PAIR.refreshToken, 'the-verifier', state])
    expect(visible).not.toContain(secret)
})

test('the code host: a code, polls, the token on disk; then disconnected by hand', async () => {
  const setup = await startForConnecting()
  const begun = setup.hostApi.connect('codehost')
  await setup.clock.settle()
  await setup.providers.answer('start device', yes(DEVICE_START))
  expect(await begun).toMatchObject({ value: { status: 'device', userCode: 'ABCD-1234' } })
  await setup.clock.advance(5_000)
  const polled = setup.hostApi.pollCodehost()
  await setup.clock.settle()
  await setup.providers.answer('poll device', yes({ is: 'token', token: TOKEN }))
  await setup.providers.answer('check codehost', yes('octocat'))
  expect(await polled).toMatchObject({ status: 'connected', config: { codehost: { token: '***' } } })
  expect(await setup.file()).toMatchObject({ codehost: { token: TOKEN } })

  const left = setup.hostApi.changeCredentials({ codehostToken: '' })
  await setup.clock.settle()
  expect(await left).toMatchObject({ value: { results: { codehost: { ok: true } } } })
  expect((await setup.file()).codehost).toEqual({})
  expect(JSON.stringify([setup.pushes, setup.log.lines])).not.toContain(TOKEN)
})

test('a full round leaves nothing behind', async () => {
  const setup = await startForConnecting()
  const before = setup.host.countInMemory()
  for (let n = 0; n < 20; n++) {
    await setup.hostApi.connect('tracker')
    const page = setup.hostApi.trackerCallback({
      error: 'access_denied',
      state: setup.providers.states.at(-1) ?? '',
    })
    await setup.clock.settle()
    await page
  }
  await setup.clock.advance(3_600_000)
  const { journey, ...after } = setup.host.countInMemory()
  expect(journey).toBe(0)
  expect(after).toEqual(before)
})

test('a restart ends a flow that was under way, and nothing of it stays on disk', async () => {
  const setup = await startForConnecting()
  await setup.hostApi.connect('tracker')
  const begun = setup.hostApi.connect('codehost')
  const waiting = setup.hostApi.changeCredentials({ trackerApiKey: 'lin_api_secret' })
  await setup.clock.settle()
  setup.host.stop('the test')
  await setup.clock.settle()
  expect(await begun).toMatchObject({ ok: false, refusal: { kind: 'unavailable' } })
  expect(await waiting).toMatchObject({ value: { results: { tracker: { ok: false } } } })
  expect([...setup.store.database.snapshots.all('journey')]).toEqual([])
  expect([...setup.store.database.snapshots.all('device-flow')]).toEqual([])

  const again = await startForConnecting()
  const [state = ''] = setup.providers.states
  expect(await again.hostApi.trackerCallback({ code: 'the-code', state })).toMatchObject({ status: 400 })
  expect(await again.hostApi.pollCodehost()).toMatchObject({ status: 'error' })
  expect(again.providers.asked).toEqual([])
})
