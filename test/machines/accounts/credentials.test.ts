/** Setting and removing credentials by hand, field by field. */
import { describe, expect, test } from '@jest/globals'
import { no, yes } from '../../../core/result.ts'
import { CredentialsResponse } from '../../../protocol/connect.ts'
import { createChecker } from '../../../protocol/parse.ts'
import { type AccountsBench, createAccountsBench } from './accounts-fixture.ts'

const ALL = {
  tracker: {
    apiKey: 'lin_api_stored',
    refreshToken: 'stored-refresh',
    tokenExpiresAt: '2026-01-02T00:00:00.000Z',
  },
  codehost: { token: 'ghp_stored' },
  agent: {
    agentAApiKey: 'sk-ant-api03-stored',
    agentAOauthToken: 'sk-ant-oat01-stored',
    agentBLogin: 'a login of agentB',
    agentCApiKey: 'stored-agent-c',
    agentCLogin: 'a login of agentC',
  },
}

const KEYS = {
  trackerApiKey: 'lin_api_new-secret',
  codehostToken: 'ghp_new-secret',
  agentAApiKey: 'sk-ant-api03-new-secret',
  agentCApiKey: 'agent-c-new-secret',
}
const CHECKS = ['check tracker', 'check codehost', 'check agentA', 'check agentC']

async function changeCredentials(
  b: AccountsBench,
  request: Parameters<AccountsBench['manager']['changeCredentials']>[0],
) {
  const answer = b.manager.changeCredentials(request)
  await b.clock.settle()
  return answer
}

describe('each credential is checked with its provider', () => {
  test('all are checked in parallel and saved in one change, and no reply or log line holds one', async () => {
    const b = createAccountsBench()
    const answer = b.manager.changeCredentials(KEYS)
    await b.clock.settle()
    // All checks are sent before any is answered.
    expect(b.providers.open.map(({ what }) => what)).toEqual(CHECKS)
    for (const check of CHECKS) await b.providers.answer(check, yes(`${check}: fine`))
    const changed = await answer
    expect(changed).toMatchObject({
      ok: true,
      value: {
        results: {
          tracker: { ok: true, detail: 'check tracker: fine' },
          codehost: { ok: true, detail: 'check codehost: fine' },
          agentA: { ok: true, detail: 'check agentA: fine' },
          agentC: { ok: true, detail: 'check agentC: fine' },
        },
        config: { tracker: { apiKey: '***' }, codehost: { token: '***' } },
      },
    })
    expect(b.saves).toHaveLength(1)
    expect(b.stored()).toEqual({
      tracker: { apiKey: KEYS.trackerApiKey },
      codehost: { token: KEYS.codehostToken },
      agent: { agentAApiKey: KEYS.agentAApiKey, agentCApiKey: KEYS.agentCApiKey },
    })
    expect(createChecker(CredentialsResponse)(changed.ok ? changed.value : undefined)).toMatchObject({
      ok: true,
    })
    expect(JSON.stringify(changed) + b.loggedText()).not.toContain('new-secret')
  })

  test('a sent credential replaces all credentials of its provider and no others', async () => {
    const b = createAccountsBench({ ...ALL, sandbox: { concurrency: 3 } })
    const answer = b.manager.changeCredentials({ trackerApiKey: KEYS.trackerApiKey })
    await b.clock.settle()
    expect(b.providers.take('check tracker').config?.tracker).toMatchObject({ apiKey: KEYS.trackerApiKey })
    expect(b.providers.asked).toEqual(['check tracker'])
    b.manager.stop()
    await answer
    const again = createAccountsBench({ ...ALL, sandbox: { concurrency: 3 } })
    const changed = again.manager.changeCredentials({ trackerApiKey: KEYS.trackerApiKey })
    await again.clock.settle()
    const { config } = await again.providers.answer('check tracker', yes('Ada'))
    expect(config?.tracker.refreshToken).toBeUndefined()
    await changed
    expect(again.stored()).toEqual({
      ...ALL,
      sandbox: { concurrency: 3 },
      tracker: { apiKey: KEYS.trackerApiKey },
    })
  })

  test('a token for the bucket is checked there, kept, and taken away by an empty one', async () => {
    const b = createAccountsBench({ storage: { bucket: 'shots' } })
    const answer = b.manager.changeCredentials({ storageToken: 'cf-token' })
    await b.clock.settle()
    expect((await b.providers.answer('check bucket', yes('Dev'))).order).toBe('cf-token')
    expect(await answer).toMatchObject({ value: { results: { storage: { ok: true, detail: 'Dev' } } } })
    expect(b.stored()).toEqual({ storage: { bucket: 'shots', token: 'cf-token' } })
    await b.manager.changeCredentials({ storageToken: '' })
    expect(b.stored()).toEqual({ storage: { bucket: 'shots' } })
  })

  test('a setup token given as an API key is saved as an OAuth token', async () => {
    const b = createAccountsBench({ agent: { agentAApiKey: 'sk-ant-api03-stored' } })
    const answer = b.manager.changeCredentials({ agentAApiKey: 'sk-ant-oat01-new' })
    await b.clock.settle()
    const { config } = await b.providers.answer('check agentA', yes('a subscription'))
    expect(config?.agent).toMatchObject({ agentAOauthToken: 'sk-ant-oat01-new' })
    expect(config?.agent.agentAApiKey).toBeUndefined()
    expect(await answer).toMatchObject({ value: { results: { agentA: { ok: true } } } })
    expect(b.stored().agent).toEqual({ agentAOauthToken: 'sk-ant-oat01-new' })
  })

  test('an OAuth token of the tracker is saved, and its detail states how long it lasts', async () => {
    const b = createAccountsBench(ALL)
    const answer = b.manager.changeCredentials({ trackerApiKey: 'lin_oauth_by-hand' })
    await b.clock.settle()
    await b.providers.answer('check tracker', yes('Ada'))
    expect(await answer).toMatchObject({
      value: { results: { tracker: { ok: true, detail: expect.stringContaining('within a day') } } },
    })
    expect(b.stored().tracker).toEqual({ apiKey: 'lin_oauth_by-hand' })
  })

  test('an empty request changes nothing', async () => {
    const b = createAccountsBench(ALL)
    expect(await changeCredentials(b, {})).toMatchObject({ ok: true, value: { results: {} } })
    expect(b.saves).toEqual([])
  })
})

