/** `switchyard connect` against a real listener. */
import { expect, test } from '@jest/globals'
import { type ConnectOptions, connect, listConnections } from '../../../bin/cli/settings/connect.ts'
import { yes } from '../../../core/result.ts'
import { configDefaults } from '../../../protocol/config.ts'
import { openCommandHost } from '../../support/command-host.ts'

test('connect alone lists what is connected', async () => {
  const { print } = await openCommandHost()
  const { out } = await print(listConnections, { columns: 60 })
  expect(out).toMatch(/^PROVIDER +STATE +ACCOUNT\ntracker +disconnected +linear\n/)
  const ids = await print(listConnections, { options: { output: 'id' } })
  expect(ids.out).toBe('tracker\ncodehost\nstorage\nclaude\ncodex\ngemini\n')
})

test('a code is printed on standard error, and polling ends when the account is connected', async () => {
  const { print, hostApi } = await openCommandHost()
  const device = { userCode: 'WDJB-MJHT', verificationUri: 'https://host.example/device' }
  hostApi.answers.set(
    'connect',
    yes({ status: 'device', provider: 'codehost', ...device, interval: 0.01, expiresIn: 60 }),
  )
  let polls = 0
  hostApi.pollCodehost = async () =>
    ++polls < 3 ? { status: 'pending' } : { status: 'connected', detail: 'ann', config: configDefaults }
  const { out, err } = await print((context) => connect(context, 'codehost'))
  expect([out, polls]).toEqual(['codehost connected: ann\n', 3])
  expect(err).toMatch(/Open {3}https:\/\/host\.example\/device\nCode {3}WDJB-MJHT .*expires in 1m00s/)
})

const KEPT = { ok: true, detail: 'ann on github.com' }

test('where no login is set up, a terminal names the page and the rights, and asks for a token', async () => {
  const { print, hostApi } = await openCommandHost()
  hostApi.answers.set(
    'connect',
    yes({ status: 'manual', provider: 'codehost', reason: 'no client id is set' }),
  )
  hostApi.answers.set('changeCredentials', yes({ results: { codehost: KEPT }, config: configDefaults }))
  const typed = { columns: 100, isTyped: true, input: 'ghp_typed\n' } as const
  const { out, err } = await print((context) => connect(context, 'codehost'), typed)
  expect(out).toBe('codehost connected: ann on github.com\n')
  expect(err).toMatch(
    /^no client id is set\nMake one: https:\/\/github\.com\/settings\/tokens\/new\?scopes=repo/,
  )
  expect(err).toContain('Rights: repo;')
  expect(err).not.toContain('ghp_typed')
  const sent = { name: 'changeCredentials', args: [{ codehostToken: 'ghp_typed' }] }
  expect(hostApi.providerCalls).toContainEqual(sent)
})

test.each([
  ['tracker', 'trackerApiKey', 'tracker'],
  ['codehost', 'codehostToken', 'codehost'],
  ['storage', 'storageToken', 'storage'],
  ['agentA', 'agentAApiKey', 'claude'],
  ['agentB', 'agentBApiKey', 'codex'],
  ['agentC', 'agentCApiKey', 'gemini'],
] as const)('--token takes that of %s from standard input', async (provider, field, name) => {
  const { print, hostApi } = await openCommandHost()
  hostApi.answers.set('changeCredentials', yes({ results: { [provider]: KEPT }, config: configDefaults }))
  const given = { options: { token: true as const }, input: 'from-a-file\n' }
  const { out, err } = await print<ConnectOptions>((context) => connect(context, provider), given)
  expect([out, err]).toEqual([`${name} connected: ${KEPT.detail}\n`, ''])
  expect(hostApi.providerCalls).toEqual([{ name: 'changeCredentials', args: [{ [field]: 'from-a-file' }] }])
})

test('a token that does not work is refused with the words of its service', async () => {
  const { print, hostApi } = await openCommandHost()
  const results = { codehost: { ok: false, detail: 'bad credentials' } }
  hostApi.answers.set('changeCredentials', yes({ results, config: configDefaults }))
  const given = { options: { token: true as const }, input: 'ghp_dead' }
  await expect(print<ConnectOptions>((context) => connect(context, 'codehost'), given)).rejects.toMatchObject(
    {
      code: 1,
      message: 'the token of GitHub was not kept: bad credentials',
      cure: 'switchyard connect codehost --token',
    },
  )
})

test('without a terminal the option for a token is named', async () => {
  const { print, hostApi } = await openCommandHost()
  hostApi.answers.set('connect', yes({ status: 'manual', provider: 'agentB', reason: 'nobody is logged in' }))
  await expect(print((context) => connect(context, 'agentB'))).rejects.toMatchObject({
    code: 1,
    message: 'nobody is logged in',
    cure: 'switchyard connect codex --token < FILE',
  })
})

test('tickets on GitHub are read with the token of the code host', async () => {
  const { print, hostApi } = await openCommandHost()
  const { tracker } = configDefaults
  hostApi.config = () => ({ ...configDefaults, tracker: { ...tracker, driver: 'github' } })
  const given = { options: { token: true as const } }
  await expect(print<ConnectOptions>((context) => connect(context, 'tracker'), given)).rejects.toMatchObject({
    code: 2,
    cure: 'switchyard connect codehost --token',
  })
  const reason = 'issues are read with a token'
  hostApi.answers.set('connect', yes({ status: 'manual', provider: 'tracker', reason }))
  const connectTracker = () => print<ConnectOptions>((context) => connect(context, 'tracker'))
  await expect(connectTracker()).rejects.toMatchObject({
    code: 1,
    message: reason,
    cure: 'switchyard connect codehost',
  })
  hostApi.trackerStatus = () => ({ state: 'connected' })
  expect((await connectTracker()).out).toMatch(/^tracker connected: .*code host/)
})

test('the real command knows an agent by its name for people', async () => {
  const { run, hostApi } = await openCommandHost()
  hostApi.answers.set('connect', yes({ status: 'manual', provider: 'agentB', reason: 'nobody is logged in' }))
  const { code, err } = await run('connect', 'codex')
  expect([code, err]).toEqual([
    1,
    'switchyard: nobody is logged in\n  try: switchyard connect codex --token < FILE\n',
  ])
  expect((await run('connect', 'agentB')).code).toBe(1)
})

test('the real command refuses another provider with 2', async () => {
  const { run } = await openCommandHost()
  expect((await run('connect', 'moon')).code).toBe(2)
})
