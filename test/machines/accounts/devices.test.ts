/** Connecting the code host by a device flow, through the whole AccountManager. */
import { describe, expect, test } from '@jest/globals'
import { CODE_EXPIRED, DEVICE_FLOW } from '../../../actors/accounts/device-flow.machine.ts'
import { CONNECT_CODEHOST_FAILED } from '../../../actors/accounts/device-flows.ts'
import { no, yes } from '../../../core/result.ts'
import type { ConnectPollResponse } from '../../../protocol/connect.ts'
import { type AccountsBench, createAccountsBench, DEVICE_START } from './accounts-fixture.ts'

const TOKEN = 'gho_a-very-secret-token'

async function startFlow(stored: unknown = {}, started: object = DEVICE_START): Promise<AccountsBench> {
  const b = createAccountsBench(stored)
  const answer = b.manager.connect('codehost')
  await b.clock.settle()
  await b.providers.answer('start device', yes(started))
  expect(await answer).toMatchObject({ ok: true, value: { status: 'device' } })
  return b
}

/** Polls after the interval has passed. The request to the code host stays unanswered. */
async function pollDuringRequest(
  b: AccountsBench,
): Promise<{ readonly polled: Promise<ConnectPollResponse> }> {
  await b.clock.advance(5_000)
  const polled = b.manager.pollCodehost()
  await b.clock.settle()
  return { polled }
}

test('the code is shown, the token is checked, saved and published, and no reply holds a secret', async () => {
  const b = createAccountsBench()
  const answer = b.manager.connect('codehost')
  await b.clock.settle()
  await b.providers.answer('start device', yes(DEVICE_START))
  expect(await answer).toEqual(
    yes({
      status: 'device',
      provider: 'codehost',
      userCode: 'ABCD-1234',
      verificationUri: 'https://codehost.example/login/device',
      interval: 5,
      expiresIn: 900,
    }),
  )

  await b.clock.advance(5_000)
  const polled = b.manager.pollCodehost()
  await b.clock.settle()
  const question = await b.providers.answer('poll device', yes({ is: 'token', token: TOKEN }))
  expect(question.order).toBe('secret-device-code')
  const check = await b.providers.answer('check codehost', yes('octocat (repo, workflow)'))
  expect(check.config?.codehost.token).toBe(TOKEN)
  const connected = await polled
  expect(connected).toMatchObject({
    status: 'connected',
    detail: 'octocat (repo, workflow)',
    config: { codehost: { token: '***' } },
  })
  expect(b.saves).toEqual([{ codehost: { token: TOKEN } }])
  const shownText = JSON.stringify(connected) + b.loggedText()
  expect(shownText).not.toContain(TOKEN)
  expect(shownText).not.toContain('secret-device-code')
  // A second dashboard receives the same outcome.
  expect(await b.now(b.manager.pollCodehost())).toMatchObject({ status: 'connected' })
})

test('early polls are answered without a call', async () => {
  const b = await startFlow()
  for (let n = 0; n < 50; n++) expect(await b.now(b.manager.pollCodehost())).toEqual({ status: 'pending' })
  expect(b.providers.count('poll device')).toBe(0)
})

test('two concurrent polls share one call and its result', async () => {
  const b = await startFlow()
  await b.clock.advance(5_000)
  const both = [b.manager.pollCodehost(), b.manager.pollCodehost()]
  await b.clock.settle()
  expect(b.providers.count('poll device')).toBe(1)
  await b.providers.answer('poll device', yes({ is: 'pending' }))
  expect(await Promise.all(both)).toEqual([{ status: 'pending' }, { status: 'pending' }])
})

test('after slow_down the code host is polled less often', async () => {
  const b = await startFlow()
  await pollDuringRequest(b)
  await b.providers.answer('poll device', yes({ is: 'pending', intervalSeconds: 10 }))
  await b.clock.advance(9_999)
  expect(await b.now(b.manager.pollCodehost())).toEqual({ status: 'pending' })
  expect(b.providers.count('poll device')).toBe(1)
  await b.clock.advance(1)
  void b.manager.pollCodehost()
  await b.clock.settle()
  expect(b.providers.count('poll device')).toBe(2)
})