describe('an invalid credential', () => {
  test('is refused alone, while the others are saved', async () => {
    const b = createAccountsBench(ALL)
    const answer = b.manager.changeCredentials(KEYS)
    await b.clock.settle()
    await b.providers.answer('check tracker', no('unauthorized', `${KEYS.trackerApiKey} is not known`))
    await b.providers.answer('check codehost', yes('octocat'))
    await b.providers.answer('check agentA', no('unavailable', 'come back later'))
    await b.providers.answer('check agentC', yes('fine'))
    expect(await answer).toMatchObject({
      value: {
        results: {
          tracker: { ok: false, detail: '*** is not known' },
          codehost: { ok: true },
          agentA: { ok: false, detail: 'come back later' },
          agentC: { ok: true },
        },
      },
    })
    expect(b.stored()).toMatchObject({
      tracker: ALL.tracker,
      codehost: { token: KEYS.codehostToken },
      agent: { agentAApiKey: ALL.agent.agentAApiKey, agentCApiKey: KEYS.agentCApiKey },
    })
  })

  test.each([
    ['***', 'is the mask'],
    [' ghp_key', 'holds a space'],
    ['ghp key', 'holds a space'],
    ['ghp_key\n', 'holds a line end'],
    ['ghp_key\r\nX-Evil: 1', 'holds a line end'],
    ['ghp\u0000key', 'a control character'],
    ['ghp\u200Bkey', 'beyond ASCII'],
    ['schlüssel', 'beyond ASCII'],
    ['x'.repeat(9_000), 'longer than'],
  ])('is not sent to its provider when its form is impossible: %j', async (value, why) => {
    const b = createAccountsBench(ALL)
    for (const [field, provider] of [
      ['trackerApiKey', 'tracker'],
      ['codehostToken', 'codehost'],
      ['agentAApiKey', 'agentA'],
      ['agentCApiKey', 'agentC'],
    ] as const)
      expect(await changeCredentials(b, { [field]: value })).toMatchObject({
        value: { results: { [provider]: { ok: false, detail: expect.stringContaining(why) } } },
      })
    expect(b.providers.asked).toEqual([])
    expect(b.saves).toEqual([])
  })

  test('a provider that does not answer delays the others only until the timeout', async () => {
    const b = createAccountsBench()
    const answer = b.manager.changeCredentials({ trackerApiKey: 'lin_api_x', codehostToken: 'ghp_x' })
    await b.clock.settle()
    await b.providers.answer('check codehost', yes('octocat'))
    await b.clock.advance(60_000)
    expect(await answer).toMatchObject({
      value: {
        results: {
          tracker: { ok: false, detail: 'the tracker did not answer within 60 seconds' },
          codehost: { ok: true },
        },
      },
    })
    expect(b.stored()).toEqual({ codehost: { token: 'ghp_x' } })
  })

  test('when the file can’t be written, every field is refused', async () => {
    const b = createAccountsBench(ALL)
    b.world.refuseSave = no('failed', 'the disk is full')
    const answer = b.manager.changeCredentials({
      codehostToken: 'ghp_x',
      agentCApiKey: 'c-key',
      trackerApiKey: '',
    })
    await b.clock.settle()
    await b.providers.answer('check codehost', yes('octocat'))
    await b.providers.answer('check agentC', yes('fine'))
    const refused = { ok: false, detail: 'the disk is full' }
    expect(await answer).toMatchObject({
      value: { results: { tracker: refused, codehost: refused, agentC: refused } },
    })
  })

  test('requests beyond the concurrency limit are refused', async () => {
    const b = createAccountsBench()
    const all = Array.from({ length: 33 }, () => b.manager.changeCredentials({ codehostToken: 'ghp_x' }))
    await b.clock.settle()
    expect(b.providers.count('check codehost')).toBe(32)
    expect(await all[32]).toMatchObject({
      value: { results: { codehost: { ok: false, detail: expect.stringContaining('already running') } } },
    })
  })
})

