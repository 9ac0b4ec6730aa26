/** Connecting the tracker through its consent page, with every honest and forged callback. */

import { describe, expect, test } from '@jest/globals'
import { type CallbackPage, createCallbackPage, renderPage } from '../../../actors/accounts/callback-page.ts'
import { OAUTH_REDIRECT } from '../../../actors/accounts/oauth-redirect.machine.ts'
import {
  CONNECT_AGAIN,
  REDIRECT_FLOW_MS_MAX,
  REDIRECT_FLOWS_MAX,
} from '../../../actors/accounts/oauth-redirects.ts'
import type { TokenPair } from '../../../core/ports/accounts.ts'
import { no, yes } from '../../../core/result.ts'
import type { TrackerCallbackQuery } from '../../../protocol/connect.ts'
import { type AccountsBench, createAccountsBench } from './accounts-fixture.ts'

const PAIR: TokenPair = {
  accessToken: 'lin_oauth_access-secret',
  refreshToken: 'refresh-secret',
  expiresAt: '2026-01-02T00:00:00.000Z',
}
const CODE = 'the-code-secret'

/** Starts a redirect flow. Returns the state that the browser will bring back. */
async function startRedirect(b: AccountsBench): Promise<string> {
  expect(await b.manager.connect('tracker')).toMatchObject({ ok: true, value: { status: 'redirect' } })
  return b.providers.states.at(-1) ?? ''
}

async function completeExchange(
  b: AccountsBench,
  pair: TokenPair = PAIR,
  account = 'Ada of Acme',
): Promise<void> {
  await b.providers.answer('exchange', yes(pair))
  await b.providers.answer('check tracker', yes(account))
}

/** Opens the callback in a case that needs no request to the tracker. */
const openCallback = (b: AccountsBench, query: TrackerCallbackQuery): Promise<CallbackPage | undefined> =>
  b.now(b.manager.handleTrackerCallback(query))

/** Opens the callback and lets all requests succeed. */
async function returnFromConsent(b: AccountsBench, state: string) {
  const page = b.manager.handleTrackerCallback({ code: CODE, state })
  await b.clock.settle()
  await completeExchange(b)
  return page
}

test('the browser leaves with 256 bits of state and returns to a connected tracker', async () => {
  const b = createAccountsBench({ tracker: { pollSeconds: 7 } })
  const state = await startRedirect(b)
  expect(Buffer.from(state, 'base64url')).toHaveLength(32)

  const page = b.manager.handleTrackerCallback({ code: CODE, state })
  await b.clock.settle()
  const exchange = await b.providers.answer('exchange', yes(PAIR))
  expect(exchange.order).toEqual({ code: CODE, port: 4400, verifier: 'the-verifier' })
  const check = await b.providers.answer('check tracker', yes('Ada of Acme'))
  expect(check.config?.tracker).toMatchObject({
    apiKey: PAIR.accessToken,
    refreshToken: PAIR.refreshToken,
    tokenExpiresAt: PAIR.expiresAt,
    pollSeconds: 7,
  })
  expect(await page).toEqual(createCallbackPage(yes('Ada of Acme')))
  // A single change with these fields only.
  expect(b.saves).toEqual([
    {
      tracker: {
        apiKey: PAIR.accessToken,
        refreshToken: PAIR.refreshToken,
        tokenExpiresAt: PAIR.expiresAt,
      },
    },
  ])
  expect(b.stored().tracker?.pollSeconds).toBe(7)
})

test('tokens without an expiry replace those with one', async () => {
  const b = createAccountsBench({ tracker: { apiKey: 'old-key', refreshToken: 'old-refresh' } })
  const state = await startRedirect(b)
  const page = b.manager.handleTrackerCallback({ code: CODE, state })
  await b.clock.settle()
  await completeExchange(b, { accessToken: 'lasting-secret' })
  expect(await page).toMatchObject({ status: 200 })
  expect(b.stored().tracker).toEqual({ apiKey: 'lasting-secret' })
})

