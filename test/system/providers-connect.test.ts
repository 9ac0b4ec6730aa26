/**
 * Connecting the tracker through its consent page: with an own client id or through the OAuth helper, with a local or a
 * remote browser, and with every kind of failure. New tokens are on disk before they are used; after a crash the host
 * recovers them if the provider allows it.
 */
import { statSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import type { ConnectPollResponse, ConnectResponse } from '../../protocol/connect.ts'
import { STORY_WAIT_MS } from '../support/dashboard-client.ts'
import { GATE } from '../support/local-system.ts'
import { browse, connectByDevice, consented } from '../support/oauth-consent.ts'
import { tempFolder, until } from '../support/real-files.ts'
import { run as command } from '../support/serve.ts'
import { Crossing } from '../support/system-with-providers.ts'

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

async function begun({ send }: Crossing): Promise<string> {
  const begun = (await send('POST', '/api/connect/tracker')).body as ConnectResponse
  if (begun.status !== 'redirect') throw new Error(JSON.stringify(begun))
  return begun.url
}

async function pasted({ send }: Crossing, address: string): Promise<ConnectPollResponse> {
  const { status, body } = await send('POST', '/api/connect/tracker/paste', { address })
  expect(status).toBe(200)
  return body as ConnectPollResponse
}

/** Completes the whole flow as one person. */
async function connect(crossing: Crossing): Promise<void> {
  const page = await browse(await consented(crossing.linear, await begun(crossing)))
  expect(page).toMatchObject({ status: 200, text: expect.stringContaining('Ada Lovelace in Acme') })
}

const exchanges = ({ linear }: Crossing): number =>
  linear.tokenCalls.filter(({ grant }) => grant === 'authorization_code').length

/** The callback address with a state of another flow. */
function forged(address: string): string {
  const url = new URL(address)
  url.searchParams.set('state', 'A'.repeat(43))
  return url.href
}

describe('a browser that comes back from the consent page', () => {
  story('connects the tracker: a page says so, the tokens are on disk, dashboards are updated', async () => {
    const crossing = await Crossing.open({ connect: OWN_CLIENT, ...AWAY })
    const dashboard = await crossing.dashboard()
    expect(dashboard.tracker.state).toBe('disconnected')
    const address = await consented(crossing.linear, await begun(crossing))
    const page = await browse(address)
    expect([page.status, page.text]).toEqual([200, expect.stringContaining('close this window')])
    const { tracker } = crossing.stored()
    expect(tracker).toMatchObject({
      apiKey: expect.stringMatching(/^lin_oauth_/),
      refreshToken: expect.stringMatching(/^lin_refresh_/),
      tokenExpiresAt: expect.any(String),
    })
    expect(statSync(join(crossing.dataDir, 'config.json')).mode & 0o777).toBe(0o600)
    await dashboard.trackerIs('connected')
    expect(dashboard.pushes('config').at(-1)).toMatchObject({ config: { tracker: { apiKey: '***' } } })
    // Repeat the request like a browser that restores its windows.
    expect((await browse(address)).text).toContain('this was done already')
    expect([exchanges(crossing), crossing.stored().tracker]).toEqual([1, tracker])
  })

  story('on another machine works if the person pastes the address', async () => {
    const crossing = await Crossing.open({ connect: OWN_CLIENT, ...AWAY })
    const address = await consented(crossing.linear, await begun(crossing))
    expect(await pasted(crossing, address.replace('http://', ''))).toMatchObject({
      status: 'connected',
      detail: 'Ada Lovelace in Acme',
      config: { tracker: { apiKey: '***', refreshToken: '***' } },
    })
    expect(await pasted(crossing, address)).toMatchObject({ status: 'connected' })
    expect(await pasted(crossing, forged(address))).toMatchObject({ status: 'error' })
    const { status } = await crossing.send('POST', '/api/connect/tracker/paste', {
      address: 'https://x.example',
    })
    expect([status, exchanges(crossing)]).toEqual([400, 1])
  })

  story(
    'without consent, with a forged state, or too late changes nothing, and the page says what to do',
    async () => {
      const crossing = await Crossing.open({ connect: OWN_CLIENT, ...AWAY })
      const refused = await consented(crossing.linear, await begun(crossing), 'refuse')
      const address = await consented(crossing.linear, await begun(crossing))
      for (const wrong of [refused, forged(address), address.replace(/&?state=[^&]*/, '')]) {
        const page = await browse(wrong)
        expect([page.status, page.text]).toEqual([400, expect.stringContaining('connect the tracker again')])
      }
      await crossing.killHost()
      await crossing.startHost()
      const late = await browse(address)
      expect([late.status, late.text]).toEqual([400, expect.stringContaining('started anew')])
      expect([exchanges(crossing), crossing.stored().tracker?.apiKey]).toEqual([0, undefined])
      await connect(crossing)
    },
  )

  story('of an older flow does not win over a newer one, in whatever order they return', async () => {
    const crossing = await Crossing.open({ connect: OWN_CLIENT, ...AWAY })
    const [first, second] = [await begun(crossing), await begun(crossing)]
    const addresses = [await consented(crossing.linear, first), await consented(crossing.linear, second)]
    const [earlier = '', later = ''] = addresses
    const grace = crossing.linear.world.user({ name: 'Grace Hopper' })
    expect((await browse(later)).status).toBe(200)
    const { tracker } = crossing.stored()
    expect(await browse(earlier)).toMatchObject({ status: 400, text: expect.stringContaining('since') })
    expect(crossing.stored().tracker).toEqual(tracker)

    const again = crossing.linear.consent(await begun(crossing)).href
    const byGrace = crossing.linear.consent(await begun(crossing), 'approve', grace).href
    expect((await browse(again)).status).toBe(200)
    expect((await browse(byGrace)).text).toContain('Grace Hopper in Acme')
    expect(crossing.stored().tracker).not.toEqual(tracker)
  })
})

// ---- the helper ------------------------------------------------------------------------------------------------------

/** A host without client ids, and a helper with them. */
async function helped(more: object = AWAY): Promise<Crossing> {
  const crossing = await Crossing.open({ connect: { codehostClientId: '' }, ...more })
  const { linear, github } = crossing
  const helper = command(['oauth-helper', '--port', '0', '--log-format', 'json'], tempFolder(), {
    CODEHOST_CLIENT_ID: github.device.settings.clientId,
    TRACKER_CLIENT_ID: linear.app.clientId,
    TRACKER_CLIENT_SECRET: linear.app.clientSecret,
    SWITCHYARD_TRACKER_URL: linear.url,
    SWITCHYARD_CODEHOST_URL: github.origin,
  })
  const urlIn = (text: string) => /"url":"(http:[^"]+)"/.exec(text)?.[1]
  await until('the helper is serving', () => urlIn(helper.err() + helper.out()) !== undefined, STORY_WAIT_MS)
  const apiBase = urlIn(helper.err() + helper.out()) ?? ''
  const patch = { connect: { apiBase } }
  expect(await crossing.send('PUT', '/api/settings', { patch })).toMatchObject({ status: 200 })
  expect(await begun(crossing)).toContain(`${apiBase}/oauth/tracker/authorize?`)
  return crossing
}

