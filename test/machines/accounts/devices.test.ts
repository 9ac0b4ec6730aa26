/** Connecting the code host by a device code, in a room with everything it needs. */
import { describe, expect, test } from '@jest/globals'
import { no, yes } from '../../../core/result.ts'
import type { ConnectPollResponse } from '../../../protocol/connect.ts'
import { type AccountsBench, createAccountsBench, DEVICE_START } from './accounts-fixture.ts'

const TOKEN = 'gho_a-very-secret-token'

async function startFlow(stored: unknown = {}, started: object = DEVICE_START): Promise<AccountsBench> {
  const b = createAccountsBench(stored)
  const answer = b.manager.connect('codehost')
  await b.clock.turn()
  await b.providers.answer('start device', yes(started))
  expect(await answer).toMatchObject({ ok: true, value: { status: 'device' } })
  return b
}

/** Polls once the interval has passed; the code host is asked and not answered yet. */
async function pollDuringRequest(
  b: AccountsBench,
): Promise<{ readonly polled: Promise<ConnectPollResponse> }> {
  await b.clock.advance(5_000)
  const polled = b.manager.pollCodehost()
  await b.clock.turn()
  return { polled }
}

test('the code is shown, the token is checked, saved and announced, and no answer holds a secret', async () => {
  const b = createAccountsBench()
  const answer = b.manager.connect('codehost')
  await b.clock.turn()
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
  await b.clock.turn()
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
  const said = JSON.stringify(connected) + b.loggedText()
  expect(said).not.toContain(TOKEN)
  expect(said).not.toContain('secret-device-code')
  // A second dashboard hears the same.
  expect(await b.now(b.manager.pollCodehost())).toMatchObject({ status: 'connected' })
})

test('early polls are answered without a call', async () => {
  const b = await startFlow()
  for (let n = 0; n < 50; n++) expect(await b.now(b.manager.pollCodehost())).toEqual({ status: 'pending' })
  expect(b.providers.count('poll device')).toBe(0)
})

test('two polls at once are one call, and both hear what it brings', async () => {
  const b = await startFlow()
  await b.clock.advance(5_000)
  const both = [b.manager.pollCodehost(), b.manager.pollCodehost()]
  await b.clock.turn()
  expect(b.providers.count('poll device')).toBe(1)
  await b.providers.answer('poll device', yes({ is: 'pending' }))
  expect(await Promise.all(both)).toEqual([{ status: 'pending' }, { status: 'pending' }])
})

test('told to slow down, the code host is left in peace for longer', async () => {
  const b = await startFlow()
  await pollDuringRequest(b)
  await b.providers.answer('poll device', yes({ is: 'pending', intervalSeconds: 10 }))
  await b.clock.advance(9_999)
  expect(await b.now(b.manager.pollCodehost())).toEqual({ status: 'pending' })
  expect(b.providers.count('poll device')).toBe(1)
  await b.clock.advance(1)
  void b.manager.pollCodehost()
  await b.clock.turn()
  expect(b.providers.count('poll device')).toBe(2)
})

test('told to slow down without a number, it is left in peace for one step longer each time', async () => {
  const b = await startFlow()
  for (const [round, seconds] of [5, 10, 15, 20].entries()) {
    await b.clock.advance(seconds * 1000 - 1)
    expect(await b.now(b.manager.pollCodehost())).toEqual({ status: 'pending' })
    expect(b.providers.count('poll device')).toBe(round)
    await b.clock.advance(1)
    void b.manager.pollCodehost()
    await b.clock.turn()
    await b.providers.answer('poll device', yes({ is: 'pending', isTooFast: true }))
  }
})

test('the wall clock may be set back meanwhile: the interval is measured on another', async () => {
  const b = await startFlow()
  b.clock.jump(-3_600_000)
  await pollDuringRequest(b)
  expect(b.providers.count('poll device')).toBe(1)
})

test('a code that runs out is over, without a call', async () => {
  const b = await startFlow()
  await b.clock.advance(900_000)
  expect(await b.now(b.manager.pollCodehost())).toEqual({
    status: 'error',
    detail: 'the code was not entered in time; connect the code host again',
  })
  expect(b.providers.count('poll device')).toBe(0)
})

test('a code that the person denied is over, with the code host’s reason', async () => {
  const b = await startFlow()
  const { polled } = await pollDuringRequest(b)
  await b.providers.answer('poll device', yes({ is: 'over', reason: 'access was denied; connect again' }))
  expect(await polled).toEqual({ status: 'error', detail: 'access was denied; connect again' })
  expect(b.providers.count('poll device')).toBe(1)
})