test.each([
  { tracker: { apiUrl: 'https://another.example' } },
  { connect: { apiBase: 'https://another.example' } },
])('a token that arrives after the settings changed to %j is sent to no other server', async (changed) => {
  const b = createAccountsBench()
  const state = await startRedirect(b)
  const page = b.manager.handleTrackerCallback({ code: CODE, state })
  await b.clock.settle()
  b.edit(changed)
  await b.providers.answer('exchange', yes(PAIR))
  expect(await page).toMatchObject({ status: 400, message: expect.stringContaining('in the meantime') })
  expect([b.providers.count('check tracker'), b.saves]).toEqual([0, []])
})

test('no page, reply or log line holds a code, a token, a verifier or a state', async () => {
  const b = createAccountsBench()
  const state = await startRedirect(b)
  const good = await returnFromConsent(b, state)
  const again = await openCallback(b, { code: CODE, state })
  const secondState = await startRedirect(b)
  const failing = b.manager.handleTrackerCallback({ code: CODE, state: secondState })
  await b.clock.settle()
  await b.providers.answer('exchange', no('failed', `the tracker says ${CODE} with the-verifier is wrong`))
  const shownText = [good, again ?? good, await failing].map(renderPage).join('') + b.loggedText()
  for (const secret of [CODE, PAIR.accessToken, PAIR.refreshToken ?? '', 'the-verifier', state, secondState])
    expect(shownText).not.toContain(secret)
  expect(shownText).toContain('the tracker says *** with *** is wrong')
})

describe('an unknown state', () => {
  test.each([
    ['forged', { code: CODE, state: 'x'.repeat(43) }],
    ['empty', { code: CODE, state: '' }],
    ['missing', { code: CODE }],
    ['missing, with nothing at all', {}],
    ['forged, with a refusal', { error: 'access_denied', state: 'forged' }],
    ['missing, with a refusal', { error: 'access_denied' }],
  ])('%s: nothing is exchanged, no flow ends, the page states what to do', async (_what, query) => {
    const b = createAccountsBench()
    const state = await startRedirect(b)
    const page = await openCallback(b, query)
    expect(page).toMatchObject({ status: 400, message: expect.stringContaining(CONNECT_AGAIN) })
    expect(b.providers.count('exchange')).toBe(0)
    // The real flow continues unchanged.
    expect(await returnFromConsent(b, state)).toMatchObject({ status: 200 })
  })

  test('a prefix or an extension of a real state', async () => {
    const b = createAccountsBench()
    const state = await startRedirect(b)
    for (const near of [state.slice(0, -1), `${state}A`, state.toLowerCase() + state, ` ${state}`])
      expect(await openCallback(b, { code: CODE, state: near })).toMatchObject({ status: 400 })
    expect(b.providers.count('exchange')).toBe(0)
  })

  test('a state from before a restart', async () => {
    const before = createAccountsBench()
    const state = await startRedirect(before)
    before.manager.stop()
    before.system.stop()
    const b = createAccountsBench()
    expect(await openCallback(b, { code: CODE, state })).toMatchObject({ status: 400 })
    expect(b.providers.asked).toEqual([])
  })
})