test('after slow_down without a number the interval grows by one step each time', async () => {
  const b = await startFlow()
  for (const [round, seconds] of [5, 10, 15, 20].entries()) {
    await b.clock.advance(seconds * 1000 - 1)
    expect(await b.now(b.manager.pollCodehost())).toEqual({ status: 'pending' })
    expect(b.providers.count('poll device')).toBe(round)
    await b.clock.advance(1)
    void b.manager.pollCodehost()
    await b.clock.settle()
    await b.providers.answer('poll device', yes({ is: 'pending', isTooFast: true }))
  }
})

test('setting back the wall clock does not change the interval', async () => {
  const b = await startFlow()
  b.clock.jumpWallClock(-3_600_000)
  await pollDuringRequest(b)
  expect(b.providers.count('poll device')).toBe(1)
})

test('an expired code fails the flow without a call', async () => {
  const b = await startFlow()
  await b.clock.advance(900_000)
  expect(await b.now(b.manager.pollCodehost())).toEqual({
    status: 'error',
    detail: CODE_EXPIRED,
  })
  expect(b.providers.count('poll device')).toBe(0)
})

test('a denied code fails the flow with the code host’s reason', async () => {
  const b = await startFlow()
  const { polled } = await pollDuringRequest(b)
  await b.providers.answer('poll device', yes({ is: 'over', reason: 'access was denied; connect again' }))
  expect(await polled).toEqual({ status: 'error', detail: 'access was denied; connect again' })
  expect(b.providers.count('poll device')).toBe(1)
})

test('an unreachable code host leaves the flow pending, and the log states the reason without the code', async () => {
  const b = await startFlow()
  const { polled } = await pollDuringRequest(b)
  await b.providers.answer('poll device', no('unavailable', 'no way to ask with secret-device-code'))
  expect(await polled).toEqual({ status: 'pending' })
  expect(b.loggedText()).toContain('no way to ask with ***')
})

test('an unreachable code host is polled less and less often, but at least twice a minute', async () => {
  const b = await startFlow()
  for (const [round, seconds] of [5, 10, 20, 30, 30, 30].entries()) {
    await b.clock.advance(seconds * 1000 - 1)
    expect(await b.now(b.manager.pollCodehost())).toEqual({ status: 'pending' })
    expect(b.providers.count('poll device')).toBe(round)
    await b.clock.advance(1)
    void b.manager.pollCodehost()
    await b.clock.settle()
    await b.providers.answer('poll device', no('unavailable', 'wants fewer requests; try again in 30 s'))
  }
})

test('a code host that never answers leaves the flow pending after a timeout', async () => {
  const b = await startFlow()
  const { polled } = await pollDuringRequest(b)
  await b.clock.advance(60_000)
  expect(await polled).toEqual({ status: 'pending' })
})

test('a token that does not work is not saved', async () => {
  const b = await startFlow()
  const { polled } = await pollDuringRequest(b)
  await b.providers.answer('poll device', yes({ is: 'token', token: TOKEN }))
  await b.providers.answer('check codehost', no('unauthorized', `the scope repo is missing for ${TOKEN}`))
  expect(await polled).toEqual({ status: 'error', detail: 'the scope repo is missing for ***' })
  expect(b.saves).toEqual([])
})

test.each(['', 'with space', 'line\nend', '***'])(
  'a token that is none is not even checked: %j',
  async (token) => {
    const b = await startFlow()
    const { polled } = await pollDuringRequest(b)
    await b.providers.answer('poll device', yes({ is: 'token', token }))
    expect(await polled).toMatchObject({ status: 'error' })
    expect(b.providers.count('check codehost')).toBe(0)
  },
)

describe('starting a second flow', () => {
  test('replaces the earlier flow, whose polls are referred to the newest code', async () => {
    const b = await startFlow()
    const { polled } = await pollDuringRequest(b)
    const again = b.manager.connect('codehost')
    await b.clock.settle()
    expect(await polled).toMatchObject({ status: 'error', detail: expect.stringContaining('newer') })
    await b.providers.answer('start device', yes({ ...DEVICE_START, userCode: 'WXYZ-9' }))
    expect(await again).toMatchObject({ value: { userCode: 'WXYZ-9' } })
    // The reply for the earlier flow is ignored.
    await b.providers.answer('poll device', yes({ is: 'token', token: TOKEN }))
    expect(b.providers.count('check codehost')).toBe(0)
    expect(b.manager.size).toBe(1)
  })

  test('also while the earlier flow waits for its code', async () => {
    const b = createAccountsBench()
    const first = b.manager.connect('codehost')
    await b.clock.settle()
    const second = b.manager.connect('codehost')
    await b.clock.settle()
    expect(await first).toMatchObject({ ok: false, refusal: { kind: 'conflict' } })
    await b.providers.answer('start device', yes({ ...DEVICE_START, userCode: 'FIRST' }))
    await b.providers.answer('start device', yes({ ...DEVICE_START, userCode: 'SECOND' }))
    expect(await second).toMatchObject({ value: { userCode: 'SECOND' } })
  })
})

