/** Tests of the redaction of secrets, and of parsing the end of a usage limit. */
import { describe, expect, test } from '@jest/globals'
import { parseResetTime } from '../../../../worker/agents/agent-b/listener.ts'
import { createAgentDrivers } from '../../../../worker/agents/registry.ts'
import { AT, taskOf } from './recorded-events.ts'

const drivers = createAgentDrivers({ path: '', home: '/root', hasOwnUsers: false })

test.each(['agentA', 'agentB', 'agentC'] as const)('the secret of %s is redacted from its output', (kind) => {
  const credentials = [
    { kind: 'api-key', value: 'sk-planted-secret-1\n' },
    {
      kind: 'login',
      value: '{"account_id":"harmless-account","tokens":{"access_token":"sk-planted-secret-1"}}',
    },
  ] as const
  for (const credential of credentials) {
    const listener = drivers[kind].createListener(taskOf({ credential }))
    const output = [
      listener.onOutputLine(
        '{"type":"turn.failed","error":{"message":"bad key sk-planted-secret-1 of harmless-account"}}',
        AT,
      ),
      listener.onOutputLine('KEY=sk-planted-secret-1', AT),
      listener.onErrorLine('KEY=sk-planted-secret-1', AT),
      listener.onExit({ code: 1 }, AT),
    ]
    expect(JSON.stringify(output)).not.toContain('planted')
    expect(JSON.stringify(output)).toContain('bad key *** of harmless-account')
  }
})

test('further secrets are redacted too', () => {
  const listener = drivers.agentA.createListener(taskOf({ secrets: ['ghp_planted_token_1\n'] }))
  const output = [listener.onOutputLine('GH_TOKEN=ghp_planted_token_1', AT), listener.onExit({ code: 1 }, AT)]
  expect(JSON.stringify(output)).not.toContain('planted')
  expect(JSON.stringify(output)).toContain('GH_TOKEN=***')
})

test('a secret that a program has coloured is redacted where the colours are removed', () => {
  const listener = drivers.agentA.createListener(taskOf({ secrets: ['ghp_planted_token_1'] }))
  const coloured = 'found \u001b[01;31mghp_\u001b[0mplanted_token_1'
  const message = { type: 'user', text: coloured, [coloured]: [coloured] }
  const output = [
    listener.onOutputLine(JSON.stringify(message), AT),
    listener.onErrorLine(coloured, AT),
    listener.onExit({ code: 1 }, AT),
  ]
  expect(JSON.stringify(output)).not.toContain('ghp_planted')
  expect(JSON.stringify(output).match(/found \*\*\*/g)).toHaveLength(5)
})

describe('a limit ends', () => {
  test.each([
    ['try again at 2:22 AM.', '2026-11-21T02:22:00.000Z'],
    ['try again at 1:29 AM.', '2026-11-22T01:29:00.000Z'],
    ['try again at 12:05 PM', '2026-11-21T12:05:00.000Z'],
    ['Try again at Nov 27th, 2026 4:03 PM.', '2026-11-27T16:03:00.000Z'],
    ['try again in 3 hours 5 minutes', '2026-11-21T04:35:00.000Z'],
    ['Try again in 2 days 1 hour.', '2026-11-23T02:30:00.000Z'],
    ['try again in 45 seconds', '2026-11-21T01:30:45.000Z'],
    ['try again at Nov 27th, 2099 4:03 PM', undefined],
    ['try again later', undefined],
    ['try again in ', undefined],
    ['', undefined],
  ])('%j', (text, expected) => {
    expect(parseResetTime(text, AT)).toBe(expected)
  })
})