describe('an old state', () => {
  test('expired: the page states it, and nothing is exchanged', async () => {
    const b = createAccountsBench()
    const state = await startRedirect(b)
    await b.clock.advance(REDIRECT_FLOW_MS_MAX)
    const page = await openCallback(b, { code: CODE, state })
    expect(page).toMatchObject({ status: 400, message: expect.stringContaining('open for too long') })
    expect(b.providers.count('exchange')).toBe(0)
  })

  test('after a while it is unknown, and nothing of it is left', async () => {
    const b = createAccountsBench()
    const state = await startRedirect(b)
    await b.clock.advance(3 * REDIRECT_FLOW_MS_MAX)
    expect(b.manager.size).toBe(0)
    expect(await openCallback(b, { code: CODE, state })).toMatchObject({ status: 400 })
    expect(b.clock.timers).toBe(0)
  })

  test('used: it is not exchanged again, and the page states that it was done', async () => {
    const b = createAccountsBench()
    const state = await startRedirect(b)
    await returnFromConsent(b, state)
    const again = await openCallback(b, { code: 'another-code', state })
    expect(again).toMatchObject({ status: 200, message: expect.stringContaining('done already') })
    expect(b.providers.count('exchange')).toBe(1)
    expect(b.saves).toHaveLength(1)
  })

  test('failed: the second callback receives the reason and what to do', async () => {
    const b = createAccountsBench()
    const state = await startRedirect(b)
    const first = b.manager.handleTrackerCallback({ code: CODE, state })
    await b.clock.settle()
    await b.providers.answer('exchange', no('invalid', 'the code is wrong'))
    const failed = createCallbackPage(no('invalid', `the code is wrong; ${CONNECT_AGAIN}`))
    expect(await first).toEqual(failed)
    expect(await openCallback(b, { code: CODE, state })).toEqual(failed)
    expect(b.providers.count('exchange')).toBe(1)
  })
})

test('a reload during the exchange receives the same result after one exchange', async () => {
  const b = createAccountsBench()
  const state = await startRedirect(b)
  const pages = [
    b.manager.handleTrackerCallback({ code: CODE, state }),
    b.manager.handleTrackerCallback({ code: 'another-code', state }),
    b.manager.handleTrackerCallback({ error: 'access_denied', state }),
  ]
  await b.clock.settle()
  expect(b.providers.take('exchange').order).toMatchObject({ code: CODE })
  expect(b.providers.count('exchange')).toBe(1)
  b.manager.stop()
  for (const page of await Promise.all(pages)) expect(page).toMatchObject({ status: 503 })
})

describe('a refused consent', () => {
  test('ends the flow with a page', async () => {
    const b = createAccountsBench()
    const state = await startRedirect(b)
    const page = await openCallback(b, { error: 'access_denied', state })
    expect(page).toMatchObject({ status: 400, message: expect.stringContaining('nothing was changed') })
    expect(await openCallback(b, { code: CODE, state })).toMatchObject({ status: 400 })
    expect(b.providers.count('exchange')).toBe(0)
  })

  test('for another reason: the page quotes the reason escaped', async () => {
    const b = createAccountsBench()
    const state = await startRedirect(b)
    const page = await b.now(
      b.manager.handleTrackerCallback({
        error: 'server_error',
        error_description: '<script>alert(1)</script>\u202E',
        state,
      }),
    )
    const html = renderPage(page ?? { status: 400, title: '', message: '' })
    expect(html).toContain('server_error: &lt;script&gt;')
    expect(html).not.toContain('<script')
    expect(html).not.toContain('\u202E')
  })

  test('a code in the same callback is not exchanged', async () => {
    const b = createAccountsBench()
    const state = await startRedirect(b)
    await openCallback(b, { code: CODE, error: 'access_denied', state })
    expect(b.providers.count('exchange')).toBe(0)
  })
})

test('a known state without a code changes nothing: the flow continues', async () => {
  const b = createAccountsBench()
  const state = await startRedirect(b)
  expect(await openCallback(b, { state })).toMatchObject({ status: 400 })
  expect(await openCallback(b, { state, code: '' })).toMatchObject({ status: 400 })
  expect(await returnFromConsent(b, state)).toMatchObject({ status: 200 })
})

