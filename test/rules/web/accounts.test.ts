/** The accounts of the page Connect: states, problems with their places, and what can be disconnected. */
import { expect, test } from '@jest/globals'
import { configDefaults, type ServiceConfig } from '../../../protocol/config.ts'
import { type AccountSource, accountsOf } from '../../../web/dashboard/connect/accounts.ts'

const MASK = '***'
const storage = { installed: true, loggedIn: false, bucket: '', publicBaseUrl: '', ready: false }

function accounts(changes: Partial<ServiceConfig> = {}, source: Partial<AccountSource> = {}) {
  const all = accountsOf({
    config: { ...configDefaults, ...changes },
    tracker: { state: 'disconnected' },
    storage,
    attention: [],
    workers: [],
    ...source,
  })
  return Object.fromEntries(all.map((account) => [account.provider, account]))
}
const { tracker, codehost, agent } = configDefaults

test('without a credential nothing is connected, and each has a field for a key where the host takes one', () => {
  const all = Object.values(accounts())
  expect(all.map(({ provider, state, keyField }) => [provider, state, keyField])).toEqual([
    ['tracker', 'missing', 'trackerApiKey'],
    ['codehost', 'missing', 'codehostToken'],
    ['agentA', 'missing', 'agentAApiKey'],
    ['agentB', 'missing', 'agentBApiKey'],
    ['agentC', 'missing', 'agentCApiKey'],
    ['storage', 'missing', 'storageToken'],
  ])
})

test.each([
  ['auth-error', 'refused'],
  ['refresh-failing', 'waiting'],
  ['connected', 'connected'],
] as const)('a tracker in the state %s is %s', (state, shown) => {
  const found = accounts({}, { tracker: { state, error: 'it answers 401' } }).tracker
  expect(found).toMatchObject({ state: shown, problems: ['it answers 401'] })
})

test('issues that are read with the token of the code host have nothing of their own to disconnect', () => {
  const shared = {
    tracker: { ...tracker, driver: 'github' as const },
    codehost: { ...codehost, token: MASK },
  }
  expect(accounts(shared, { tracker: { state: 'connected' } }).tracker).toMatchObject({
    detail: 'GitHub, with the token of the code host',
    kept: expect.stringMatching(/no token of its own/),
  })
})

test('a folder needs no account', () => {
  const local = { codehost: { driver: 'local' as const, path: '/srv/code' } }
  expect(accounts(local).codehost).toMatchObject({ state: 'folder', detail: 'Folder /srv/code' })
})

test('a refused credential is a problem of its own provider only', () => {
  const config = { agent: { ...agent, agentAApiKey: MASK, agentCApiKey: MASK } }
  const attention = [
    {
      id: 'login:credential of agentA is refused',
      kind: 'login' as const,
      message: 'credential of agentA is refused',
      cure: 'switchyard connect agentA',
      since: '2026-11-23T12:00:00.000Z',
    },
  ]
  const { agentA, agentC } = accounts(config, { attention })
  expect(agentA).toMatchObject({ state: 'refused', problems: ['credential of agentA is refused'] })
  expect(agentC).toMatchObject({ state: 'connected', detail: 'API key', problems: [] })
})

test('a login that works only in the sandbox names the setting', () => {
  const login = { ...agent, agentCLogin: MASK }
  expect(accounts({ agent: login }).agentC?.problems).toEqual([expect.stringContaining('agent.keyInSandbox')])
  expect(accounts({ agent: { ...login, keyInSandbox: true } }).agentC?.problems).toEqual([])
})

test('storage says what is missing after the login', () => {
  const loggedIn = { ...storage, loggedIn: true, account: 'ops@acme.dev' }
  expect(accounts({}, { storage: loggedIn }).storage).toMatchObject({
    state: 'refused',
    detail: 'ops@acme.dev',
    problems: ['storage.bucket is not set.', 'storage.publicBaseUrl is not set.'],
  })
  const ready = { ...loggedIn, bucket: 'runs', publicBaseUrl: 'https://a.example', ready: true }
  expect(accounts({}, { storage: ready }).storage).toMatchObject({
    state: 'connected',
    detail: 'ops@acme.dev, bucket runs',
  })
})
