/** The credentials of each agent: where they are sent, in which headers, and what the agent gets instead. */
import { describe, expect, test } from '@jest/globals'
import type { AgentProvider } from '../../../../protocol/agents/registry.ts'
import { type AgentCredential, openModelAccess } from '../../../../worker/model-api/model-access.ts'

const NOW = Date.parse('2026-11-23T10:00:00Z')

function open(provider: AgentProvider, credential: AgentCredential) {
  const opened = openModelAccess(provider, credential, NOW)
  if (!opened.ok) throw new Error(opened.refusal.message)
  return opened.value
}

function token(claims: object): string {
  const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
  return [part({ alg: 'RS256' }), part(claims), 'signature'].join('.')
}

const planLogin = (exp: number) => {
  const id_token = token({
    email: 'person@example.org',
    'https://api.openai.com/auth': { chatgpt_plan_type: 'plus' },
  })
  const tokens = { id_token, access_token: token({ exp }), refresh_token: 'rt_secret', account_id: 'acc-1' }
  return { text: JSON.stringify({ auth_mode: 'chatgpt', OPENAI_API_KEY: null, tokens }), tokens }
}

const login = planLogin(NOW / 1000 + 3600)
const key = (value: string): AgentCredential => ({ kind: 'api-key', value })

test.each<[string, AgentProvider, AgentCredential, string, object]>([
  [
    'agentA key',
    'agentA',
    key('sk-ant-api03-k\n'),
    'https://api.anthropic.com',
    { 'x-api-key': 'sk-ant-api03-k' },
  ],
  [
    'agentA token of a subscription',
    'agentA',
    { kind: 'oauth-token', value: 'sk-ant-oat01-t' },
    'https://api.anthropic.com',
    { authorization: 'Bearer sk-ant-oat01-t', 'anthropic-beta': 'claude-code-1,oauth-2025-04-20' },
  ],
  [
    'agentA token that was given as a key',
    'agentA',
    key('sk-ant-oat01-t'),
    'https://api.anthropic.com',
    { authorization: 'Bearer sk-ant-oat01-t', 'anthropic-beta': 'claude-code-1,oauth-2025-04-20' },
  ],
  ['agentB key', 'agentB', key('sk-proj-k'), 'https://api.openai.com', { authorization: 'Bearer sk-proj-k' }],
  [
    'agentB login with a key',
    'agentB',
    { kind: 'login', value: JSON.stringify({ auth_mode: 'apikey', OPENAI_API_KEY: 'sk-proj-k' }) },
    'https://api.openai.com',
    { authorization: 'Bearer sk-proj-k' },
  ],
  [
    'agentB login of a plan',
    'agentB',
    { kind: 'login', value: login.text },
    'https://chatgpt.com',
    { authorization: `Bearer ${login.tokens.access_token}`, 'chatgpt-account-id': 'acc-1' },
  ],
  [
    'agentC key',
    'agentC',
    key('AIza-k'),
    'https://generativelanguage.googleapis.com',
    { 'x-goog-api-key': 'AIza-k' },
  ],
])('%s', (_name, provider, credential, origin, headers) => {
  const access = open(provider, credential)
  expect(access.origin).toBe(origin)
  expect(access.credentialHeaders({ 'anthropic-beta': 'claude-code-1' })).toEqual(headers)
  for (const secret of access.secrets) expect(JSON.stringify(access.placeholder)).not.toContain(secret)
  expect(access.secrets.join()).not.toBe('')
})

describe('a placeholder', () => {
  test('has the form of the credential', () => {
    expect(open('agentA', key('sk-ant-api03-k')).placeholder).toMatchObject({
      kind: 'api-key',
      value: expect.stringMatching(/^sk-ant-api03-placeholder/),
    })
    expect(open('agentA', key('sk-ant-oat01-k')).placeholder).toMatchObject({
      kind: 'oauth-token',
      value: expect.stringMatching(/^sk-ant-oat01-placeholder/),
    })
  })

  test('of a plan names the plan and nothing of the person', () => {
    const { value } = open('agentB', { kind: 'login', value: login.text }).placeholder
    const { tokens, auth_mode } = JSON.parse(value)
    const claims = JSON.parse(Buffer.from(tokens.id_token.split('.')[1], 'base64url').toString())
    expect(auth_mode).toBe('chatgpt')
    expect(claims['https://api.openai.com/auth'].chatgpt_plan_type).toBe('plus')
    expect(claims.exp * 1000).toBeGreaterThan(NOW)
    expect(Buffer.from(tokens.id_token.split('.')[1], 'base64url').toString()).not.toContain('person')
    expect(value).not.toContain('acc-1')
  })
})

test.each<[string, AgentProvider, AgentCredential, RegExp]>([
  ['a login of agentC', 'agentC', { kind: 'login', value: '{}' }, /works only inside the sandbox/],
  [
    'an expired login of agentB',
    'agentB',
    { kind: 'login', value: planLogin(NOW / 1000 - 1).text },
    /expired at 2026-11-23T09:59:59.000Z; run codex login/,
  ],
  ['a login without tokens', 'agentB', { kind: 'login', value: '{}' }, /no login of Codex/],
  [
    'a key with another header',
    'agentA',
    key('sk\r\nx-evil: 1'.replace('\n', ' ')),
    /characters that no key has/,
  ],
  ['an empty key', 'agentA', key(' \n'), /empty/],
])('%s is refused', (_name, provider, credential, reason) => {
  const opened = openModelAccess(provider, credential, NOW)
  expect(opened.ok ? '' : opened.refusal.message).toMatch(reason)
})