describe('failures', () => {
  test('tokens that don’t work are not saved', async () => {
    const b = createAccountsBench()
    const state = await startRedirect(b)
    const page = b.manager.handleTrackerCallback({ code: CODE, state })
    await b.clock.settle()
    await b.providers.answer('exchange', yes(PAIR))
    await b.providers.answer('check tracker', no('unauthorized', `no such key as ${PAIR.accessToken}`))
    expect(await page).toMatchObject({ status: 400, message: expect.stringContaining('no such key as ***') })
    expect(b.saves).toEqual([])
  })

  test('a tracker that never answers: the page is sent after the timeout', async () => {
    const b = createAccountsBench()
    const state = await startRedirect(b)
    const page = b.manager.handleTrackerCallback({ code: CODE, state })
    await b.clock.advance(60_000)
    expect(await page).toMatchObject({
      status: 400,
      message: expect.stringContaining(`60 seconds; ${CONNECT_AGAIN}`),
    })
  })

  test('tokens that cannot be written are not connected', async () => {
    const b = createAccountsBench()
    b.world.refuseSave = no('failed', 'the disk is full')
    const state = await startRedirect(b)
    expect(await returnFromConsent(b, state)).toMatchObject({
      status: 400,
      message: expect.stringContaining('the disk is full'),
    })
  })

  test('a disk that hangs: the page is sent, and the tokens are not written later', async () => {
    const b = createAccountsBench()
    const state = await startRedirect(b)
    let open: () => void = () => {}
    b.world.gate = new Promise((resolve) => {
      open = resolve
    })
    const page = returnFromConsent(b, state)
    await b.clock.settle()
    await b.clock.advance(60_000)
    expect(await page).toMatchObject({ status: 400 })
    open()
    await b.clock.settle()
    expect(b.saves).toEqual([])
  })

  test('no redirect starts before the port is known', async () => {
    const b = createAccountsBench()
    b.world.port = undefined
    expect(await b.manager.connect('tracker')).toMatchObject({ ok: false, refusal: { kind: 'unavailable' } })
    expect(b.providers.asked).toEqual([])
  })

  test('when only a key given by hand is possible, the reply asks for one', async () => {
    const b = createAccountsBench()
    b.providers.authorization = no('invalid', 'this tracker takes a personal token')
    expect(await b.manager.connect('tracker')).toEqual(
      yes({ status: 'manual', provider: 'tracker', reason: 'this tracker takes a personal token' }),
    )
    expect(b.manager.size).toBe(0)
  })

  test.each(['javascript:alert(1)', 'nonsense', `https://t.example/${'x'.repeat(3000)}`])(
    'an address that no browser should open is not given out: %j',
    async (url) => {
      const b = createAccountsBench()
      b.providers.authorization = yes({ url })
      expect(await b.manager.connect('tracker')).toMatchObject({ ok: false, refusal: { kind: 'invalid' } })
    },
  )
})

