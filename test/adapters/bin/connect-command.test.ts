/** `switchyard connect` against a real listener. */
import { expect, test } from '@jest/globals'
import { connect, listConnections } from '../../../bin/commands/connect.ts'
import { yes } from '../../../core/result.ts'
import { configDefaults } from '../../../protocol/config.ts'
import { openCommandHost } from '../../support/command-host.ts'

test('connect alone lists what is connected', async () => {
  const { print } = await openCommandHost()
  const { out } = await print(listConnections, { columns: 60 })
  expect(out).toMatch(/^PROVIDER +STATE +ACCOUNT\ntracker +disconnected +linear\n/)
  const ids = await print(listConnections, { options: { output: 'id' } })
  expect(ids.out).toBe('tracker\ncodehost\nstorage\nagentA\nagentB\nagentC\n')
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

test('a provider that needs a key by hand exits with 1 and names the setting', async () => {
  const { print, hostApi } = await openCommandHost()
  hostApi.answers.set('connect', yes({ status: 'manual', provider: 'tracker', reason: 'no helper is set' }))
  await expect(print((context) => connect(context, 'tracker'))).rejects.toMatchObject({
    code: 1,
    message: 'no helper is set',
    cure: 'switchyard config set tracker.apiKey < FILE',
  })
})

test('an agent without a key by hand is connected by its own login', async () => {
  const { print, run, hostApi } = await openCommandHost()
  hostApi.answers.set('connect', yes({ status: 'manual', provider: 'agentB', reason: 'nobody is logged in' }))
  const cure = 'codex login, then switchyard connect agentB'
  await expect(print((context) => connect(context, 'agentB'))).rejects.toMatchObject({ code: 1, cure })
  const byHand = await run('config', 'set', 'agent.agentBApiKey', 'sk-1')
  expect([byHand.code, byHand.err]).toEqual([2, expect.stringContaining(`\n  try: ${cure}\n`)])
})

test('the real command refuses another provider with 2', async () => {
  const { run } = await openCommandHost()
  expect((await run('connect', 'moon')).code).toBe(2)
})