const refreshTokenOf = (crossing: Crossing) => crossing.stored().tracker?.refreshToken

/** The tokens have expired; the host is killed while it receives the new pair. */
async function killedWhileRenewing(crossing: Crossing): Promise<void> {
  const { linear } = crossing
  await new Promise<void>((resolve) => {
    linear.onTokenAnswer = async () => {
      linear.onTokenAnswer = undefined
      await crossing.killHost()
      resolve()
    }
    linear.advance(DAY_MS)
  })
}

describe('through the OAuth helper', () => {
  story(
    'both accounts are connected, and a new pair of tokens is on disk before the old one expires',
    async () => {
      const crossing = await helped()
      crossing.linear.accounts.accessMs = ACCESS_MS
      await connect(crossing)
      const first = refreshTokenOf(crossing)
      expect(first).toMatch(/^lin_refresh_/)
      await until('the tokens are renewed', () => refreshTokenOf(crossing) !== first, STORY_WAIT_MS)
      await connectByDevice(crossing)
      expect(crossing.stored().codehost?.token).toMatch(/^gho_/)
      expect(crossing.linear.tokenCalls.every(({ status }) => status === 200)).toBe(true)
    },
  )

  for (const heals of [true, false]) {
    const end = heals ? 'heals where the old token is taken once more' : 'asks for a person where it is not'
    story(`a host that dies between the new pair and its disk ${end}, and work goes on`, async () => {
      const crossing = await helped({ ...AWAY, codehost: { token: 'gho_of_mona' } })
      crossing.github.addToken('mona', 'gho_of_mona')
      await crossing.enrol()
      crossing.linear.accounts.replayMs = heals ? GRACE_MS : 0
      await connect(crossing)
      const issue = crossing.ticket('Outlive the host', WORK)
      await crossing.reaches(issue, 'running')
      const before = refreshTokenOf(crossing)
      await killedWhileRenewing(crossing)
      expect(refreshTokenOf(crossing)).toBe(before)
      await crossing.startHost()
      const dashboard = await crossing.dashboard()
      if (heals) await until('it is healed', () => refreshTokenOf(crossing) !== before, STORY_WAIT_MS)
      await dashboard.trackerIs(heals ? 'connected' : 'auth-error')
      expect(crossing.linear.tokenCalls.map(({ status }) => status)).toEqual([200, 200, heals ? 200 : 400])
      await crossing.workerOnline()
      crossing.letGo(await crossing.reaches(issue, 'running'))
      const run = await crossing.ends(issue)
      expect([run.status, run.error, run.prState]).toEqual(['completed', undefined, 'open'])
      if (heals) return
      await connect(crossing)
      await dashboard.trackerIs('connected')
    })
  }
})