describe('several redirect flows', () => {
  test('two at once: each is exchanged by its own code and verifier', async () => {
    const b = createAccountsBench()
    const first = await startRedirect(b)
    const second = await startRedirect(b)
    expect(await returnFromConsent(b, first)).toMatchObject({ status: 200 })
    expect(await returnFromConsent(b, second)).toMatchObject({ status: 200 })
    expect(b.saves).toHaveLength(2)
  })

  test('two concurrent exchanges: the later flow counts, in either order of completion', async () => {
    for (const order of [
      [0, 1],
      [1, 0],
    ]) {
      const b = createAccountsBench()
      const states = [await startRedirect(b), await startRedirect(b)]
      const pages = states.map((state, n) => b.manager.handleTrackerCallback({ code: `code-${n}`, state }))
      await b.clock.settle()
      const questions = [b.providers.take('exchange'), b.providers.take('exchange')]
      for (const n of order) {
        questions[n]?.answer(yes({ accessToken: `token-${n}` }))
        await b.clock.settle()
        const isChecked = b.providers.open.some(({ what }) => what === 'check tracker')
        if (isChecked) await b.providers.answer('check tracker', yes(`account ${n}`))
      }
      await Promise.all(pages)
      expect(b.config().tracker.apiKey).toBe('token-1')
    }
  })

  test('the first flow may finish after the second began, and the second after it', async () => {
    const b = createAccountsBench()
    const first = await startRedirect(b)
    const page = b.manager.handleTrackerCallback({ code: CODE, state: first })
    await b.clock.settle()
    const second = await startRedirect(b)
    await completeExchange(b)
    expect(await page).toMatchObject({ status: 200 })
    expect(await returnFromConsent(b, second)).toMatchObject({ status: 200 })
  })

  test('a first flow that returns after the second connected is superseded', async () => {
    const b = createAccountsBench()
    const first = await startRedirect(b)
    const second = await startRedirect(b)
    await returnFromConsent(b, second)
    expect(await openCallback(b, { code: CODE, state: first })).toMatchObject({
      status: 400,
      message: expect.stringContaining('a later change'),
    })
    expect(b.providers.count('exchange')).toBe(1)
  })

  test('of too many flows the oldest is evicted, but not during its exchange', async () => {
    const b = createAccountsBench()
    const busy = await startRedirect(b)
    const page = b.manager.handleTrackerCallback({ code: CODE, state: busy })
    await b.clock.settle()
    const oldest = await startRedirect(b)
    for (let n = 0; n < REDIRECT_FLOWS_MAX - 1; n++) await startRedirect(b)
    await b.clock.settle()
    expect(b.system.count().get('journey')).toBe(REDIRECT_FLOWS_MAX)
    expect(await openCallback(b, { code: CODE, state: oldest })).toMatchObject({ status: 400 })
    expect(b.providers.count('exchange')).toBe(1)
    await completeExchange(b)
    expect(await page).toMatchObject({ status: 200 })
  })

  test('the number of callbacks that wait for one flow is limited', async () => {
    const b = createAccountsBench()
    const state = await startRedirect(b)
    const all = Array.from({ length: 20 }, () => b.manager.handleTrackerCallback({ code: CODE, state }))
    expect(await b.now(all[19] ?? Promise.reject())).toMatchObject({ status: 503 })
    await completeExchange(b)
    expect((await Promise.all(all)).filter(({ status }) => status === 200)).toHaveLength(16)
  })
})

describe('another action of the person during the flow counts', () => {
  const connected = { tracker: { apiKey: 'lin_api_old', refreshToken: 'old-refresh' } }

  test('disconnecting ends a flow at the consent page', async () => {
    const b = createAccountsBench(connected)
    const state = await startRedirect(b)
    await b.manager.changeCredentials({ trackerApiKey: '' })
    expect(await openCallback(b, { code: CODE, state })).toMatchObject({ status: 400 })
    expect(b.providers.count('exchange')).toBe(0)
    expect(b.stored().tracker).toEqual({})
  })

  test.each(['exchange', 'check tracker'])('also during %s', async (moment) => {
    const b = createAccountsBench(connected)
    const state = await startRedirect(b)
    const page = b.manager.handleTrackerCallback({ code: CODE, state })
    await b.clock.settle()
    if (moment === 'check tracker') await b.providers.answer('exchange', yes(PAIR))
    await b.manager.changeCredentials({ trackerApiKey: '' })
    // Tokens that arrive too late are not even checked.
    if (moment === 'exchange') await b.providers.answer('exchange', yes(PAIR))
    else await b.providers.answer('check tracker', yes('Ada'))
    expect(await page).toMatchObject({ status: 400 })
    expect(b.stored().tracker).toEqual({})
  })

  test('after a change of tracker the code is not sent to the new one', async () => {
    const b = createAccountsBench()
    const state = await startRedirect(b)
    b.edit({ tracker: { driver: 'github' } })
    expect(await openCallback(b, { code: CODE, state })).toMatchObject({ status: 400 })
    expect(b.providers.count('exchange')).toBe(0)
  })

  test('a token refresh during the flow does not supersede it', async () => {
    const b = createAccountsBench(connected)
    const state = await startRedirect(b)
    b.edit({ tracker: { apiKey: 'refreshed', refreshToken: 'another' } })
    expect(await returnFromConsent(b, state)).toMatchObject({ status: 200 })
  })

  test('after a disconnect no callback reports a connection', async () => {
    const b = createAccountsBench()
    const state = await startRedirect(b)
    await returnFromConsent(b, state)
    await b.manager.changeCredentials({ trackerApiKey: '' })
    expect(await openCallback(b, { code: CODE, state })).toMatchObject({ status: 400 })
  })
})

