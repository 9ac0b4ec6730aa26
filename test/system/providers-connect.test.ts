/**
 * Connecting the tracker through its consent page: with an own client id or through the OAuth helper, with a local or a
 * remote browser, and with every kind of failure. New tokens are on disk before they are used; after a crash the host
 * recovers them if the provider allows it.
 */
import { statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import { CONNECT_AGAIN } from '../../actors/accounts/oauth-redirects.ts'
import type { ConnectPollResponse, ConnectResponse } from '../../protocol/connect.ts'
import { runCommand as command } from '../support/command-process.ts'
import { SYSTEM_WAIT_MS_MAX } from '../support/dashboard-client.ts'
import { GATE } from '../support/local-system.ts'
import { connectByDevice, decideConsent, fetchPage } from '../support/oauth-consent.ts'
import { ProviderSystem } from '../support/system-with-providers.ts'
import { tempFolder } from '../support/temp-folder.ts'
import { until } from '../support/until.ts'

const TEST_MS_MAX = 300_000
/** The lifetime of tokens that must be refreshed at once: slightly above the refresh lead. */
const ACCESS_MS = 300_000 + 1_500
/** The normal lifetime of tokens. */
const DAY_MS = 86_400_000
/** How long the real Linear still accepts a replaced refresh token. */
const GRACE_MS = 1_800_000
const WORK = [`run ${GATE}`, 'write a.txt', '  a', 'commit A']

function story(title: string, body: () => Promise<void>): void {
  test(title, body, TEST_MS_MAX)
}

/** The client ids of the fakes, entered like those of a person's own application. */
const OWN_CLIENT = { trackerClientId: 'linear-client-id' }
const AWAY = { worker: { local: false } }

async function startRedirect({ send }: ProviderSystem): Promise<string> {
  const response = (await send('POST', '/api/connect/tracker')).body as ConnectResponse
  if (response.status !== 'redirect') throw new Error(JSON.stringify(response))
  return response.url
}

async function pasteAddress({ send }: ProviderSystem, address: string): Promise<ConnectPollResponse> {
  const { status, body } = await send('POST', '/api/connect/tracker/paste', { address })
  expect(status).toBe(200)
  return body as ConnectPollResponse
}

/** Completes the whole flow as one person. */
async function connectTracker(system: ProviderSystem): Promise<void> {
  const page = await fetchPage(await decideConsent(system.linear, await startRedirect(system)))
  expect(page).toMatchObject({ status: 200, text: expect.stringContaining('Ada Lovelace in Acme') })
}

const countExchanges = ({ linear }: ProviderSystem): number =>
  linear.tokenCalls.filter(({ grant }) => grant === 'authorization_code').length

/** The callback address with a state of another flow. */
function forgeState(address: string): string {
  const url = new URL(address)
  url.searchParams.set('state', 'A'.repeat(43))
  return url.href
}

describe('a browser that comes back from the consent page', () => {
  story('connects the tracker: a page says so, the tokens are on disk, dashboards are updated', async () => {
    const system = await ProviderSystem.open({ connect: OWN_CLIENT, ...AWAY })
    const dashboard = await system.connectDashboard()
    expect(dashboard.tracker.state).toBe('disconnected')
    const address = await decideConsent(system.linear, await startRedirect(system))
    const page = await fetchPage(address)
    expect([page.status, page.text]).toEqual([200, expect.stringContaining('close this window')])
    const { tracker } = system.storedConfig()
    expect(tracker).toMatchObject({
      apiKey: expect.stringMatching(/^lin_oauth_/),
      refreshToken: expect.stringMatching(/^lin_refresh_/),
      tokenExpiresAt: expect.any(String),
    })
    expect(statSync(join(system.dataDir, 'config.json')).mode & 0o777).toBe(0o600)
    await dashboard.waitForTracker('connected')
    expect(dashboard.pushes('config').at(-1)).toMatchObject({ config: { tracker: { apiKey: '***' } } })
    // Repeat the request like a browser that restores its windows.
    expect((await fetchPage(address)).text).toContain('this was done already')
    expect([countExchanges(system), system.storedConfig().tracker]).toEqual([1, tracker])
  })

  story('on another machine works if the person pastes the address', async () => {
    const system = await ProviderSystem.open({ connect: OWN_CLIENT, ...AWAY })
    const address = await decideConsent(system.linear, await startRedirect(system))
    expect(await pasteAddress(system, address.replace('http://', ''))).toMatchObject({
      status: 'connected',
      detail: 'Ada Lovelace in Acme',
      config: { tracker: { apiKey: '***', refreshToken: '***' } },
    })
    expect(await pasteAddress(system, address)).toMatchObject({ status: 'connected' })
    expect(await pasteAddress(system, forgeState(address))).toMatchObject({ status: 'error' })
    const { status } = await system.send('POST', '/api/connect/tracker/paste', {
      address: 'https://x.example',
    })
    expect([status, countExchanges(system)]).toEqual([400, 1])
  })

  story(
    'without consent, with a forged state, or too late changes nothing, and the page says what to do',
    async () => {
      const system = await ProviderSystem.open({ connect: OWN_CLIENT, ...AWAY })
      const refused = await decideConsent(system.linear, await startRedirect(system), 'refuse')
      const address = await decideConsent(system.linear, await startRedirect(system))
      for (const wrong of [refused, forgeState(address), address.replace(/&?state=[^&]*/, '')]) {
        const page = await fetchPage(wrong)
        expect([page.status, page.text]).toEqual([400, expect.stringContaining(CONNECT_AGAIN)])
      }
      await system.killHost()
      await system.startHost()
      const late = await fetchPage(address)
      expect([late.status, late.text]).toEqual([400, expect.stringContaining('restarted')])
      expect([countExchanges(system), system.storedConfig().tracker?.apiKey]).toEqual([0, undefined])
      await connectTracker(system)
    },
  )

  story('with a wrong client secret is refused, and with the right one connects', async () => {
    const connect = { ...OWN_CLIENT, trackerClientSecret: 'secret-of-another-application' }
    const system = await ProviderSystem.open({ connect, ...AWAY })
    const refused = await fetchPage(await decideConsent(system.linear, await startRedirect(system)))
    expect([refused.status, countExchanges(system), system.storedConfig().tracker?.apiKey]).toEqual([
      400,
      1,
      undefined,
    ])
    const patch = { connect: { trackerClientSecret: system.linear.app.clientSecret } }
    expect(await system.send('PUT', '/api/settings', { patch })).toMatchObject({ status: 200 })
    await connectTracker(system)
  })

  story('of an older flow does not win over a newer one, in whatever order they return', async () => {
    const system = await ProviderSystem.open({ connect: OWN_CLIENT, ...AWAY })
    const [first, second] = [await startRedirect(system), await startRedirect(system)]
    const addresses = [await decideConsent(system.linear, first), await decideConsent(system.linear, second)]
    const [earlier = '', later = ''] = addresses
    const grace = system.linear.world.user({ name: 'Grace Hopper' })
    expect((await fetchPage(later)).status).toBe(200)
    const { tracker } = system.storedConfig()
    expect(await fetchPage(earlier)).toMatchObject({
      status: 400,
      text: expect.stringContaining('a later change'),
    })
    expect(system.storedConfig().tracker).toEqual(tracker)

    const again = system.linear.consent(await startRedirect(system)).href
    const byGrace = system.linear.consent(await startRedirect(system), 'approve', grace).href
    expect((await fetchPage(again)).status).toBe(200)
    expect((await fetchPage(byGrace)).text).toContain('Grace Hopper in Acme')
    expect(system.storedConfig().tracker).not.toEqual(tracker)
  })
})

/** Makes the stored access token one that has expired while the host was off. */
function expireStoredToken(system: ProviderSystem): void {
  const config = system.storedConfig()
  const tokenExpiresAt = new Date(Date.now() - 60_000).toISOString()
  const text = JSON.stringify({ ...config, tracker: { ...config.tracker, tokenExpiresAt } })
  writeFileSync(join(system.dataDir, 'config.json'), text)
  system.linear.advance(DAY_MS)
}

story(
  'a host that starts with an expired token asks nothing with it, and does not call it connected',
  async () => {
    const system = await ProviderSystem.open({ connect: OWN_CLIENT, ...AWAY })
    const { linear } = system
    await connectTracker(system)
    const before = refreshTokenOf(system)
    await system.killHost()
    expireStoredToken(system)
    linear.calls.length = 0
    const states: string[] = []
    linear.onTokenAnswer = async () => {
      states.push((await system.connectDashboard()).tracker.state)
    }
    await system.startHost()
    const issue = system.createTicket('After the night', WORK)
    await system.waitForStatus(issue, 'queued')
    expect(states).toEqual(['refresh-failing'])
    expect((await system.connectDashboard()).tracker.state).toBe('connected')
    expect(refreshTokenOf(system)).not.toBe(before)
    expect(linear.calls.length).toBeGreaterThan(0)
    expect(new Set(linear.calls.map(({ status }) => status))).toEqual(new Set([200]))
  },
)

// ---- the helper ------------------------------------------------------------------------------------------------------

/** A host without client ids, and a helper with them. */
async function openWithHelper(more: object = AWAY): Promise<ProviderSystem> {
  const system = await ProviderSystem.open({ connect: { codehostClientId: '' }, ...more })
  const { linear, github } = system
  const helper = command(['oauth-helper', '--port', '0', '--log-format', 'json'], tempFolder(), {
    CODEHOST_CLIENT_ID: github.device.settings.clientId,
    TRACKER_CLIENT_ID: linear.app.clientId,
    TRACKER_CLIENT_SECRET: linear.app.clientSecret,
    SWITCHYARD_TRACKER_URL: linear.url,
    SWITCHYARD_CODEHOST_URL: github.origin,
  })
  const urlIn = (text: string) => /"url":"(http:[^"]+)"/.exec(text)?.[1]
  await until(
    'the helper is serving',
    () => urlIn(helper.err() + helper.out()) !== undefined,
    SYSTEM_WAIT_MS_MAX,
  )
  const apiBase = urlIn(helper.err() + helper.out()) ?? ''
  const body = { patch: { connect: { apiBase } }, confirm: ['connect.apiBase'] }
  expect(await system.send('PUT', '/api/settings', body)).toMatchObject({ status: 200 })
  expect(await startRedirect(system)).toContain(`${apiBase}/oauth/tracker/authorize?`)
  return system
}