test('a code host that can’t be asked just now is pending, and the log says why without the code', async () => {
  const b = await startFlow()
  const { polled } = await pollDuringRequest(b)
  await b.providers.answer('poll device', no('unavailable', 'no way to ask with secret-device-code'))
  expect(await polled).toEqual({ status: 'pending' })
  expect(b.loggedText()).toContain('no way to ask with ***')
})

test('a code host that can’t be asked is asked less and less often, but still twice a minute', async () => {
  const b = await startFlow()
  for (const [round, seconds] of [5, 10, 20, 30, 30, 30].entries()) {
    await b.clock.advance(seconds * 1000 - 1)
    expect(await b.now(b.manager.pollCodehost())).toEqual({ status: 'pending' })
    expect(b.providers.count('poll device')).toBe(round)
    await b.clock.advance(1)
    void b.manager.pollCodehost()
    await b.clock.turn()
    await b.providers.answer('poll device', no('unavailable', 'wants fewer requests; try again in 30 s'))
  }
})

test('a code host that never answers is pending after a while', async () => {
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

describe('beginning anew', () => {
  test('takes the place of the earlier flow, whose pollers are told of the newest', async () => {
    const b = await startFlow()
    const { polled: waiting } = await pollDuringRequest(b)
    const again = b.manager.connect('codehost')
    await b.clock.turn()
    expect(await waiting).toMatchObject({ status: 'error', detail: expect.stringContaining('newer') })
    await b.providers.answer('start device', yes({ ...DEVICE_START, userCode: 'WXYZ-9' }))
    expect(await again).toMatchObject({ value: { userCode: 'WXYZ-9' } })
    // What the earlier one was waiting for comes to nothing.
    await b.providers.answer('poll device', yes({ is: 'token', token: TOKEN }))
    expect(b.providers.count('check codehost')).toBe(0)
    expect(b.manager.size).toBe(1)
  })

  test('also while the earlier one still waits for its code', async () => {
    const b = createAccountsBench()
    const first = b.manager.connect('codehost')
    await b.clock.turn()
    const second = b.manager.connect('codehost')
    await b.clock.turn()
    expect(await first).toMatchObject({ ok: false, refusal: { kind: 'conflict' } })
    await b.providers.answer('start device', yes({ ...DEVICE_START, userCode: 'FIRST' }))
    await b.providers.answer('start device', yes({ ...DEVICE_START, userCode: 'SECOND' }))
    expect(await second).toMatchObject({ value: { userCode: 'SECOND' } })
  })
})

describe('a person who does something else meanwhile wins', () => {
  test('disconnecting ends the flow', async () => {
    const b = await startFlow({ codehost: { token: 'gho_the-old-token' } })
    await b.manager.changeCredentials({ codehostToken: '' })
    expect(await b.now(b.manager.pollCodehost())).toMatchObject({ status: 'error' })
    expect(b.config().codehost.token).toBeUndefined()
  })

  test('also when the token is being checked already', async () => {
    const b = await startFlow({ codehost: { token: 'gho_the-old-token' } })
    const { polled } = await pollDuringRequest(b)
    await b.providers.answer('poll device', yes({ is: 'token', token: TOKEN }))
    await b.manager.changeCredentials({ codehostToken: '' })
    await b.providers.answer('check codehost', yes('octocat'))
    expect(await polled).toMatchObject({ status: 'error' })
    expect(b.config().codehost.token).toBeUndefined()
  })

  test('also when it is about to be written', async () => {
    const b = await startFlow({ codehost: { token: 'gho_the-old-token' } })
    const { polled } = await pollDuringRequest(b)
    await b.providers.answer('poll device', yes({ is: 'token', token: TOKEN }))
    let open: () => void = () => {}
    b.world.gate = new Promise((resolve) => {
      open = resolve
    })
    await b.providers.answer('check codehost', yes('octocat'))
    // By hand, in the file.
    b.edit({})
    open()
    await b.clock.turn()
    expect(await polled).toMatchObject({
      status: 'error',
      detail: expect.stringContaining('in the meantime'),
    })
    expect(b.saves).toEqual([])
  })

  test('a code is never shown to another code host than the one that gave it', async () => {
    const b = await startFlow()
    b.edit({ codehost: { apiUrl: 'https://another.example/api/v3' } })
    const { polled } = await pollDuringRequest(b)
    expect(await polled).toMatchObject({ status: 'error' })
    expect(b.providers.count('poll device')).toBe(0)
  })
})

describe('what is not possible', () => {
  test('without a flow there is nothing to poll', async () => {
    const b = createAccountsBench()
    expect(await b.manager.pollCodehost()).toMatchObject({
      status: 'error',
      detail: expect.stringContaining('POST /api/connect/codehost'),
    })
  })

  test('where only a token given by hand is possible, the form is shown, and nothing remains', async () => {
    const b = createAccountsBench()
    const answer = b.manager.connect('codehost')
    await b.clock.turn()
    await b.providers.answer('start device', no('invalid', 'set connect.codehostClientId, or give a token'))
    expect(await answer).toEqual(
      yes({
        status: 'manual',
        provider: 'codehost',
        reason: 'set connect.codehostClientId, or give a token',
      }),
    )
    await b.clock.turn()
    expect(b.manager.size).toBe(0)
  })

  test.each([
    ['unavailable', 'unavailable'],
    ['failed', 'invalid'],
    // Not 401: the dashboard would believe that its own token is worth nothing.
    ['unauthorized', 'invalid'],
  ] as const)('a code host that says %s is a refusal: %s', async (kind, told) => {
    const b = createAccountsBench()
    const answer = b.manager.connect('codehost')
    await b.clock.turn()
    await b.providers.answer('start device', no(kind, 'try later'))
    expect(await answer).toEqual(no(told, 'try later'))
  })

  test.each([
    { ...DEVICE_START, verificationUri: 'javascript:alert(1)' },
    { ...DEVICE_START, verificationUri: 'https://' },
    { ...DEVICE_START, userCode: '' },
    { ...DEVICE_START, userCode: 'A\u202EB' },
    { ...DEVICE_START, userCode: 'x'.repeat(600) },
    { ...DEVICE_START, deviceCode: '' },
  ])('what can’t be shown to a person is not: %j', async (strange) => {
    const b = createAccountsBench()
    const answer = b.manager.connect('codehost')
    await b.clock.turn()
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
  ])('strange times are bounded: %j', async (strange, bounded) => {
    const b = createAccountsBench()
    const answer = b.manager.connect('codehost')
    await b.clock.turn()
    await b.providers.answer('start device', yes({ ...DEVICE_START, ...strange }))
    expect(await answer).toMatchObject({ value: bounded })
  })

  test('the local code host needs no account', async () => {
    const b = createAccountsBench({ codehost: { driver: 'local', path: '/srv/git' } })
    expect(await b.manager.connect('codehost')).toMatchObject({ ok: true, value: { status: 'connected' } })
    expect(b.providers.asked).toEqual([])
  })
})

describe('whoever waits is answered', () => {
  test('when the service stops', async () => {
    const b = await startFlow()
    const { polled } = await pollDuringRequest(b)
    const begins = b.manager.connect('codehost')
    const finds = b.manager.connect('agentA')
    b.manager.stop()
    await b.clock.turn()
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
    // No such event is ever sent: a guard that reads it throws.
    b.system.send(
      'device-flow',
      'device-1',
      new Proxy(
        { type: 'still pending' },
        {
          get: (target, key) => {
            if (key === 'intervalMs') throw new Error('a bug')
            return Reflect.get(target, key)
          },
        },
      ),
    )
    await b.clock.turn()
    expect(await polled).toMatchObject({
      status: 'error',
      detail: 'connecting the code host failed; connect it again',
    })
    // What it had asked falls on the floor.
    await b.providers.answer('poll device', yes({ is: 'token', token: TOKEN }))
    expect(b.manager.size).toBe(0)
    expect(b.providers.count('check codehost')).toBe(0)
  })

  test('when a provider throws, and the log does not repeat what it threw', async () => {
    const b = createAccountsBench()
    const answer = b.manager.connect('codehost')
    await b.clock.turn()
    b.providers.take('start device').fail(new Error('with secret-inside'))
    await b.clock.turn()
    expect(await answer).toMatchObject({ ok: false, refusal: { kind: 'invalid' } })
    expect(b.loggedText()).toContain('threw')
    expect(b.loggedText()).not.toContain('secret-inside')
  })

  test('polls without end do not pile up', async () => {
    const b = await startFlow()
    await b.clock.advance(5_000)
    const all = Array.from({ length: 40 }, () => b.manager.pollCodehost())
    await b.clock.turn()
    expect(await b.now(all[39] as Promise<ConnectPollResponse>)).toEqual({ status: 'pending' })
    expect(b.providers.count('poll device')).toBe(1)
    await b.providers.answer('poll device', yes({ is: 'pending' }))
    expect(await Promise.all(all)).toHaveLength(40)
  })
})