describe('a pasted address', () => {
  test.each([
    (state: string) => `http://localhost:4400/api/connect/tracker/callback?code=${CODE}&state=${state}`,
    (state: string) => ` http://127.0.0.1:9/api/connect/tracker/callback?state=${state}&code=${CODE}#_\n`,
    (state: string) => `localhost:4400/api/connect/tracker/callback?code=${CODE}&state=${state}`,
    (state: string) => `?code=${CODE}&state=${state}`,
  ])('works like the browser’s own request', async (addressOf) => {
    const b = createAccountsBench()
    const state = await startRedirect(b)
    const answer = b.manager.handlePastedCallback(addressOf(state))
    await b.clock.settle()
    await completeExchange(b)
    expect(await answer).toMatchObject({
      ok: true,
      value: { status: 'connected', detail: 'Ada of Acme', config: { tracker: { apiKey: '***' } } },
    })
  })

  test.each([
    'nonsense',
    '',
    'http://localhost:4400/',
    'http://localhost:4400/api/connect/tracker/callback',
    'http://localhost:4400/api/connect/tracker/callback?code=abc',
    'http://localhost:4400/api/config?code=abc&state=def',
    'file:///api/connect/tracker/callback?code=abc&state=def',
    '?code=abc',
    '?state=abc',
    `?code=${'secret'.repeat(2000)}&state=x`,
    '?code=secret&code=secret&state=x',
  ])('of another form is refused and not quoted: %j', async (address) => {
    const b = createAccountsBench()
    const answer = await b.manager.handlePastedCallback(address)
    expect(answer).toMatchObject({ ok: false, refusal: { kind: 'invalid' } })
    expect(JSON.stringify(answer)).toMatch(/"\/address/)
    expect(JSON.stringify(answer)).not.toContain('secret')
  })

  test('with an unknown state is an error, and so is a refused consent', async () => {
    const b = createAccountsBench()
    const state = await startRedirect(b)
    expect(await b.manager.handlePastedCallback('?code=abc&state=forged')).toMatchObject({
      value: { status: 'error' },
    })
    expect(await b.now(b.manager.handlePastedCallback(`?error=access_denied&state=${state}`))).toMatchObject({
      value: { status: 'error', detail: expect.stringContaining('nothing was changed') },
    })
  })
})

describe('pending requests are answered', () => {
  test('when the flow throws', async () => {
    const b = createAccountsBench()
    const state = await startRedirect(b)
    const page = b.manager.handleTrackerCallback({ code: CODE, state })
    await b.clock.settle()
    const bug = {
      get: () => {
        throw new Error('a bug')
      },
    }
    b.system.send(
      OAUTH_REDIRECT,
      'journey-1',
      Object.defineProperty({ type: 'exchange failed' }, 'reason', { enumerable: true, ...bug }) as never,
    )
    await b.clock.settle()
    expect(await page).toMatchObject({ status: 400 })
    await b.providers.answer('exchange', yes(PAIR))
    expect(b.manager.size).toBe(0)
    expect(b.saves).toEqual([])
  })

  test('when the service stops, and nothing is saved after it', async () => {
    const b = createAccountsBench()
    const state = await startRedirect(b)
    const page = b.manager.handleTrackerCallback({ code: CODE, state })
    await b.clock.settle()
    b.manager.stop()
    expect(await page).toMatchObject({ status: 503 })
    await b.providers.answer('exchange', yes(PAIR))
    expect(b.providers.count('check tracker')).toBe(0)
    expect(await openCallback(b, { code: CODE, state })).toMatchObject({ status: 503 })
    expect(await b.manager.handlePastedCallback(`?code=a&state=${state}`)).toMatchObject({
      value: { status: 'error' },
    })
  })
})
