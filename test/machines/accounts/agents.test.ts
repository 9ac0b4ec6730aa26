/** Connecting agents by their login on this machine, and the status of the bucket's command. */
import { describe, expect, test } from '@jest/globals'
import { no, yes } from '../../../core/result.ts'
import { ConnectResponse, StorageConnectResponse, StorageStatus } from '../../../protocol/connect.ts'
import { createChecker } from '../../../protocol/parse.ts'
import { createAccountsBench } from './accounts-fixture.ts'

const LOGIN = '{"tokens":{"access":"a-very-secret-login"}}'

describe('an agent', () => {
  test('with a key on this machine is connected with the key once it is checked', async () => {
    const b = createAccountsBench({ agent: { agentAApiKey: 'sk-ant-api03-old', agentCApiKey: 'c-key' } })
    const answer = b.manager.connect('agentA')
    await b.clock.settle()
    await b.providers.answer(
      'find agentA',
      yes({ detail: 'a setup token', credential: { agentAOauthToken: 'sk-ant-oat01-found' } }),
    )
    expect(b.saves).toEqual([])
    const { config } = await b.providers.answer('check agentA', yes('works'))
    expect(config?.agent.agentAOauthToken).toBe('sk-ant-oat01-found')
    const connected = await answer
    expect(connected).toMatchObject({
      ok: true,
      value: { status: 'connected', provider: 'agentA', detail: 'a setup token' },
    })
    expect(createChecker(ConnectResponse)(connected.ok ? connected.value : undefined)).toMatchObject({
      ok: true,
    })
    // The found login replaces the agent's credentials; other agents keep theirs.
    expect(b.stored().agent).toEqual({ agentAOauthToken: 'sk-ant-oat01-found', agentCApiKey: 'c-key' })
    expect(JSON.stringify(connected) + b.loggedText()).not.toContain('sk-ant-oat01-found')
  })

  test('with a login on this machine is connected with the login', async () => {
    const b = createAccountsBench()
    const answer = b.manager.connect('agentB')
    await b.clock.settle()
    await b.providers.answer(
      'find agentB',
      yes({ detail: `the login ${LOGIN}`, credential: { agentBLogin: LOGIN } }),
    )
    await b.providers.answer('check agentB', yes('a login'))
    expect(await answer).toMatchObject({ value: { status: 'connected', detail: 'the login ***' } })
    expect(b.stored().agent).toEqual({ agentBLogin: LOGIN })
  })

  test.each([
    no('invalid', 'log in first'),
    no('failed', 'its program broke'),
    no('unavailable', 'too slow'),
  ])('without a login the reply asks for a key and gives the reason: %j', async (refused) => {
    const b = createAccountsBench()
    const answer = b.manager.connect('agentC')
    await b.clock.settle()
    await b.providers.answer('find agentC', refused)
    expect(await answer).toEqual(
      yes({ status: 'manual', provider: 'agentC', reason: refused.refusal.message }),
    )
  })

  test('is not connected with a key that does not work', async () => {
    const b = createAccountsBench()
    const answer = b.manager.connect('agentA')
    await b.clock.settle()
    await b.providers.answer(
      'find agentA',
      yes({ detail: 'a key', credential: { agentAApiKey: 'sk-ant-bad' } }),
    )
    await b.providers.answer('check agentA', no('unauthorized', 'sk-ant-bad is revoked'))
    expect(await answer).toMatchObject({
      value: {
        status: 'manual',
        reason: expect.stringMatching(/^a key .*: \*\*\* is revoked$/),
      },
    })
    expect(b.saves).toEqual([])
  })

  test('receives only its own fields of a found login', async () => {
    const b = createAccountsBench()
    const answer = b.manager.connect('agentB')
    await b.clock.settle()
    await b.providers.answer('find agentB', yes({ detail: 'odd', credential: { agentCLogin: 'not yours' } }))
    expect(await answer).toMatchObject({ value: { status: 'manual' } })
    expect(b.saves).toEqual([])
  })

  test('that a person disconnects during the search stays disconnected', async () => {
    const b = createAccountsBench({ agent: { agentCApiKey: 'c-old' } })
    const answer = b.manager.connect('agentC')
    await b.clock.settle()
    await b.manager.changeCredentials({ agentCApiKey: '' })
    await b.providers.answer('find agentC', yes({ detail: 'a login', credential: { agentCLogin: 'found' } }))
    expect(await answer).toMatchObject({ ok: false, refusal: { kind: 'conflict' } })
    expect(b.stored().agent).toEqual({})
    expect(b.providers.count('check agentC')).toBe(0)
  })

  test('that a person disconnects during the check stays disconnected', async () => {
    const b = createAccountsBench({ agent: { agentCApiKey: 'c-old' } })
    const answer = b.manager.connect('agentC')
    await b.clock.settle()
    await b.providers.answer('find agentC', yes({ detail: 'a login', credential: { agentCLogin: 'found' } }))
    await b.manager.changeCredentials({ agentCApiKey: '' })
    await b.providers.answer('check agentC', yes('a login'))
    expect(await answer).toMatchObject({ ok: false, refusal: { kind: 'conflict' } })
    expect(b.stored().agent).toEqual({})
  })
})