const refreshTokenOf = (system: ProviderSystem) => system.storedConfig().tracker?.refreshToken

/** The tokens have expired; the host is killed while it receives the new pair. */
async function killDuringRefresh(system: ProviderSystem): Promise<void> {
  const { linear } = system
  await new Promise<void>((resolve) => {
    linear.onTokenAnswer = async () => {
      linear.onTokenAnswer = undefined
      await system.killHost()
      resolve()
    }
    linear.advance(DAY_MS)
  })
}

describe('through the OAuth helper', () => {
  story(
    'both accounts are connected, and a new pair of tokens is on disk before the old one expires',
    async () => {
      const system = await openWithHelper()
      system.linear.accounts.accessMs = ACCESS_MS
      await connectTracker(system)
      const first = refreshTokenOf(system)
      expect(first).toMatch(/^lin_refresh_/)
      await until('the tokens are renewed', () => refreshTokenOf(system) !== first, SYSTEM_WAIT_MS_MAX)
      await connectByDevice(system)
      expect(system.storedConfig().codehost?.token).toMatch(/^gho_/)
      expect(system.linear.tokenCalls.every(({ status }) => status === 200)).toBe(true)
    },
  )

  for (const heals of [true, false]) {
    const end = heals ? 'heals where the old token is taken once more' : 'asks for a person where it is not'
    story(`a host that dies between the new pair and its disk ${end}, and work goes on`, async () => {
      const system = await openWithHelper({ ...AWAY, codehost: { token: 'gho_of_mona' } })
      system.github.addToken('mona', 'gho_of_mona')
      await system.pairWorker()
      system.linear.accounts.replayMs = heals ? GRACE_MS : 0
      await connectTracker(system)
      const issue = system.createTicket('Outlive the host', WORK)
      await system.waitForStatus(issue, 'running')
      const before = refreshTokenOf(system)
      await killDuringRefresh(system)
      expect(refreshTokenOf(system)).toBe(before)
      await system.startHost()
      const dashboard = await system.connectDashboard()
      if (heals) await until('it is healed', () => refreshTokenOf(system) !== before, SYSTEM_WAIT_MS_MAX)
      await dashboard.waitForTracker(heals ? 'connected' : 'auth-error')
      expect(system.linear.tokenCalls.map(({ status }) => status)).toEqual([200, 200, heals ? 200 : 400])
      await system.waitForOnlineWorker()
      system.openGates(await system.waitForStatus(issue, 'running'))
      const run = await system.waitForEnd(issue)
      expect([run.status, run.error, run.prState]).toEqual(['completed', undefined, 'open'])
      if (heals) return
      await connectTracker(system)
      await dashboard.waitForTracker('connected')
    })
  }
})