describe('an empty value disconnects', () => {
  test.each([
    ['trackerApiKey', { ...ALL, tracker: {} }],
    ['codehostToken', { ...ALL, codehost: {} }],
    [
      'agentAApiKey',
      {
        ...ALL,
        agent: {
          agentBLogin: 'a login of agentB',
          agentCApiKey: 'stored-agent-c',
          agentCLogin: 'a login of agentC',
        },
      },
    ],
    [
      'agentCApiKey',
      {
        ...ALL,
        agent: {
          agentAApiKey: 'sk-ant-api03-stored',
          agentAOauthToken: 'sk-ant-oat01-stored',
          agentBLogin: 'a login of agentB',
        },
      },
    ],
  ])('%s: all credentials of its provider are removed without a check', async (field, left) => {
    const b = createAccountsBench(ALL)
    expect(await changeCredentials(b, { [field]: '' })).toMatchObject({
      ok: true,
      value: { results: expect.objectContaining({}) },
    })
    expect(b.stored()).toEqual(left)
    expect(b.providers.asked).toEqual([])
  })

  test('also when the provider was not connected', async () => {
    const b = createAccountsBench()
    expect(await changeCredentials(b, { trackerApiKey: '' })).toMatchObject({
      value: { results: { tracker: { ok: true, detail: 'disconnected' } } },
    })
  })

  test('together with a credential that is set', async () => {
    const b = createAccountsBench(ALL)
    const answer = b.manager.changeCredentials({ agentAApiKey: '', agentCApiKey: 'c-new' })
    await b.clock.settle()
    await b.providers.answer('check agentC', yes('fine'))
    await answer
    expect(b.saves).toHaveLength(1)
    expect(b.stored().agent).toEqual({ agentBLogin: 'a login of agentB', agentCApiKey: 'c-new' })
  })
})

describe('the later attempt counts', () => {
  test('a key that is still being checked does not undo a disconnect', async () => {
    const b = createAccountsBench(ALL)
    const slow = b.manager.changeCredentials({ trackerApiKey: 'lin_api_slow', codehostToken: 'ghp_slow' })
    await b.clock.settle()
    await changeCredentials(b, { trackerApiKey: '' })
    await b.providers.answer('check tracker', yes('Ada'))
    await b.providers.answer('check codehost', yes('octocat'))
    expect(await slow).toMatchObject({
      value: {
        results: {
          tracker: { ok: false, detail: expect.stringContaining('a later change') },
          codehost: { ok: true },
        },
      },
    })
    expect(b.stored()).toMatchObject({ tracker: {}, codehost: { token: 'ghp_slow' } })
  })

  test('nor does a key that is about to be written, while the other fields are written', async () => {
    const b = createAccountsBench(ALL)
    let open: () => void = () => {}
    b.world.gate = new Promise((resolve) => {
      open = resolve
    })
    const slow = b.manager.changeCredentials({ trackerApiKey: 'lin_api_slow', codehostToken: 'ghp_slow' })
    await b.clock.settle()
    await b.providers.answer('check tracker', yes('Ada'))
    await b.providers.answer('check codehost', yes('octocat'))
    const quick = b.manager.changeCredentials({ trackerApiKey: '' })
    await b.clock.settle()
    open()
    await b.clock.settle()
    expect(await quick).toMatchObject({ value: { results: { tracker: { ok: true } } } })
    expect(await slow).toMatchObject({
      value: { results: { tracker: { ok: false }, codehost: { ok: true } } },
    })
    expect(b.stored()).toMatchObject({ tracker: {}, codehost: { token: 'ghp_slow' } })
  })

  test('a key is not saved for another provider than the one that accepted it', async () => {
    const b = createAccountsBench()
    const answer = b.manager.changeCredentials({ trackerApiKey: 'lin_api_x' })
    await b.clock.settle()
    b.edit({ tracker: { driver: 'github' } })
    await b.providers.answer('check tracker', yes('Ada'))
    expect(await answer).toMatchObject({ value: { results: { tracker: { ok: false } } } })
    expect(b.saves).toEqual([])
  })
})

test('when the service stops, pending requests are answered, and nothing is saved', async () => {
  const b = createAccountsBench()
  const answer = b.manager.changeCredentials(KEYS)
  await b.clock.settle()
  b.manager.stop()
  expect(await answer).toMatchObject({
    value: { results: { tracker: { ok: false, detail: 'the service is stopping' } } },
  })
  await b.providers.answer('check tracker', yes('Ada'))
  expect(b.saves).toEqual([])
  expect(await b.manager.changeCredentials({ trackerApiKey: '' })).toMatchObject({ ok: false })
})