describe('the bucket', () => {
  const set = { storage: { bucket: 'evidence', publicBaseUrl: 'https://cdn.example' } }
  const ready = { installed: true, loggedIn: true, account: 'Acme' }

  test.each([
    [set, ready, true],
    [{ storage: { bucket: 'evidence' } }, ready, false],
    [{ storage: { publicBaseUrl: 'https://cdn.example' } }, ready, false],
    [set, { installed: true, loggedIn: false }, false],
    [set, { installed: false, loggedIn: false }, false],
  ])('is ready when nothing is missing: %j %j', async (stored, state, isReady) => {
    const b = createAccountsBench(stored)
    const status = b.manager.storageStatus()
    await b.providers.answer('bucket status', state)
    const reply = await status
    expect(reply).toEqual({ bucket: '', publicBaseUrl: '', ...stored.storage, ...state, ready: isReady })
    expect(createChecker(StorageStatus)(reply)).toMatchObject({ ok: true })
  })

  test('is checked on each request, and once for concurrent requests', async () => {
    const b = createAccountsBench(set)
    const both = [b.manager.storageStatus(), b.manager.storageStatus()]
    await b.clock.settle()
    await b.providers.answer('bucket status', { ...ready, account: `${'x'.repeat(600)}\u001b` })
    expect((await Promise.all(both)).map(({ account }) => account?.length)).toEqual([512, 512])
    void b.manager.storageStatus()
    await b.clock.settle()
    expect(b.providers.count('bucket status')).toBe(2)
  })

  test('is not ready when its command does not answer or throws', async () => {
    const b = createAccountsBench(set)
    const status = b.manager.storageStatus()
    await b.clock.settle()
    await b.clock.advance(60_000)
    expect(await status).toMatchObject({ loggedIn: false, ready: false })
    const broken = b.manager.storageStatus()
    await b.clock.settle()
    b.providers.take('bucket status')
    b.providers.take('bucket status').fail(new Error('no'))
    expect(await broken).toMatchObject({ loggedIn: false, ready: false })
  })

  const connecting = async (state: object, login?: unknown) => {
    const b = createAccountsBench(set)
    const answer = b.manager.connectStorage()
    await b.providers.answer('bucket status', state)
    if (login !== undefined) await b.providers.answer('login', login)
    const reply = await answer
    expect(createChecker(StorageConnectResponse)(reply)).toMatchObject({ ok: true })
    expect(b.providers.count('login')).toBe(login === undefined ? 0 : 1)
    return reply
  }

  test('that is logged in is connected at once', async () => {
    expect(await connecting(ready)).toMatchObject({ status: 'connected', r2: { ready: true } })
  })

  test('that is not installed returns how to install it', async () => {
    const reply = await connecting({ installed: false, loggedIn: false })
    expect(reply).toMatchObject({ status: 'unavailable', reason: expect.stringContaining('npm install') })
  })

  test('that is not logged in starts one login', async () => {
    const loggedOut = { installed: true, loggedIn: false }
    expect(await connecting(loggedOut, yes('a browser opens'))).toEqual({
      status: 'login-started',
      detail: 'a browser opens',
    })
    expect(await connecting(loggedOut, no('conflict', 'a login is under way'))).toEqual({
      status: 'login-started',
      detail: 'a login is under way',
    })
    expect(await connecting(loggedOut, no('failed', 'it broke'))).toEqual({
      status: 'unavailable',
      reason: 'it broke',
    })
  })
})