describe('another action of the person during the flow counts', () => {
  test('disconnecting ends the flow', async () => {
    const b = await startFlow({ codehost: { token: 'gho_the-old-token' } })
    await b.manager.changeCredentials({ codehostToken: '' })
    expect(await b.now(b.manager.pollCodehost())).toMatchObject({ status: 'error' })
    expect(b.config().codehost.token).toBeUndefined()
  })

  test('also during the check of the token', async () => {
    const b = await startFlow({ codehost: { token: 'gho_the-old-token' } })
    const { polled } = await pollDuringRequest(b)
    await b.providers.answer('poll device', yes({ is: 'token', token: TOKEN }))
    await b.manager.changeCredentials({ codehostToken: '' })
    await b.providers.answer('check codehost', yes('octocat'))
    expect(await polled).toMatchObject({ status: 'error' })
    expect(b.config().codehost.token).toBeUndefined()
  })

  test('also just before the token is written', async () => {
    const b = await startFlow({ codehost: { token: 'gho_the-old-token' } })
    const { polled } = await pollDuringRequest(b)
    await b.providers.answer('poll device', yes({ is: 'token', token: TOKEN }))
    let open: () => void = () => {}
    b.world.gate = new Promise((resolve) => {
      open = resolve
    })
    await b.providers.answer('check codehost', yes('octocat'))
    // An edit of the configuration file.
    b.edit({})
    open()
    await b.clock.settle()
    expect(await polled).toMatchObject({
      status: 'error',
      detail: expect.stringContaining('in the meantime'),
    })
    expect(b.saves).toEqual([])
  })

  test('a code is sent only to the code host that issued it', async () => {
    const b = await startFlow()
    b.edit({ codehost: { apiUrl: 'https://another.example/api/v3' } })
    const { polled } = await pollDuringRequest(b)
    expect(await polled).toMatchObject({ status: 'error' })
    expect(b.providers.count('poll device')).toBe(0)
  })

  test('a token is sent only to the code host that issued it', async () => {
    const b = await startFlow()
    const { polled } = await pollDuringRequest(b)
    b.edit({ codehost: { apiUrl: 'https://another.example/api/v3' } })
    await b.providers.answer('poll device', yes({ is: 'token', token: 'issued-token' }))
    expect(await polled).toMatchObject({
      status: 'error',
      detail: expect.stringContaining('in the meantime'),
    })
    expect([b.providers.count('check codehost'), b.saves]).toEqual([0, []])
  })
})

describe('refused requests', () => {
  test('a poll without a flow is an error', async () => {
    const b = createAccountsBench()
    expect(await b.manager.pollCodehost()).toMatchObject({
      status: 'error',
      detail: expect.stringContaining('POST /api/connect/codehost'),
    })
  })

  test('when only a token given by hand is possible, the reply asks for one, and no flow remains', async () => {
    const b = createAccountsBench()
    const answer = b.manager.connect('codehost')
    await b.clock.settle()
    await b.providers.answer('start device', no('invalid', 'set connect.codehostClientId, or give a token'))
    expect(await answer).toEqual(
      yes({
        status: 'manual',
        provider: 'codehost',
        reason: 'set connect.codehostClientId, or give a token',
      }),
    )
    await b.clock.settle()
    expect(b.manager.size).toBe(0)
  })

  test.each([
    ['unavailable', 'unavailable'],
    ['failed', 'invalid'],
    // Not 401, because the dashboard would take its own token for invalid.
    ['unauthorized', 'invalid'],
  ] as const)('a code host that refuses with %s becomes the refusal %s', async (kind, kindOfRefusal) => {
    const b = createAccountsBench()
    const answer = b.manager.connect('codehost')
    await b.clock.settle()
    await b.providers.answer('start device', no(kind, 'try later'))
    expect(await answer).toEqual(no(kindOfRefusal, 'try later'))
  })

  test.each([
    { ...DEVICE_START, verificationUri: 'javascript:alert(1)' },
    { ...DEVICE_START, verificationUri: 'https://' },
    { ...DEVICE_START, userCode: '' },
    { ...DEVICE_START, userCode: 'A\u202EB' },
    { ...DEVICE_START, userCode: 'x'.repeat(600) },
    { ...DEVICE_START, deviceCode: '' },
  ])('a start reply that can’t be displayed is refused: %j', async (strange) => {
    const b = createAccountsBench()
    const answer = b.manager.connect('codehost')
    await b.clock.settle()
    await b.providers.answer('start device', yes(strange))
    expect(await answer).toMatchObject({ ok: false, refusal: { kind: 'invalid' } })
  })

  test.each([
    [
      { intervalSeconds: 0, expiresInSeconds: 1e9 },
      { interval: 1, expiresIn: 86_400 },
    ],
    [
      { intervalSeconds: Number.NaN, expiresInSeconds: -5 },
      { interval: 5, expiresIn: 1 },
    ],
  ])('unusual times are clamped: %j', async (strange, bounded) => {
    const b = createAccountsBench()
    const answer = b.manager.connect('codehost')
    await b.clock.settle()
    await b.providers.answer('start device', yes({ ...DEVICE_START, ...strange }))
    expect(await answer).toMatchObject({ value: bounded })
  })

  test('the local code host needs no account', async () => {
    const b = createAccountsBench({ codehost: { driver: 'local', path: '/srv/git' } })
    expect(await b.manager.connect('codehost')).toMatchObject({ ok: true, value: { status: 'connected' } })
    expect(b.providers.asked).toEqual([])
  })
})

describe('pending requests are answered', () => {
  test('when the service stops', async () => {
    const b = await startFlow()
    const { polled } = await pollDuringRequest(b)
    const begins = b.manager.connect('codehost')
    const finds = b.manager.connect('agentA')
    b.manager.stop()
    await b.clock.settle()
    expect(await polled).toMatchObject({ status: 'error' })
    expect(await begins).toMatchObject({ ok: false, refusal: { kind: 'unavailable' } })
    expect(await finds).toMatchObject({ ok: false, refusal: { kind: 'unavailable' } })
    expect(await b.manager.connect('codehost')).toMatchObject({ ok: false, refusal: { kind: 'unavailable' } })
    expect(b.manager.size).toBe(0)
    b.system.stop()
    expect(b.clock.timers).toBe(0)
  })

  test('when the flow throws', async () => {
    const b = await startFlow()
    const { polled } = await pollDuringRequest(b)
    // This malformed event makes the guard that reads it throw.
    b.system.send(
      DEVICE_FLOW,
      'device-1',
      new Proxy(
        { type: 'still pending', intervalMs: null, isTooFast: false },
        {
          get: (target, key) => {
            if (key === 'intervalMs') throw new Error('a bug')
            return Reflect.get(target, key)
          },
        },
      ),
    )
    await b.clock.settle()
    expect(await polled).toMatchObject({
      status: 'error',
      detail: CONNECT_CODEHOST_FAILED,
    })
    // The reply to its request is dropped.
    await b.providers.answer('poll device', yes({ is: 'token', token: TOKEN }))
    expect(b.manager.size).toBe(0)
    expect(b.providers.count('check codehost')).toBe(0)
  })

  test('when a provider throws, and the log does not repeat the message', async () => {
    const b = createAccountsBench()
    const answer = b.manager.connect('codehost')
    await b.clock.settle()
    b.providers.take('start device').fail(new Error('with secret-inside'))
    await b.clock.settle()
    expect(await answer).toMatchObject({ ok: false, refusal: { kind: 'invalid' } })
    expect(b.loggedText()).toContain('threw')
    expect(b.loggedText()).not.toContain('secret-inside')
  })

  test('the number of pending polls is limited', async () => {
    const b = await startFlow()
    await b.clock.advance(5_000)
    const all = Array.from({ length: 40 }, () => b.manager.pollCodehost())
    await b.clock.settle()
    expect(await b.now(all[39] as Promise<ConnectPollResponse>)).toEqual({ status: 'pending' })
    expect(b.providers.count('poll device')).toBe(1)
    await b.providers.answer('poll device', yes({ is: 'pending' }))
    expect(await Promise.all(all)).toHaveLength(40)
  })
})
